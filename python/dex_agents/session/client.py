"""Starting sessions and talking to them."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Final, Self, TypeVar

import msgspec
from dex import (
    ActiveStepSearchMode,
    AsyncClient,
    Attribute,
    AttributeMatch,
    ClientOptions,
    DexServiceError,
    FlowConfig,
    FlowNotActiveOrNotFoundError,
    IdReusePolicy,
    LongPollTimeoutError,
    RequestTimeoutError,
    RPCInvokeOptions,
    StartFlowOptions,
    WaitForAttributeOptions,
    WorkerTarget,
)

from dex_agents.codecs.attributes import build_session_registry
from dex_agents.errors import InvalidInputError, SessionClosedError, SessionTimeoutError
from dex_agents.session.blob_cache import FetchingBlobCache
from dex_agents.session.calls import SessionCalls
from dex_agents.session.events import SessionEvents
from dex_agents.session.flow import AgentSessionFlow
from dex_agents.session.input_checks import (
    find_text_refusal,
    require_identifier,
    require_json_object,
    require_user_text,
)
from dex_agents.session.persistence import (
    INTERRUPTS,
    MILESTONE,
    RECEIPTS,
    STATUS,
    TOOL_CALLS,
    map_instance,
    message_receipt_id,
)
from dex_agents.session.runtime import utc_now
from dex_agents.session.transitions.tool_calls import interrupt_tool_call_id
from dex_agents.wire.interrupts import AgentInterrupt
from dex_agents.wire.messages import AgentUserMessage
from dex_agents.wire.rpc_values import (
    CancelTurnRequest,
    CloseSessionRequest,
    CommandReply,
    ResolveInterruptRequest,
    SendUserMessageRequest,
)
from dex_agents.wire.sessions import SessionSummary
from dex_agents.wire.signals import CommandReceipt
from dex_agents.wire.snapshots import AgentSnapshot, SessionProgress
from dex_agents.wire.step_inputs import SessionStepInput
from dex_agents.wire.tool_calls import ApprovalDecision

__all__ = ["AgentSessionClient", "WaitingSession"]

ValueT = TypeVar("ValueT")

_SEARCH_PAGE: Final = 100
_POLL_SECONDS: Final = 20.0


class WaitingSession(msgspec.Struct, frozen=True):
    """A session that waits on a person.

    Attributes:
        session_id: The session.
        interrupts: What it asks, oldest first.
    """

    session_id: str
    interrupts: tuple[AgentInterrupt, ...]


class _Bound:
    """How long a caller is willing to wait, and for what."""

    def __init__(self, awaited: str, seconds: float) -> None:
        self._awaited = awaited
        self._seconds = seconds
        self.deadline = time.monotonic() + seconds

    def require_time(self, session_id: str) -> float:
        """Return the seconds that are left, or say that the wait is over."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise SessionTimeoutError(session_id, self._awaited, self._seconds)
        return left


