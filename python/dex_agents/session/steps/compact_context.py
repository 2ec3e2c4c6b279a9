"""Keeps the input of the next model call below the context window."""

from __future__ import annotations

import logging

from dex_agents import texts
from dex_agents.runner.contract import CompactsContext, ContextSummaryRequest
from dex_agents.runner.turn_context import AgentTurnContext
from dex_agents.session.compaction import CompactionPolicy
from dex_agents.session.runtime import SessionRuntime
from dex_agents.session.state import SessionChange, TurnView
from dex_agents.session.steps.closing_messages import closing_messages
from dex_agents.session.steps.paid_calls import PaidCalls
from dex_agents.session.transitions.context import compact_context, covered_messages, is_summary
from dex_agents.session.transitions.turns import fail_turn

__all__ = ["ContextKeeper"]

_log = logging.getLogger(__name__)


class ContextKeeper:
    """Looks at the input of one model call before it is made.

    Durability:
        A summary is a commit of its own, and the model call follows in the next Step: a crash repeats at most
        the call that was running. A summary that failed changes nothing and is asked for again before the
        session's next model call.
    """

    def __init__(
        self, runtime: SessionRuntime, view: TurnView, turn: AgentTurnContext, paid: PaidCalls
    ) -> None:
        """Bind to an attempt of `RunModel`."""
        self._runtime = runtime
        self._view = view
        self._turn = turn
        self._paid = paid
        self.estimated_tokens: int | None = None

    async def make_room(self) -> SessionChange | None:
        """Return what takes the place of the model call, or `None` when that can be made."""
        policy, runner = self._runtime.options.compaction, self._runtime.runner
        if policy is None or not isinstance(runner, CompactsContext):
            return None
        estimated = self.estimated_tokens = await runner.estimate_input_tokens(self._turn)
        if not policy.is_due(estimated):
            return None
        cut = runner.choose_compaction_cut(self._turn, policy.retained_tokens)
        if cut is not None:
            change = await self._summarize(runner, cut)
            if change is not None:
                return change
        return self._fail_on_overflow(policy, estimated)

    def fail(self, reason: str) -> SessionChange:
        """Return the end of the turn for a reason that a person reads."""
        closing = closing_messages(self._runtime, self._view, texts.turn_failed_note(reason))
        return fail_turn(self._view, closing, reason, self._runtime.clock())

    async def _summarize(self, runner: CompactsContext, cut: int) -> SessionChange | None:
        covered = covered_messages(self._view, cut)
        refusal = await self._paid.ask("summary")
        if refusal is not None:
            return self.fail(refusal)
        request = ContextSummaryRequest(
            flow_id=self._turn.flow_id,
            turn_id=self._turn.turn_id,
            attempt=self._turn.attempt,
            messages=covered,
            earlier_summary=self._view.summary,
            session_settings=self._turn.session_settings,
        )
        try:
            summarized = await runner.summarize_context(request)
        except Exception:  # noqa: BLE001  # without a summary the session goes on as it is
            _log.exception("%s: the earlier conversation could not be summarised", self._turn.flow_id)
            return None
        await self._paid.report("summary", summarized.usage, summarized.model_call_metadata)
        if not is_summary(summarized.text):
            _log.warning("%s: the summary of the earlier conversation is empty", self._turn.flow_id)
            return None
        return compact_context(self._view, cut, summarized.text, self._runtime.clock())

    def _fail_on_overflow(self, policy: CompactionPolicy, estimated: int) -> SessionChange | None:
        if not policy.is_overflow(estimated):
            return None
        return self.fail(texts.context_window_overflow(estimated, policy.context_window_tokens))
