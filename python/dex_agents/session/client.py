"""Starting sessions and talking to them."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final, Self, TypeVar

import msgspec
from dex import (
    ActiveStepSearchMode,
    AsyncClient,
    Attribute,
    AttributeMatch,
    ClientOptions,
    Context,
    DexServiceError,
    FlowConfig,
    FlowNotActiveOrNotFoundError,
    IdReusePolicy,
    LongPollTimeoutError,
    RequestTimeoutError,
    RPCInvokeOptions,
    RPCResult,
    StartFlowOptions,
    WaitForAttributeOptions,
    WorkerTarget,
)

from dex_agents.codecs.attributes import build_session_registry
from dex_agents.codecs.events import decode_events
from dex_agents.errors import InvalidInputError, SessionClosedError, SessionTimeoutError
from dex_agents.session.blob_cache import FetchingBlobCache
from dex_agents.session.calls import SessionCalls
from dex_agents.session.event_cursor import EventCursor
from dex_agents.session.events import SessionEvents
from dex_agents.session.flow import AgentSessionFlow
from dex_agents.session.input_checks import (
    find_text_refusal,
    require_identifier,
    require_json_object,
    require_session_settings,
    require_user_text,
)
from dex_agents.session.persistence import (
    INTERRUPTS,
    MILESTONE,
    RECEIPTS,
    SETTINGS,
    STATUS,
    TOOL_CALLS,
    map_instance,
    message_receipt_id,
    plan_receipt_id,
    settlement_receipt_id,
)
from dex_agents.session.runtime import utc_now
from dex_agents.session.transitions.event_filter import EventFilter
from dex_agents.session.transitions.interrupts import interrupt_tool_call_id
from dex_agents.wire.interrupts import AgentInterrupt, InterruptKind
from dex_agents.wire.messages import AgentUserMessage, QueuedMessage
from dex_agents.wire.rpc_values import (
    AnswerQuestionRequest,
    ApprovePlanRequest,
    CancelTurnRequest,
    CloseSessionRequest,
    CommandReply,
    ResolveInterruptRequest,
    SendUserMessageRequest,
    SettledAs,
    SettleToolOutcomeRequest,
    UpdateSessionSettingsRequest,
    WithdrawMessageRequest,
)
from dex_agents.wire.sessions import SessionSummary
from dex_agents.wire.settings import SessionSettings
from dex_agents.wire.signals import CommandReceipt
from dex_agents.wire.snapshots import AgentSnapshot, SessionProgress
from dex_agents.wire.step_inputs import SessionStepInput
from dex_agents.wire.tool_calls import Answer, ApprovalDecision

__all__ = ["AgentSessionClient", "WaitingSession"]

ValueT = TypeVar("ValueT")
RequestT = TypeVar("RequestT")

_NOTHING_MORE: Final = RPCInvokeOptions()
_SEARCH_PAGE: Final = 100

_FIRST_EVENT_PAGE: Final = 4
"""Enough for a session whose latest turn is over: the turn's end is its newest event."""

_EVENT_PAGE: Final = 64
_WAITING_STEPS: Final[Mapping[InterruptKind, str]] = {
    "approval": "AwaitToolApproval",
    "question": "AwaitQuestionAnswer",
    "wait": "AwaitWaitEnd",
    "task": "PollToolTask",
}
_POLL_SECONDS: Final = 20.0


