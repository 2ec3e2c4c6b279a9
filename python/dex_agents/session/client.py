"""Starting sessions and talking to them."""

from __future__ import annotations

import math
import uuid
from collections.abc import (
    AsyncGenerator,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final, Self, TypeVar

from dex import (
    ActiveStepSearchMode,
    AsyncClient,
    ChannelMessageNotFoundError,
    ClientOptions,
    Context,
    FlowConfig,
    IdReusePolicy,
    LongPollTimeoutError,
    RequestTimeoutError,
    RPCInvokeOptions,
    RpcLockConflictError,
    RPCResult,
    StartFlowOptions,
    WorkerTarget,
)

from dex_agents.codecs.attributes import build_session_registry
from dex_agents.errors import InvalidInputError, SessionClosedError
from dex_agents.media.references import validate_image_references
from dex_agents.session.blob_cache import FetchingBlobCache
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
    RECEIPTS,
    SETTINGS,
    TOOL_CALLS,
    map_instance,
    message_receipt_id,
    plan_receipt_id,
    settlement_receipt_id,
)
from dex_agents.session.runtime import utc_now
from dex_agents.session.session_reader import POLL_SECONDS, Bound, SessionReader
from dex_agents.session.transitions.interrupts import interrupt_tool_call_id
from dex_agents.session.user_messages import find_image_refusal
from dex_agents.wire.messages import AgentUserMessage
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
from dex_agents.wire.step_inputs import SessionStepInput
from dex_agents.wire.tool_calls import Answer, ApprovalDecision

__all__ = ["AgentSessionClient"]

ValueT = TypeVar("ValueT")
RequestT = TypeVar("RequestT")

_NOTHING_MORE: Final = RPCInvokeOptions()


class AgentSessionClient(SessionReader):
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
        super().__init__(client, flow)

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
            ImageValidationError: There are too many images, or one is no valid reference.
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
            refused_images = find_image_refusal(self._flow.runner, checked.images)
            if refused_images is not None:
                raise InvalidInputError(refused_images.field, refused_images.problem)
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
            InvalidInputError: The text is blank or longer than `limits.MAX_USER_TEXT_BYTES`, or the agent
                takes no images.
            ImageValidationError: There are too many images, or one is no valid reference.
        """
        request, options = _message_request(message)

        async def begin_or_queue() -> CommandReply:
            try:
                return await self._invoke(session_id, self._flow.begin_turn, request, options)
            except (RpcLockConflictError, ChannelMessageNotFoundError):
                # Somebody else begins a turn or commands one just now: a message can always be queued.
                return await self._invoke(session_id, self._flow.send_user_message, request, options)

        return _took_effect(session_id, await self._calls.repeat(session_id, begin_or_queue))

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
            InvalidInputError: The text is blank or longer than `limits.MAX_USER_TEXT_BYTES`, or the agent
                takes no images.
            ImageValidationError: There are too many images, or one is no valid reference.
        """
        request, options = _message_request(message)
        return await self._command(session_id, self._flow.steer_user_message, request, options)

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
        bound = Bound("closed", timeout)
        request = CloseSessionRequest(uuid.uuid4().hex)
        with suppress(SessionClosedError):  # Somebody else closed it: the summary is the same.
            await self._calls.repeat(
                session_id, lambda: self._client.invoke_rpc(self._flow.close_session, session_id, request)
            )
        while True:
            left = bound.require_time(session_id)
            poll = timedelta(seconds=math.ceil(min(left, POLL_SECONDS)))
            wait = partial(self._client.wait_for_flow, session_id, poll)
            with suppress(LongPollTimeoutError, RequestTimeoutError):
                return (await self._calls.repeat(session_id, wait)).single_output(SessionSummary)

    async def _command(
        self,
        session_id: str,
        method: Callable[[Context, RequestT], RPCResult[CommandReply]],
        request: RequestT,
        options: RPCInvokeOptions = _NOTHING_MORE,
    ) -> bool:
        reply = await self._calls.repeat(
            session_id, lambda: self._invoke(session_id, method, request, options)
        )
        return _took_effect(session_id, reply)

    async def _invoke(
        self,
        session_id: str,
        method: Callable[[Context, RequestT], RPCResult[CommandReply]],
        request: RequestT,
        options: RPCInvokeOptions,
    ) -> CommandReply:
        return await self._client.invoke_rpc(method, session_id, request, options=options)


def _message_request(message: str | AgentUserMessage) -> tuple[SendUserMessageRequest, RPCInvokeOptions]:
    checked = _checked_message(message)
    identifier = checked.message_id or ""
    instance = map_instance(message_receipt_id(identifier))
    request = SendUserMessageRequest(
        identifier,
        checked.text,
        uuid.uuid4().hex,
        plan_mode=checked.plan_mode,
        images=checked.images,
    )
    options = RPCInvokeOptions(
        lock_attribute_map_instances=(RECEIPTS.lock(instance),),
        load_attribute_map_instances=(RECEIPTS.load(instance),),
    )
    return request, options


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
    images = tuple(message.images)
    validate_image_references(images)
    require_identifier("message_id", message_id)
    return AgentUserMessage(text, message_id, message.plan_mode, images)


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