class AgentSessionClient:
    """Talks to the sessions of one Flow.

    Where a method returns `bool`, `True` means that *this* call took effect, and `False` that it was done
    before or that there was nothing to do; nothing changed then. A call that meets a restarting engine is
    repeated by itself for a few seconds, and takes effect once all the same.

    Every method raises `SessionNotFoundError`, `SessionClosedError` or `SessionUnavailableError` where it
    applies.
    """

    def __init__(self, client: AsyncClient, flow: AgentSessionFlow) -> None:
        """Wrap a client of the SDK, whose Registry came from `build_session_registry` with this same flow.

        Args:
            client: The SDK's client; its owner closes it.
            flow: The sessions' Flow.
        """
        self._client = client
        self._flow = flow
        self._calls = SessionCalls(client)

    @classmethod
    @asynccontextmanager
    async def connect(cls, flow: AgentSessionFlow, *, server_address: str) -> AsyncGenerator[Self, None]:
        """Open a client of its own for one Flow and close it afterwards.

        Args:
            flow: The sessions' Flow.
            server_address: The engine, such as `LocalEngine.server_address` or a Dex Server's address.
        """
        cache = FetchingBlobCache(server_address)
        options = ClientOptions(server_address=server_address, worker_target=WorkerTarget(pull=True))
        client = AsyncClient(build_session_registry(flow), cache, options)
        try:
            yield cls(client, flow)
        finally:
            await client.close()
            cache.close()

    async def start_session(
        self,
        session_id: str,
        *,
        first_message: str | AgentUserMessage | None = None,
        start_environment: dict[str, str] | None = None,
    ) -> None:
        """Start a session.

        Args:
            session_id: Names it for ever; at most 256 characters, none of `/`, `$`, `:` or a control
                character.
            first_message: Begins the first turn in the same commit.
            start_environment: Says where this program ran; kept with the session, never read.

        Raises:
            SessionAlreadyExistsError: The ID was used before.
            InvalidInputError: The ID or the message breaks a rule.
        """
        require_identifier("session_id", session_id, forbidden="/$:")
        checked = None if first_message is None else _checked_message(first_message)
        start = SessionStepInput(start_environment=start_environment or {}, first_message=checked)
        request_id = uuid.uuid4().hex
        options = StartFlowOptions(
            id_reuse_policy=IdReusePolicy.DISALLOW,
            ignore_already_started=True,
            request_id=request_id,
            config_override=FlowConfig(active_step_search_mode=ActiveStepSearchMode.WITH_WAIT_FOR),
        )
        if checked is not None:
            refusal = find_text_refusal(self._flow.runner, checked.text)
            if refusal is not None:
                raise InvalidInputError("first_message", refusal)
            receipt = map_instance(message_receipt_id(checked.message_id or ""))
            options = options.with_attribute(RECEIPTS, receipt, CommandReceipt(request_id, utc_now()))
        await self._calls.repeat(
            session_id, lambda: self._client.start_flow(self._flow, session_id, start, options)
        )

    async def send_user_message(self, session_id: str, message: str | AgentUserMessage) -> bool:
        """Send a message: it begins a turn, or waits until the turns before it are over.

        Args:
            session_id: The session.
            message: The text, or a message with an ID of its own: the same ID twice is one message.

        Returns:
            `False` when a message with this ID was accepted before.

        Raises:
            InvalidInputError: The text is blank or longer than `limits.MAX_USER_TEXT_BYTES`.
        """
        checked = _checked_message(message)
        instance = map_instance(message_receipt_id(checked.message_id or ""))
        request = SendUserMessageRequest(checked.message_id or "", checked.text, uuid.uuid4().hex)
        options = RPCInvokeOptions(
            lock_attribute_map_instances=(RECEIPTS.lock(instance),),
            load_attribute_map_instances=(RECEIPTS.load(instance),),
        )
        reply = await self._calls.repeat(
            session_id,
            lambda: self._client.invoke_rpc(
                self._flow.send_user_message, session_id, request, options=options
            ),
        )
        return _took_effect(session_id, reply)

    async def resolve_interrupt(
        self,
        session_id: str,
        interrupt_id: str,
        decision: ApprovalDecision,
        *,
        reason: str | None = None,
        arguments: str | None = None,
    ) -> bool:
        """Decide whether a tool call may run.

        Args:
            session_id: The session.
            interrupt_id: From `AgentInterrupt.interrupt_id`; two open questions are never mixed up.
            decision: `"approve"` or `"reject"`.
            reason: Shown to the model on a rejection.
            arguments: JSON text of an object to run instead; checked against the tool's schema.

        Returns:
            `False` when somebody decided before or the question fell away.

        Raises:
            InvalidInputError: The decision or the arguments break a rule; the question stays open.
        """
        require_identifier("interrupt_id", interrupt_id)
        if decision not in ("approve", "reject"):
            raise InvalidInputError("decision", 'must be "approve" or "reject"')
        if reason is not None:
            reason = require_user_text("reason", reason)
        if arguments is not None:
            if decision == "reject":
                raise InvalidInputError("arguments", "only an approval can change them")
            require_json_object("arguments", arguments)
        instance = map_instance(interrupt_id)
        request = ResolveInterruptRequest(
            interrupt_id, decision, uuid.uuid4().hex, reason=reason, arguments=arguments
        )
        options = RPCInvokeOptions(
            load_attribute_map_instances=(
                RECEIPTS.load(instance),
                INTERRUPTS.load(instance),
                TOOL_CALLS.load(map_instance(interrupt_tool_call_id(interrupt_id))),
            ),
        )
        reply = await self._calls.repeat(
            session_id,
            lambda: self._client.invoke_rpc(
                self._flow.resolve_interrupt, session_id, request, options=options
            ),
        )
        return _took_effect(session_id, reply)

    async def cancel_turn(self, session_id: str, turn_id: str | None = None) -> bool:
        """Cancel the running turn.

        Calls that were not started do not run; running ones are told, and have
        `AgentSessionOptions.cancel_grace` to end with a known result.

        Args:
            session_id: The session.
            turn_id: Cancel only this turn.

        Returns:
            `False` when no such turn runs or it is being cancelled already.
        """
        request = CancelTurnRequest(uuid.uuid4().hex, turn_id)
        reply = await self._calls.repeat(
            session_id, lambda: self._client.invoke_rpc(self._flow.cancel_turn, session_id, request)
        )
        return _took_effect(session_id, reply)

    async def close_session(self, session_id: str, *, timeout: float = 60.0) -> SessionSummary:
        """End a session and wait until it has ended; one that has ended already is left as it is.

        A running turn is cancelled first; messages that no turn took are kept in the transcript.

        Args:
            session_id: The session.
            timeout: Seconds to wait for the end.

        Raises:
            SessionTimeoutError: It has not ended yet; it will.
        """
        bound = _Bound("closed", timeout)
        request = CloseSessionRequest(uuid.uuid4().hex)
        with suppress(SessionClosedError):  # Somebody else closed it: the summary is the same.
            await self._calls.repeat(
                session_id, lambda: self._client.invoke_rpc(self._flow.close_session, session_id, request)
            )
        while True:
            left = bound.require_time(session_id)
            poll = timedelta(seconds=math.ceil(min(left, _POLL_SECONDS)))
            wait = partial(self._client.wait_for_flow, session_id, poll)
            with suppress(LongPollTimeoutError, RequestTimeoutError):
                return (await self._calls.repeat(session_id, wait)).single_output(SessionSummary)

    async def get_agent_snapshot(self, session_id: str) -> AgentSnapshot:
        """Return the whole session as of one commit; also after it closed."""
        cursor = await self._calls.repeat(session_id, lambda: self._latest_cursor(session_id))
        snapshot = await self._calls.repeat(
            session_id, lambda: self._client.invoke_rpc(self._flow.get_agent_snapshot, session_id)
        )
        return msgspec.structs.replace(snapshot, event_cursor=cursor)

    async def get_progress(self, session_id: str) -> SessionProgress:
        """Return where a session stands; cheap, however long it is."""
        return await self._calls.repeat(
            session_id, lambda: self._client.invoke_rpc(self._flow.get_progress, session_id)
        )

    def events(self, session_id: str, *, cursor: str | None = None) -> SessionEvents:
        """Return the session's live events, from a cursor or from the oldest one that is kept."""
        return SessionEvents(self._client, self._flow.event_stream, session_id, cursor)

    async def wait_for_idle(self, session_id: str, *, timeout: float = 60.0) -> SessionProgress:
        """Wait until no turn runs and no message is queued, or the session has closed.

        Args:
            session_id: The session.
            timeout: Seconds to wait.

        Raises:
            SessionTimeoutError: The session is still busy, or waits on a person.
        """
        bound = _Bound("idle", timeout)
        await self._wait_for(session_id, STATUS, AttributeMatch[str].equal_to("idle"), bound)
        # The status may have been read just as a message came in: then another turn is certain to end.
        while _is_busy(progress := await self.get_progress(session_id)):
            await self._wait_for_milestone(session_id, progress, bound)
        return progress

    async def wait_for_attention(self, session_id: str, *, timeout: float = 60.0) -> SessionProgress:
        """Wait until the session needs somebody: it asks a person, is idle, or has closed.

        The live events tell the same earlier, but not yet committed; what this returns can be acted on.

        Args:
            session_id: The session.
            timeout: Seconds to wait.

        Returns:
            Where the session stands; `interrupts` holds what it asks.

        Raises:
            SessionTimeoutError: The session is still busy.
        """
        bound = _Bound("idle or waiting", timeout)
        while _is_busy(progress := await self.get_progress(session_id)) and not progress.interrupts:
            await self._wait_for_milestone(session_id, progress, bound)
        return progress

    async def waiting_sessions(self) -> AsyncIterator[WaitingSession]:
        """Find every session of this Flow that waits on a person, with what to show."""
        query = f'FlowType = "{self._flow.get_flow_type()}" AND ActiveStepTypes = "AwaitToolApproval"'
        token = ""
        while True:
            page = await self._client.search_flows(query, _SEARCH_PAGE, token)
            for entry in page.flows:
                progress = await self.get_progress(entry.flow_id)
                if progress.interrupts:
                    yield WaitingSession(entry.flow_id, progress.interrupts)
            token = page.next_page_token
            if not token:
                return

    async def _wait_for_milestone(self, session_id: str, seen: SessionProgress, bound: _Bound) -> None:
        later = AttributeMatch[int].greater_than(seen.milestone)
        await self._wait_for(session_id, MILESTONE, later, bound)

    async def _wait_for(
        self,
        session_id: str,
        attribute: Attribute[ValueT],
        match: AttributeMatch[ValueT],
        bound: _Bound,
    ) -> None:
        """Return when an Attribute matches, or when the session has ended."""
        while True:
            left = bound.require_time(session_id)
            # The engine counts whole seconds, so the last bit is cut off on this side.
            whole_seconds = timedelta(seconds=math.ceil(min(left, _POLL_SECONDS)))
            options = WaitForAttributeOptions(request_timeout=whole_seconds)
            wait = self._client.wait_for_attribute_match(session_id, attribute, match, options)
            try:
                await asyncio.wait_for(wait, left)
                return
            except (TimeoutError, LongPollTimeoutError, RequestTimeoutError):
                continue
            except FlowNotActiveOrNotFoundError:
                return
            except DexServiceError as error:
                await self._calls.pause_or_raise(session_id, error, bound.deadline)

    async def _latest_cursor(self, session_id: str) -> str | None:
        page = await self._client.list_stream_messages(session_id, self._flow.event_stream, 1)
        return page.messages[0].resume_token if page.messages else None


def _is_busy(progress: SessionProgress) -> bool:
    return progress.status == "running" or progress.queued_message_count > 0


def _checked_message(message: str | AgentUserMessage) -> AgentUserMessage:
    if isinstance(message, str):
        message = AgentUserMessage(message)
    text = require_user_text("text", message.text)
    if message.message_id is None:
        return AgentUserMessage(text, uuid.uuid4().hex)
    return AgentUserMessage(text, require_identifier("message_id", message.message_id))


def _took_effect(session_id: str, reply: CommandReply) -> bool:
    match reply.verdict:
        case "applied":
            return True
        case "already_done":
            return False
        case "session_closing":
            raise SessionClosedError(session_id)
        case "invalid":
            raise InvalidInputError(reply.field, reply.problem)