class WaitingSession(msgspec.Struct, frozen=True):
    """A session that waits.

    Attributes:
        session_id: The session.
        interrupts: What it waits on, of the kinds that were asked for, oldest first.
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
        session_settings: Mapping[str, Any] | None = None,
        start_environment: dict[str, str] | None = None,
    ) -> None:
        """Start a session.

        Args:
            session_id: Names it for ever; at most 256 characters, none of `/`, `$`, `:` or a control
                character.
            first_message: Begins the first turn in the same commit.
            session_settings: A JSON object for the agent to read at every model call; no place for secrets.
            start_environment: Says where this program ran; kept with the session, never read.

        Raises:
            SessionAlreadyExistsError: The ID was used before.
            InvalidInputError: The ID, the message or the settings break a rule.
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
            if checked.plan_mode and not self._flow.options.plan_mode_enabled:
                raise InvalidInputError("plan_mode", "this agent has no plan mode")
            refusal = find_text_refusal(self._flow.runner, checked.text)
            if refusal is not None:
                raise InvalidInputError("first_message", refusal)
            receipt = map_instance(message_receipt_id(checked.message_id or ""))
            options = options.with_attribute(RECEIPTS, receipt, CommandReceipt(request_id, utc_now()))
        if session_settings is not None:
            settings = SessionSettings(require_session_settings("session_settings", session_settings))
            options = options.with_attribute(SETTINGS, settings)
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
        return await self._send(session_id, self._flow.send_user_message, message)

    async def steer_user_message(self, session_id: str, message: str | AgentUserMessage) -> bool:
        """Send a message that joins the running turn before its next model call.

        Running tool calls finish. What the turn waits on a person or a point in time for ends at once as
        `not_run`, and the model reads the message next. A message that comes after the turn's last model call
        was made begins the next turn, before anything queued; without a turn it is an ordinary message.

        Args:
            session_id: The session.
            message: The text, or a message with an ID of its own: the same ID twice is one message.

        Returns:
            `False` when a message with this ID was accepted before.

        Raises:
            InvalidInputError: The text is blank or longer than `limits.MAX_USER_TEXT_BYTES`.
        """
        return await self._send(session_id, self._flow.steer_user_message, message)

    async def list_queued_messages(self, session_id: str) -> tuple[QueuedMessage, ...]:
        """Return the accepted messages that no turn has taken, in the order in which turns will take them."""
        queued = await self._calls.repeat(
            session_id, lambda: self._client.invoke_rpc(self._flow.list_queued_messages, session_id)
        )
        return queued.messages

    async def withdraw_message(self, session_id: str, message_id: str) -> bool:
        """Take back a queued message.

        Args:
            session_id: The session.
            message_id: From `QueuedMessage.message_id`.

        Returns:
            `False` when a turn has taken it, it is to steer a turn, or there is no such message.
        """
        require_identifier("message_id", message_id)
        request = WithdrawMessageRequest(message_id, uuid.uuid4().hex)
        return await self._command(
            session_id,
            self._flow.withdraw_message,
            request,
            _loads_receipt(message_receipt_id(message_id)),
        )

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
        request = ResolveInterruptRequest(
            interrupt_id, decision, uuid.uuid4().hex, reason=reason, arguments=arguments
        )
        return await self._command(
            session_id, self._flow.resolve_interrupt, request, _loads_interrupt(interrupt_id)
        )

    async def answer_question(
        self, session_id: str, interrupt_id: str, answers: Mapping[str, str | Sequence[str]]
    ) -> bool:
        """Answer what a session asks.

        Args:
            session_id: The session.
            interrupt_id: From `AgentInterrupt.interrupt_id`.
            answers: One for each question, by its ID: a text, or several where the question takes several.

        Returns:
            `False` when somebody answered before or the question fell away.

        Raises:
            InvalidInputError: An answer is missing, blank, or to a question that was not asked; the question
                stays open.
        """
        require_identifier("interrupt_id", interrupt_id)
        given: dict[str, Answer] = {
            name: answer if isinstance(answer, str) else tuple(answer) for name, answer in answers.items()
        }
        request = AnswerQuestionRequest(interrupt_id, given, uuid.uuid4().hex)
        return await self._command(
            session_id, self._flow.answer_question, request, _loads_interrupt(interrupt_id)
        )

    async def settle_tool_outcome(
        self,
        session_id: str,
        tool_call_id: str,
        outcome: SettledAs,
        output: str,
        *,
        person: str | None = None,
    ) -> bool:
        """Say what became of a call whose outcome is unknown; the model is told before its next call.

        Args:
            session_id: The session.
            tool_call_id: A call that is `outcome_unknown`.
            outcome: `"succeeded"` or `"failed"`.
            output: What the model is to read as the result, or as the reason of the failure.
            person: Who found out; kept in the record.

        Returns:
            `False` when the outcome is known, or somebody settled it before.

        Raises:
            InvalidInputError: There is no such call, or a text breaks a rule.
        """
        require_identifier("tool_call_id", tool_call_id)
        if outcome not in ("succeeded", "failed"):
            raise InvalidInputError("outcome", 'must be "succeeded" or "failed"')
        request = SettleToolOutcomeRequest(
            tool_call_id, outcome, require_user_text("output", output), uuid.uuid4().hex, person=person
        )
        receipt = map_instance(settlement_receipt_id(tool_call_id))
        loads = RPCInvokeOptions(
            load_attribute_map_instances=(
                RECEIPTS.load(receipt),
                TOOL_CALLS.load(map_instance(tool_call_id)),
            ),
        )
        return await self._command(session_id, self._flow.settle_tool_outcome, request, loads)

    async def approve_plan(self, session_id: str, revision: int) -> bool:
        """Approve a draft plan; the turn that works on it starts at once.

        Args:
            session_id: The session.
            revision: From `AgentSnapshot.plan`.

        Returns:
            `False` when that is not the latest draft, somebody approved it before, or a turn runs.
        """
        request = ApprovePlanRequest(revision, uuid.uuid4().hex)
        return await self._command(
            session_id, self._flow.approve_plan, request, _loads_receipt(plan_receipt_id(revision))
        )

    async def update_session_settings(self, session_id: str, settings: Mapping[str, Any]) -> None:
        """Replace the settings of a session; its next model call uses them.

        Args:
            session_id: The session.
            settings: A JSON object, at most `limits.MAX_SESSION_SETTINGS_BYTES` as JSON; no place for
                secrets, since everybody who may read the session sees it.

        Raises:
            InvalidInputError: The settings are no JSON object or too large.
        """
        request = UpdateSessionSettingsRequest(require_session_settings("settings", settings))
        await self._command(session_id, self._flow.update_session_settings, request)

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
        return await self._command(session_id, self._flow.cancel_turn, request)

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
        """Return the whole session as of one commit; also after it closed.

        `events(…, since=snapshot)` goes on from it.
        """
        snapshot = await self._calls.repeat(
            session_id, lambda: self._client.invoke_rpc(self._flow.get_agent_snapshot, session_id)
        )
        cursor = await self._calls.repeat(session_id, lambda: self._find_cursor(snapshot))
        return msgspec.structs.replace(snapshot, event_cursor=cursor)

    async def get_progress(self, session_id: str) -> SessionProgress:
        """Return where a session stands; cheap, however long it is."""
        return await self._calls.repeat(
            session_id, lambda: self._client.invoke_rpc(self._flow.get_progress, session_id)
        )

    def events(
        self, session_id: str, *, cursor: str | None = None, since: AgentSnapshot | None = None
    ) -> SessionEvents:
        """Return the session's live events, from the oldest one that is kept or from a given point.

        To show a session, take a snapshot and then the events since it: together they show everything once,
        text that is being streamed included.

        Args:
            session_id: The session.
            cursor: From `SessionEvents.cursor`: begin with the event after the last one that was taken there.
            since: From `get_agent_snapshot`: leave out what this snapshot shows. With a `cursor` as well,
                reading begins there; a viewer that comes back hands over both.

        Raises:
            InvalidInputError: The cursor is none.
        """
        return SessionEvents(self._client, self._flow.event_stream, session_id, cursor, since)

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
        while _is_busy(progress := await self.get_progress(session_id)) and not progress.waits_on_person:
            await self._wait_for_milestone(session_id, progress, bound)
        return progress

    async def waiting_sessions(
        self, on: InterruptKind | Collection[InterruptKind] = ("approval", "question")
    ) -> AsyncIterator[WaitingSession]:
        """Find every session of this Flow that waits, with what to show.

        Args:
            on: What it waits on; by default a person.
        """
        kinds = frozenset((on,) if isinstance(on, str) else on)
        steps = [f'ActiveStepTypes = "{_WAITING_STEPS[kind]}"' for kind in sorted(kinds)]
        if not steps:
            return
        query = f'FlowType = "{self._flow.get_flow_type()}" AND ({" OR ".join(steps)})'
        token = ""
        while True:
            page = await self._client.search_flows(query, _SEARCH_PAGE, token)
            for entry in page.flows:
                progress = await self.get_progress(entry.flow_id)
                wanted = tuple(one for one in progress.interrupts if one.kind in kinds)
                if wanted:
                    yield WaitingSession(entry.flow_id, wanted)
            token = page.next_page_token
            if not token:
                return

    async def _send(
        self,
        session_id: str,
        method: Callable[[Context, SendUserMessageRequest], RPCResult[CommandReply]],
        message: str | AgentUserMessage,
    ) -> bool:
        checked = _checked_message(message)
        instance = map_instance(message_receipt_id(checked.message_id or ""))
        request = SendUserMessageRequest(
            checked.message_id or "", checked.text, uuid.uuid4().hex, plan_mode=checked.plan_mode
        )
        locks = RPCInvokeOptions(
            lock_attribute_map_instances=(RECEIPTS.lock(instance),),
            load_attribute_map_instances=(RECEIPTS.load(instance),),
        )
        return await self._command(session_id, method, request, locks)

    async def _command(
        self,
        session_id: str,
        method: Callable[[Context, RequestT], RPCResult[CommandReply]],
        request: RequestT,
        options: RPCInvokeOptions = _NOTHING_MORE,
    ) -> bool:
        reply = await self._calls.repeat(
            session_id,
            lambda: self._client.invoke_rpc(method, session_id, request, options=options),
        )
        return _took_effect(session_id, reply)

    async def _wait_for_milestone(self, session_id: str, seen: SessionProgress, bound: _Bound) -> None:
        later = AttributeMatch[int].greater_than(seen.milestone)
        await self._wait_for(session_id, MILESTONE, later, bound, once=True)

    async def _wait_for(
        self,
        session_id: str,
        attribute: Attribute[ValueT],
        match: AttributeMatch[ValueT],
        bound: _Bound,
        *,
        once: bool = False,
    ) -> None:
        """Return when an Attribute matches, or when the session has ended.

        Args:
            session_id: The session.
            attribute: What is watched.
            match: What it must be.
            bound: How long.
            once: Return also when one long poll has ended: the caller looks again by itself.
        """
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
                if once:
                    return
            except FlowNotActiveOrNotFoundError:
                return
            except DexServiceError as error:
                await self._calls.pause_or_raise(session_id, error, bound.deadline)

    async def _find_cursor(self, snapshot: AgentSnapshot) -> str | None:
        """Look back from the newest event for the one that ends what the snapshot holds."""
        held = EventFilter(snapshot)
        size, token = _FIRST_EVENT_PAGE, ""
        while True:
            page = await self._client.list_stream_messages(
                snapshot.session_id, self._flow.event_stream, size, token
            )
            for message in page.messages:
                if any(held.ends_what_is_held(event) for event in decode_events(message.value)):
                    return EventCursor(message.resume_token).encode()
            size, token = _EVENT_PAGE, page.next_page_token
            if not token:
                return None


def _is_busy(progress: SessionProgress) -> bool:
    return progress.status == "running" or progress.queued_message_count > 0


def _loads_interrupt(identifier: str) -> RPCInvokeOptions:
    instance = map_instance(identifier)
    return RPCInvokeOptions(
        load_attribute_map_instances=(
            RECEIPTS.load(instance),
            INTERRUPTS.load(instance),
            TOOL_CALLS.load(map_instance(interrupt_tool_call_id(identifier))),
        ),
    )


def _loads_receipt(identifier: str) -> RPCInvokeOptions:
    return RPCInvokeOptions(load_attribute_map_instances=(RECEIPTS.load(map_instance(identifier)),))


def _checked_message(message: str | AgentUserMessage) -> AgentUserMessage:
    if isinstance(message, str):
        message = AgentUserMessage(message)
    text = require_user_text("text", message.text)
    message_id = uuid.uuid4().hex if message.message_id is None else message.message_id
    return AgentUserMessage(text, require_identifier("message_id", message_id), message.plan_mode)


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
