"""One request and the reading of its stream, the same for every SDK: opened, folded, closed."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from dex_agents.builtin_loop.contract import ModelResponse
from dex_agents.builtin_loop.json_values import is_json_object
from dex_agents.builtin_loop.model_clients.provider_errors import build_call_error
from dex_agents.errors import ModelCallError
from dex_agents.runner.event_writer import AgentEventWriter

__all__ = ["AnswerFold", "ClientOfEachLoop", "EventStream", "read_answer", "require_sdk"]

_EVENT_STREAM: Final = "text/event-stream"
_EVENT_STREAMS: Final = (_EVENT_STREAM, "application/vnd.amazon.eventstream")
"""The second is Bedrock's, which its own SDK client decodes."""


class AnswerFold(Protocol):
    """Folds the events of one answer."""

    def feed(self, event: dict[str, Any], events: AgentEventWriter) -> None:
        """Take the next event.

        Raises:
            ModelCallError: It says that the answer failed.
        """
        ...

    def finish(self) -> ModelResponse:
        """Return the whole answer.

        Raises:
            ModelCallError: The events ended before the answer did.
        """
        ...


class _Answered(Protocol):
    @property
    def headers(self) -> Mapping[str, str]: ...


class EventStream(Protocol):
    """The stream of either SDK."""

    @property
    def response(self) -> _Answered:
        """The HTTP answer that it reads."""
        ...

    def __aiter__(self) -> AsyncIterator[object]:
        """Read the events, decoded from JSON."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


async def read_answer(
    provider: str,
    open_stream: Callable[[], Awaitable[EventStream]],
    fold: AnswerFold,
    events: AgentEventWriter,
    sdk_errors: tuple[type[Exception], ...],
) -> ModelResponse:
    """Make one request and return its whole answer.

    The connection is closed on every way out, a cancellation included.

    Args:
        provider: Named in errors.
        open_stream: Sends the request.
        fold: Takes the events.
        events: Speaks to live viewers.
        sdk_errors: What the SDK and its HTTP client raise.

    Raises:
        ModelCallError: Whatever went wrong; a `ModelCallRefusedError` when it always will.
    """
    try:
        async with await open_stream() as stream:
            content_type = stream.response.headers.get("content-type", "")
            if not content_type.lower().startswith(_EVENT_STREAMS):
                shown = content_type.partition(";")[0][:100] or "no content type"
                raise ModelCallError(provider, f"answered with {shown} in place of {_EVENT_STREAM}")
            try:
                async for event in stream:
                    if is_json_object(event):
                        fold.feed(event, events)
            except ValueError as error:
                # The SDK decodes what comes; the folds take any JSON and raise no such error.
                raise ModelCallError(provider, "sent an event that is not JSON") from error
        return fold.finish()
    except sdk_errors as error:
        raise _describe(provider, error) from error


def require_sdk(package: str) -> None:
    """Check that an optional SDK is installed, without the seconds that its import takes.

    Raises:
        ImportError: It is not; the text names the extra.
    """
    if importlib.util.find_spec(package) is None:
        raise ImportError(
            f'the {package} SDK is not installed: pip install "dex-agents-native[{package}]"', name=package
        )


ClientT = TypeVar("ClientT")


class ClientOfEachLoop(Generic[ClientT]):
    """The SDK client of each event loop: its connections belong to the loop that opened them."""

    def __init__(self, build: Callable[[], ClientT], close: Callable[[ClientT], Awaitable[None]]) -> None:
        """Keep how a client is made; the first call makes it.

        Args:
            build: Imports the SDK, and so may take seconds in the first call.
            close: Closes a client.
        """
        self._build = build
        self._close = close
        self._clients: dict[asyncio.AbstractEventLoop, asyncio.Future[ClientT]] = {}

    async def get(self) -> ClientT:
        """Return the client of the running loop."""
        loop = asyncio.get_running_loop()
        self._clients = {one: client for one, client in self._clients.items() if not one.is_closed()}
        building = self._clients.get(loop)
        if building is None or (building.done() and (building.cancelled() or building.exception())):
            # In a thread: an import of seconds would hold up every other session of the Worker.
            building = loop.run_in_executor(None, self._build)
            self._clients[loop] = building
        return await asyncio.shield(building)

    async def aclose(self) -> None:
        """Close the client of the running loop; a later call makes a new one."""
        building = self._clients.pop(asyncio.get_running_loop(), None)
        if building is not None and building.done() and not building.cancelled() and not building.exception():
            await self._close(building.result())


def _describe(provider: str, error: Exception) -> ModelCallError:
    response: Any = getattr(error, "response", None)
    status: Any = getattr(error, "status_code", None)
    return build_call_error(
        provider,
        str(error) or type(error).__name__,
        status=status if isinstance(status, int) else None,
        body=getattr(error, "body", None),
        headers=None if response is None else response.headers,
    )
