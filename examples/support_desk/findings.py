"""Reads what the tools of a turn returned. Pure."""

from __future__ import annotations

from typing import Any

from dex_agents import OUTCOME_UNKNOWN_TOOL_RESULT
from examples.support_desk.conversation import Conversation, ToolResult
from examples.support_desk.questions import Question

__all__ = [
    "compose_refund_reason",
    "find_accepted_refunds",
    "find_customer",
    "find_hits",
    "find_order",
    "find_refund_attempt",
    "found_anything",
    "is_outcome_unknown",
    "was_checked_after",
    "widen_query",
]


def widen_query(question: Question) -> str | None:
    """Return one word to try when the question found nothing: the longest, as the likeliest to matter."""
    words = question.words.split()
    return max(words, key=len) if len(words) > 1 else None


def find_order(conversation: Conversation, order_id: str) -> dict[str, Any] | None:
    """Return an order as it was looked up, or `None` when it was not found."""
    for result in conversation.results_of("lookup_order"):
        if result.answer is not None and result.answer["order_id"] == order_id and result.answer["found"]:
            return result.answer
    return None


def find_customer(conversation: Conversation, customer_id: str | None) -> dict[str, Any] | None:
    """Return a customer as they were looked up, or `None`."""
    for result in conversation.results_of("lookup_customer"):
        if result.answer is not None and result.answer.get("customer_id") == customer_id:
            return result.answer
    return None


def find_accepted_refunds(conversation: Conversation, order_id: str | None) -> list[dict[str, Any]] | None:
    """Return what the provider said last about an order, or `None` when it could not be asked."""
    for result in reversed(conversation.results_of("find_refund")):
        if result.arguments.get("order_id") == order_id:
            return None if result.answer is None else result.answer["refunds"]
    return None


def find_refund_attempt(conversation: Conversation, order_id: str) -> ToolResult | None:
    """Return this turn's call of `refund_order` for an order."""
    for result in conversation.results_of("refund_order"):
        if result.arguments.get("order_id") == order_id:
            return result
    return None


def is_outcome_unknown(output: str) -> bool:
    """Whether a result says that nobody knows what the call did."""
    return output.startswith(OUTCOME_UNKNOWN_TOOL_RESULT)


def was_checked_after(conversation: Conversation, attempt: ToolResult) -> bool:
    """Whether the provider was asked about the order after the attempt."""
    later = conversation.results[conversation.results.index(attempt) + 1 :]
    return any(
        result.tool_name == "find_refund"
        and result.arguments.get("order_id") == attempt.arguments["order_id"]
        for result in later
    )


def find_hits(conversation: Conversation, tool_name: str, query: str | None = None) -> list[dict[str, Any]]:
    """Return the hits of a search tool, each document once.

    Args:
        conversation: The turn.
        tool_name: The search.
        query: Only the hits of this query.
    """
    hits: dict[str, dict[str, Any]] = {}
    for result in conversation.results_of(tool_name):
        if result.answer is not None and query in (None, result.arguments.get("query")):
            for hit in result.answer["hits"]:
                hits.setdefault(f"{hit['id']} {hit['source']}", hit)
    return list(hits.values())


def found_anything(conversation: Conversation) -> bool:
    """Whether any search or look-up of this turn found something."""
    return any(
        result.answer is not None and bool(result.answer.get("hits") or result.answer.get("found"))
        for result in conversation.results
    )


def compose_refund_reason(conversation: Conversation, order_id: str) -> str:
    """Return one sentence for the ledger: the customer's own ticket about the order, if there is one."""
    for hit in find_hits(conversation, "search_tickets", order_id):
        if hit["order_id"] == order_id:
            return f"ticket {hit['id']}: {hit['title']}"
    return "asked for at the desk, no ticket"
