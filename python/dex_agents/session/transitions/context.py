"""The context of a session as it moves on: what a summary covers, and what model calls have consumed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates
from dex_agents.errors import RunnerContractError
from dex_agents.limits import MAX_CONTEXT_SUMMARY_BYTES
from dex_agents.session.state import CallModel, SessionChange, TurnView
from dex_agents.session.transitions.turn_moves import SESSION_STATUSES, find_turn_phase, move_turn
from dex_agents.wire.context import ContextSummary
from dex_agents.wire.events import ContextCompacted
from dex_agents.wire.messages import AgentMessage
from dex_agents.wire.usage import ModelUsage, add_agent_usage

__all__ = ["add_model_usage", "compact_context", "covered_messages", "is_summary"]


def covered_messages(view: TurnView, cut: int) -> Sequence[AgentMessage]:
    """Return what a cut would cover.

    Args:
        view: The turn.
        cut: The sequence number of the last message to cover.

    Raises:
        RunnerContractError: It would cover nothing, or leave nothing to read.
    """
    covered = [message for message in view.messages if message.sequence <= cut]
    if not covered or len(covered) == len(view.messages):
        raise RunnerContractError(f"choose_compaction_cut returned {cut}, which leaves nothing on one side")
    return covered


def is_summary(text: str) -> bool:
    """Tell whether a text can stand for a conversation."""
    return bool(text.strip())


def compact_context(view: TurnView, cut: int, text: str, now: datetime) -> SessionChange:
    """Let a summary stand for everything up to a message; the model is called next.

    Args:
        view: The turn.
        cut: The sequence number of the last message that the summary covers.
        text: The summary; lone surrogates become U+FFFD and the end is cut at
            `limits.MAX_CONTEXT_SUMMARY_BYTES`.
        now: The time of the commit.
    """
    phase = move_turn(find_turn_phase(view.record, view.tool_calls), "compact")
    answered = {message.tool_call_id for message in covered_messages(view, cut) if message.role == "tool"}
    turn = msgspec.structs.replace(
        view.turn, tool_call_ids=tuple(one for one in view.turn.tool_call_ids if one not in answered)
    )
    chunks = _chunks_behind(view.chunks, cut, view.record.next_sequence)
    summary = ContextSummary(
        text=cut_to_bytes(replace_lone_surrogates(text), MAX_CONTEXT_SUMMARY_BYTES),
        covered_through=cut,
        revision=view.record.summary_revision + 1,
        created_at=now,
    )
    return SessionChange(
        record=msgspec.structs.replace(
            view.record,
            turn=turn,
            covered_through=cut,
            summary_revision=summary.revision,
            chunks=chunks,
            open_chunks=tuple(key for key in view.record.open_chunks if key in chunks),
        ),
        status=SESSION_STATUSES[phase],
        next_step=CallModel(),
        events=(ContextCompacted(turn_id=turn.turn_id, revision=summary.revision, covered_through=cut),),
        context_summary=summary,
    )


def add_model_usage(before: Sequence[ModelUsage], added: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """Return usage by model with more of it."""
    sums = {entry.model: entry.usage for entry in before}
    for entry in added:
        earlier = sums.get(entry.model)
        sums[entry.model] = entry.usage if earlier is None else add_agent_usage(earlier, entry.usage)
    return tuple(ModelUsage(model, usage) for model, usage in sums.items())


def _chunks_behind(chunks: tuple[int, ...], cut: int, next_sequence: int) -> tuple[int, ...]:
    """Return the chunks with a message behind the cut; a chunk ends where the next one begins."""
    ends = (*chunks[1:], next_sequence)
    return tuple(key for key, end in zip(chunks, ends, strict=True) if end - 1 > cut)
