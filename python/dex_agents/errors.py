"""Every exception that this package raises on purpose.

::

    DexAgentsError
    ├── SessionError                     a call on a session could not be served
    │   ├── SessionNotFoundError         no session has this ID
    │   ├── SessionAlreadyExistsError    the ID belongs to another session
    │   ├── SessionClosedError           the session takes no more commands
    │   ├── SessionTimeoutError          a wait reached the bound its caller set
    │   └── SessionUnavailableError      no Worker or no engine answered in time
    ├── InvalidInputError (ValueError)   a value of the caller breaks a limit or a rule
    ├── ToolDeclarationError (ValueError, TypeError)   a tool was declared wrongly
    ├── ToolExecutionError               the tool failed and the outcome is known
    ├── ToolOutcomeUnknownError          the tool may or may not have taken effect
    ├── ToolSourceUnavailableError       this Worker's agent lacks the tool source of a call
    ├── ModelCallError                   a model call failed; another attempt may succeed
    │   └── ModelCallRefusedError        the provider will not answer this call, however often it is asked
    ├── AttemptFailedError               an attempt failed with an error that a Step cannot raise itself
    ├── ImageValidationError             bytes or a reference are no image that is accepted
    ├── MediaStoreError                  a media store could not keep an image or give it back
    ├── RunnerContractError              a runner broke the contract of `dex_agents.runner`
    ├── WireFormatError                  stored bytes cannot be read by this version
    └── EngineError                      the local engine cannot start or go on
        ├── EngineDatabaseError          the file is not a usable engine database
        ├── EngineInUseError             another engine process holds the database
        ├── EngineAddressError           the listening address is taken or malformed
        └── EngineUnreachableError       no engine answers at the address of a Worker

Data rides on attributes; messages carry no secret, prompt or image byte.
Errors that cross a Step are `RuntimeError` subclasses on purpose: the SDK rewrites `TypeError` and
`ValueError` raised by a handler and the original class would be lost.
"""

from __future__ import annotations

__all__ = [
    "AttemptFailedError",
    "DexAgentsError",
    "EngineAddressError",
    "EngineDatabaseError",
    "EngineError",
    "EngineInUseError",
    "EngineUnreachableError",
    "ImageValidationError",
    "InvalidInputError",
    "MediaStoreError",
    "ModelCallError",
    "ModelCallRefusedError",
    "RunnerContractError",
    "SessionAlreadyExistsError",
    "SessionClosedError",
    "SessionError",
    "SessionNotFoundError",
    "SessionTimeoutError",
    "SessionUnavailableError",
    "ToolDeclarationError",
    "ToolExecutionError",
    "ToolOutcomeUnknownError",
    "ToolSourceUnavailableError",
    "WireFormatError",
]


class DexAgentsError(Exception):
    """The root: catching it catches everything this package raises on purpose."""


class SessionError(DexAgentsError, RuntimeError):
    """A call on a session could not be served.

    Attributes:
        session_id: The session that was addressed.
    """

    def __init__(self, session_id: str, message: str) -> None:
        super().__init__(message)
        self.session_id = session_id


class SessionNotFoundError(SessionError):
    """No session has this ID on the engine that the client talks to."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id, f"no session has the ID {session_id!r}")


class SessionAlreadyExistsError(SessionError):
    """The ID was used before, so no second session was started under it."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id, f"the session ID {session_id!r} is already in use")


class SessionClosedError(SessionError):
    """The session has ended; its snapshot stays readable and it takes no more commands."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id, f"the session {session_id!r} is closed")


class SessionTimeoutError(SessionError):
    """A wait reached the bound that its caller set; the session itself goes on.

    Attributes:
        seconds: The bound that was reached.
    """

    def __init__(self, session_id: str, awaited: str, seconds: float) -> None:
        super().__init__(
            session_id, f"the session {session_id!r} did not become {awaited} within {seconds:g} s"
        )
        self.seconds = seconds


class SessionUnavailableError(SessionError):
    """No Worker or no engine answered in time, so it is not known whether the call took effect.

    Sending the same message again with the same `message_id` is safe: it stays one message.
    """


class InvalidInputError(DexAgentsError, ValueError):
    """A value given by the caller breaks a limit or a rule; nothing was stored or sent.

    Attributes:
        field: The name of the offending argument or field.
        problem: What is wrong with it, and the limit that it breaks.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class ToolDeclarationError(DexAgentsError, ValueError, TypeError):
    """A tool was declared wrongly; raised at construction, never inside a running turn.

    Attributes:
        tool_name: The tool as it was named.
    """

    def __init__(self, tool_name: str, problem: str) -> None:
        super().__init__(f"tool {tool_name!r}: {problem}")
        self.tool_name = tool_name


