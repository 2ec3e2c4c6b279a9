"""The model calls of one `RunModel` attempt, as a spend limiter sees them."""

from __future__ import annotations

import inspect
import logging
from dataclasses import replace
from typing import Any, Final

import msgspec
from dex import AsyncContext

from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates
from dex_agents.errors import RunnerContractError
from dex_agents.limits import MAX_UNREPORTED_SPEND
from dex_agents.runner.outcomes import ModelCallMetadata
from dex_agents.runner.turn_context import AgentTurnContext
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.spend import SpendCheck, SpendRefused
from dex_agents.session.state import SessionChange, TurnView
from dex_agents.session.transitions.context import add_model_usage
from dex_agents.wire.events import AgentEvent, ContextCompacted, ModelCompleted
from dex_agents.wire.spend import ModelCallPurpose, SpendReport
from dex_agents.wire.usage import AgentUsage, ModelUsage, add_agent_usage, empty_agent_usage

__all__ = ["PaidCalls"]

_log = logging.getLogger(__name__)
_MAX_REASON_BYTES: Final = 4 * 1024


class PaidCalls:
    """Asks before each call, reports after it, and adds up what the attempt consumed.

    Durability:
        A report is made before the answer is committed, under an ID of the attempt: whatever dies in between,
        each call that was answered counts once. What cannot be reported is committed with the session.
    """

    def __init__(
        self, runtime: SessionRuntime, context: AsyncContext, view: TurnView, turn: AgentTurnContext
    ) -> None:
        """Bind to an attempt."""
        self._limiter = runtime.options.spend_limiter
        self._view = view
        self._turn = turn
        self._step_id = f"{turn.flow_id}/{turn.turn_id}/{context.step_execution_id}"
        self._unreported = list(view.record.unreported_spend)
        self._summary_usage = empty_agent_usage()
        self._by_model: list[ModelUsage] = []

    async def ask(self, purpose: ModelCallPurpose, estimated_input_tokens: int | None = None) -> str | None:
        """Return why a call must not be made, or `None`."""
        if self._limiter is None:
            return None
        await self._report_again()
        check = SpendCheck(
            call_id=f"{self._step_id}/{purpose}",
            session_id=self._turn.flow_id,
            turn_id=self._turn.turn_id,
            attempt=self._turn.attempt,
            purpose=purpose,
            session_usage=add_agent_usage(self._view.record.usage, self._summary_usage),
            turn_usage=add_model_usage(self._view.turn.model_usage, self._by_model),
            estimated_input_tokens=estimated_input_tokens,
            session_settings=self._turn.session_settings,
        )
        returned: Any = self._limiter.check(check)
        decision: Any = await returned if inspect.isawaitable(returned) else returned
        match decision:
            case None:
                return None
            case SpendRefused(reason=str(reason)) if reason.strip():
                return cut_to_bytes(replace_lone_surrogates(reason), _MAX_REASON_BYTES)
            case _:
                raise RunnerContractError(
                    f"SpendLimiter.check returned a {type(decision).__name__}; it may return None or a "
                    "SpendRefused with a reason"
                )

    async def report(
        self, purpose: ModelCallPurpose, usage: AgentUsage, metadata: ModelCallMetadata | None
    ) -> None:
        """Count a call that was answered; one that was not made counts for nothing."""
        if usage == empty_agent_usage():
            return
        model = None if metadata is None else metadata.response_model or metadata.request_model
        self._by_model.append(ModelUsage(model, usage))
        if purpose == "summary":
            self._summary_usage = add_agent_usage(self._summary_usage, usage)
        if self._limiter is None:
            return
        report = SpendReport(
            call_id=f"{self._step_id}/{purpose}/{self._turn.attempt}",
            session_id=self._turn.flow_id,
            turn_id=self._turn.turn_id,
            attempt=self._turn.attempt,
            purpose=purpose,
            usage=usage,
            model=model,
            provider=None if metadata is None else metadata.provider_name,
            session_settings=dict(self._turn.session_settings),
        )
        if not await self._deliver(report):
            self._unreported.append(report)

    def finish(self, change: SessionChange, anchor: str | None = None) -> SessionChange:
        """Return the change with what the attempt consumed and measured.

        Args:
            change: What is to be committed.
            anchor: What the runner left for its next estimate, or `None` to keep the one before.
        """
        record = change.record
        turn = record.turn
        if turn is not None:
            turn = msgspec.structs.replace(
                turn, model_usage=add_model_usage(turn.model_usage, self._by_model)
            )
        if len(self._unreported) > MAX_UNREPORTED_SPEND:
            _log.error("%s: the oldest unreported model calls are given up", self._turn.flow_id)
        return replace(
            change,
            record=msgspec.structs.replace(
                record,
                turn=turn,
                usage=add_agent_usage(record.usage, self._summary_usage),
                input_token_anchor=record.input_token_anchor if anchor is None else anchor,
                unreported_spend=tuple(self._unreported[-MAX_UNREPORTED_SPEND:]),
            ),
            events=tuple(self._with_summary_usage(event) for event in change.events),
        )

    def _with_summary_usage(self, event: AgentEvent) -> AgentEvent:
        match event:
            case ContextCompacted() | ModelCompleted():
                return msgspec.structs.replace(event, usage=add_agent_usage(event.usage, self._summary_usage))
            case _:
                return event

    async def _report_again(self) -> None:
        self._unreported = [report for report in self._unreported if not await self._deliver(report)]

    async def _deliver(self, report: SpendReport) -> bool:
        if self._limiter is None:
            return False
        try:
            returned: Any = self._limiter.report(report)
            if inspect.isawaitable(returned):
                await returned
        except Exception:  # noqa: BLE001  # the call was answered and paid: its answer must not be lost
            _log.exception("the spend limiter could not be told of %s; it will be told again", report.call_id)
            return False
        return True
