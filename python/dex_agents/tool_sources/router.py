"""Several tool sources as one: listed together, and each call brought back to the source that offered it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, TypeVar

import msgspec

from dex_agents import texts
from dex_agents.errors import (
    InvalidInputError,
    RunnerContractError,
    ToolExecutionError,
    ToolOutcomeUnknownError,
    ToolSourceUnavailableError,
)
from dex_agents.limits import TOOL_LISTING_SECONDS
from dex_agents.runner.contract import PollsToolTasks, ReconcilesToolCalls
from dex_agents.runner.outcomes import DeferredToolCall, ToolOutcome, ToolReconciliation, ToolTaskStarted
from dex_agents.runner.turn_context import AgentTurnContext, DeferredToolExecution
from dex_agents.tool_sources.contract import (
    BuildsDeferredCalls,
    SourceTool,
    ToolSource,
    require_tool_sources,
)
from dex_agents.tool_sources.listing import ListedTool, ToolListing, build_listing

__all__ = ["ToolSourceRouter", "build_missing_tool_error"]

_log = logging.getLogger(__name__)

_Optional = TypeVar("_Optional")


@dataclass(frozen=True)
class _Route:
    """A source, with what it implements beyond listing and running."""

    source: ToolSource
    name: str
    builds: BuildsDeferredCalls | None
    polls: PollsToolTasks | None
    reconciles: ReconcilesToolCalls | None


class ToolSourceRouter:
    """Lists tool sources for a runner and routes calls back to them.

    It is shared by all sessions of a Worker. Between listings it keeps the latest one of each source, for
    routing alone: what is offered is always listed anew.
    """

    def __init__(
        self,
        sources: Sequence[ToolSource],
        *,
        listing_timeout: timedelta = timedelta(seconds=TOOL_LISTING_SECONDS),
    ) -> None:
        """Put sources in order.

        Args:
            sources: No two of one name. Where two list a tool of one name, the first of them offers it.
            listing_timeout: How long a listing waits for a source before it goes on without its tools.

        Raises:
            InvalidInputError: A source is none, two have one name, or the time is not above zero.
        """
        if listing_timeout <= timedelta():
            raise InvalidInputError("listing_timeout", "must be more than zero")
        self._timeout: Final = listing_timeout.total_seconds()
        self._routes: Final = {
            source.name: _build_route(source) for source in require_tool_sources("sources", sources)
        }
        self._latest: dict[str, tuple[SourceTool, ...]] = {}
        self._hanging: dict[str, asyncio.Task[tuple[SourceTool, ...]]] = {}
        self._warned: frozenset[str] = frozenset()

    async def list_tools(self, *, reserved_names: Collection[str] = ()) -> ToolListing:
        """Ask every source at once what it offers.

        A source that raises, or is not ready in time, takes its own tools away and nothing else. What is left
        out is logged as a warning when it begins to be.

        Args:
            reserved_names: Names of the agent's own tools; a source's tool of such a name is left out.

        Durability:
            Runs inside `RunModel` before the model call; changes nothing.
        """
        answers = await self._ask_sources()
        listing = build_listing(list(answers.items()), reserved_names=reserved_names)
        silent = [
            (name, self._latest.get(name, ())) for name, answer in answers.items() if isinstance(answer, str)
        ]
        unreachable = build_listing(silent, reserved_names={*reserved_names, *listing.tools}).tools
        self._warn(listing.warnings)
        return replace(listing, unreachable=unreachable)

    def find_tool(self, tool_name: str, tool_source_reference: str) -> ListedTool | None:
        """Return a tool as the source of a reference listed it last; `None` when it is not known here."""
        route, _ = self._find_route(tool_source_reference)
        if route is None:
            return None
        return build_listing([(route.name, self._latest.get(route.name, ()))]).tools.get(tool_name)

    def build_deferred_call(
        self, turn: AgentTurnContext, listed: ListedTool, call: DeferredToolCall
    ) -> DeferredToolCall:
        """Return a call as its source wants it deferred.

        Args:
            turn: The turn that asks.
            listed: The tool, from a listing of this router.
            call: The call with IDs and arguments; its policy and order are replaced.

        Returns:
            The call with effect, approval and order from the source and the session's policies, and with the
            reference that routes it. It is refused when the source cannot say what the call is.
        """
        route, tool = self._routes[listed.source_name], listed.tool
        policy = turn.resolve_tool_policy(tool.name, tool.effect, tool.requires_approval)
        reference = route.name if tool.reference is None else f"{route.name}:{tool.reference}"
        declared = msgspec.structs.replace(
            call,
            policy=policy,
            ordered=tool.ordered and policy.effect.is_write,
            reconcilable=tool.reconcilable and route.reconciles is not None,
            tool_source_reference=reference,
        )
        if route.builds is None:
            return declared
        try:
            built = _require_deferred_call(route.builds.build_deferred_call(turn, tool, declared))
        except Exception:  # noqa: BLE001 - foreign code; the model reads the refusal
            _log.exception("source %r could not defer a call of %r", route.name, tool.name)
            return msgspec.structs.replace(declared, refusal=texts.tool_cannot_be_called_now(tool.name))
        return msgspec.structs.replace(
            declared,
            policy=built.policy,
            ordered=built.ordered and built.policy.effect.is_write,
            refusal=built.refusal,
            not_run_reason=built.not_run_reason,
            reconcilable=built.reconcilable and route.reconciles is not None,
        )

    async def execute_deferred_tool_call(self, call: DeferredToolExecution) -> ToolOutcome:
        """Run a call at the source that offered it; see `ToolSource.execute_deferred_tool_call`.

        Args:
            call: A call whose `tool_source_reference` this router made, in this process or another.

        Raises:
            ToolExecutionError: The agent has no such source any more, and nothing was sent.
            ToolOutcomeUnknownError: The agent has no such source any more, and an earlier attempt or an
                earlier round of questions may have changed something.
            RunnerContractError: The source started a task that it cannot poll.

        Durability:
            Runs inside `CallTool` or `CallSingleAttemptTool`.
        """
        route, reference = self._find_route(call.tool_source_reference)
        if route is None:
            raise build_missing_tool_error(call)
        outcome = await route.source.execute_deferred_tool_call(
            replace(call, tool_source_reference=reference)
        )
        if isinstance(outcome, ToolTaskStarted) and route.polls is None:
            raise RunnerContractError(f"source {route.name!r} started a task and has no poll_tool_task")
        return outcome

    async def poll_tool_task(self, call: DeferredToolExecution) -> ToolOutcome:
        """Poll a task at the source that started it; see `PollsToolTasks.poll_tool_task`.

        Raises:
            ToolSourceUnavailableError: This Worker's agent has no such source, or it polls nothing. A Worker
                of another version may serve the next poll.

        Durability:
            Runs inside `PollToolTask`.
        """
        route, reference = self._find_route(call.tool_source_reference)
        polls = _require_capability(call, None if route is None else route.polls)
        return await polls.poll_tool_task(replace(call, tool_source_reference=reference))

    async def cancel_tool_task(self, call: DeferredToolExecution) -> None:
        """Cancel a task at the source that started it; see `PollsToolTasks.cancel_tool_task`.

        Raises:
            ToolSourceUnavailableError: This Worker's agent has no such source, or it polls nothing.

        Durability:
            Runs when a turn is cancelled or steered; a repeat is harmless.
        """
        route, reference = self._find_route(call.tool_source_reference)
        polls = _require_capability(call, None if route is None else route.polls)
        await polls.cancel_tool_task(replace(call, tool_source_reference=reference))

    async def reconcile_tool_call(self, call: DeferredToolExecution) -> ToolReconciliation:
        """Look up a call at the source that ran it; see `ReconcilesToolCalls.reconcile_tool_call`.

        Returns:
            What the source found; `still_unknown` when it has no look-up any more.

        Raises:
            ToolSourceUnavailableError: This Worker's agent has no such source.

        Durability:
            Runs inside `ReconcileToolCall`; must change nothing.
        """
        route, reference = self._find_route(call.tool_source_reference)
        reconciles = _require_capability(call, route).reconciles
        if reconciles is None:
            return ToolReconciliation("still_unknown")
        return await reconciles.reconcile_tool_call(replace(call, tool_source_reference=reference))

    def _find_route(self, reference: str | None) -> tuple[_Route | None, str | None]:
        name, has_own, own = (reference or "").partition(":")
        return self._routes.get(name), own if has_own else None

    async def _ask_sources(self) -> dict[str, tuple[SourceTool, ...] | str]:
        answers: dict[str, tuple[SourceTool, ...] | str] = {}
        asked: dict[str, asyncio.Task[tuple[SourceTool, ...]]] = {}
        for name, route in self._routes.items():
            # Keeps the order of the sources, whoever answers first.
            answers[name] = "an earlier listing has not ended yet"
            if name not in self._hanging:
                asked[name] = asyncio.create_task(_list_source(route.source))
        try:
            if asked:
                await asyncio.wait(asked.values(), timeout=self._timeout)
        finally:
            for name, task in asked.items():
                self._stop(name, task)
        for name, task in asked.items():
            answers[name] = self._read_answer(name, task)
        return answers

    def _stop(self, name: str, task: asyncio.Task[tuple[SourceTool, ...]]) -> None:
        if task.done():
            return
        # Not awaited: a source that does not heed the cancellation must not hold up the session. It is not
        # asked again until this listing has ended, so that such listings do not pile up.
        self._hanging[name] = task
        task.add_done_callback(lambda ended: self._forget(name, ended))
        task.cancel()

    def _forget(self, name: str, ended: asyncio.Task[tuple[SourceTool, ...]]) -> None:
        if self._hanging.get(name) is ended:
            del self._hanging[name]
        if not ended.cancelled():
            ended.exception()

    def _read_answer(
        self, name: str, task: asyncio.Task[tuple[SourceTool, ...]]
    ) -> tuple[SourceTool, ...] | str:
        if not task.done():
            return f"they were not listed within {self._timeout:g} s"
        if task.cancelled():
            return "the listing was cancelled"
        error = task.exception()
        if error is not None:
            return f"{type(error).__name__}: {error}"
        self._latest[name] = task.result()
        return self._latest[name]

    def _warn(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            if warning not in self._warned:
                _log.warning("%s", warning)
        self._warned = frozenset(warnings)


def build_missing_tool_error(call: DeferredToolExecution) -> ToolExecutionError | ToolOutcomeUnknownError:
    """Return the error of a call whose tool this version of the application does not have."""
    text = texts.tool_not_available(call.tool_name)
    if call.effect.is_write and (call.attempt > 1 or call.continuation):
        return ToolOutcomeUnknownError(text)
    return ToolExecutionError(text)


def _build_route(source: ToolSource) -> _Route:
    return _Route(
        source,
        source.name,
        builds=source if isinstance(source, BuildsDeferredCalls) else None,
        polls=source if isinstance(source, PollsToolTasks) else None,
        reconciles=source if isinstance(source, ReconcilesToolCalls) else None,
    )


async def _list_source(source: ToolSource) -> tuple[SourceTool, ...]:
    return tuple(await source.list_tools())


def _require_capability(call: DeferredToolExecution, capability: _Optional | None) -> _Optional:
    if capability is None:
        raise ToolSourceUnavailableError(call.tool_source_reference or "", call.tool_name)
    return capability


def _require_deferred_call(built: Any) -> DeferredToolCall:
    if not isinstance(built, DeferredToolCall):
        raise RunnerContractError(f"build_deferred_call returned a {type(built).__name__}")
    return built