class ToolExecutionError(DexAgentsError, RuntimeError):
    """The tool failed and the outcome is known and final: it is recorded `failed` and never retried.

    Raise it from a tool body when retrying cannot help; the model reads the text.
    """


class ToolOutcomeUnknownError(DexAgentsError, RuntimeError):
    """The tool may or may not have taken effect: recorded `outcome_unknown`, never sent again."""


class ToolSourceUnavailableError(DexAgentsError, RuntimeError):
    """This Worker's agent has no tool source that could serve the call; a Worker of another version may have.

    Attributes:
        tool_source_reference: What the call was deferred with.
        tool_name: The tool.
    """

    def __init__(self, tool_source_reference: str, tool_name: str) -> None:
        super().__init__(f"no tool source of this agent serves {tool_name!r} ({tool_source_reference!r})")
        self.tool_source_reference = tool_source_reference
        self.tool_name = tool_name


class ModelCallError(DexAgentsError, RuntimeError):
    """A model call failed, and another attempt may succeed: the attempt of its Step fails.

    Attributes:
        provider: The provider that was called.
        status: The HTTP status that it answered with, or `None` when there was no answer.
        retry_after_seconds: How long the provider asked to be left alone, at least 1; `None` when it did not
            say. The Step is then attempted again at that time.
    """

    def __init__(
        self,
        provider: str,
        problem: str,
        *,
        status: int | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(f"{provider}: {problem}")
        self.provider = provider
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class ModelCallRefusedError(ModelCallError):
    """The provider will not answer this call, however often it is asked: the turn ends, and says why.

    A wrong key, an account without credit, a request that it does not accept, a conversation too long for it.
    """


class AttemptFailedError(DexAgentsError, RuntimeError):
    """An attempt failed with a `TypeError`, `ValueError` or `SystemExit` of application code.

    The SDK takes those for mistakes of the Step itself and rewrites them. The message is the class and the
    text of the original, which is also the cause.
    """


class ImageValidationError(DexAgentsError, RuntimeError):
    """Bytes or an image reference were refused; nothing was stored.

    Attributes:
        field: The offending field of the reference, such as `images[3].sha256`, or `data` for bytes.
        problem: What is wrong with it, and the limit that it breaks.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class MediaStoreError(DexAgentsError, RuntimeError):
    """A media store could not keep an image or give it back; another attempt may succeed.

    Attributes:
        uri: The image, or the location of the store when it is about no single image.
    """

    def __init__(self, uri: str, problem: str) -> None:
        super().__init__(f"{uri}: {problem}")
        self.uri = uri


class RunnerContractError(DexAgentsError, RuntimeError):
    """A runner returned something that the session cannot store or follow."""


class WireFormatError(DexAgentsError, RuntimeError):
    """Stored bytes cannot be read by this version; nothing is guessed and nothing is overwritten.

    Attributes:
        room: The kind of value, such as `AgentToolCall`.
        field: The field that could not be read, or `""` when the value as a whole could not.
        found_version: The version that wrote the value, or `None` when it is not a value of ours.
    """

    def __init__(self, room: str, problem: str, *, field: str = "", found_version: int | None = None) -> None:
        place = f"{room}.{field}" if field else room
        super().__init__(f"{place}: {problem}")
        self.room = room
        self.field = field
        self.found_version = found_version


class EngineError(DexAgentsError, RuntimeError):
    """The local engine cannot start or go on."""


class EngineDatabaseError(EngineError):
    """The file is unreadable, is not an engine database, or was written by a newer version.

    Attributes:
        path: The database file.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


class EngineInUseError(EngineError):
    """Another engine holds the database.

    Attributes:
        path: The database file.
        pid: The process that holds it, or `None` when it could not be read.
    """

    def __init__(self, path: str, pid: int | None) -> None:
        holder = "another engine" if pid is None else f"the engine process {pid}"
        super().__init__(f"{path}: the database is in use by {holder}")
        self.path = path
        self.pid = pid


class EngineAddressError(EngineError):
    """The listening address is malformed or taken by another process.

    Attributes:
        address: The address as it was given.
    """

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(f"{address}: {problem}")
        self.address = address


class EngineUnreachableError(EngineError):
    """No engine answers at the address that a Worker was given.

    Attributes:
        address: The address as it was given.
    """

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(f"no engine answers at {address!r}: {problem}")
        self.address = address
