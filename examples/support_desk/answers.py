"""Puts what was found into words: every fact with its source, every doubt said. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from examples.support_desk import findings
from examples.support_desk.conversation import Conversation
from examples.support_desk.questions import Question

__all__ = ["announce_lookup", "compose_answer"]

_ABILITIES = (
    "I answer from the desk's files: orders, customers, tickets and policies. Ask about an order (FF-10432), "
    "a customer by name or e-mail address, a fault ('what do people say about leaking tents?') or a rule "
    "('how long do refunds take?'). I can also refund an order; a person approves each refund first."
)

_PLACES = {"tickets": "tickets", "policies": "sections of the policies", "orders": "orders"}


def announce_lookup(question: Question) -> str:
    """Return the half sentence that a turn opens with while it looks things up."""
    match question.wish:
        case "refund" if question.order_ids:
            orders = " and ".join(question.order_ids)
            return f"I will check {orders} against the policy and at the payment provider first."
        case "refund_status":
            return "I will ask the payment provider, whose ledger is what counts."
        case "order":
            return f"Let me look up {' and '.join(question.order_ids)}."
        case _:
            return "Let me look."


def compose_answer(question: Question, conversation: Conversation) -> str:
    """Return the answer to a question from what this turn's tools returned."""
    match question.wish:
        case "greeting":
            return _ABILITIES
        case "count":
            paragraphs = _describe_counts(conversation)
        case "refund":
            paragraphs = _describe_refunds(question, conversation)
        case "refund_status":
            paragraphs = _describe_refund_status(question, conversation)
        case "order":
            paragraphs = _describe_orders(question, conversation)
        case "search":
            paragraphs = _describe_search(question, conversation)
    paragraphs += _describe_failures(conversation)
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _describe_orders(question: Question, conversation: Conversation) -> list[str]:
    paragraphs: list[str] = []
    for order_id in question.order_ids:
        order = findings.find_order(conversation, order_id)
        if order is None:
            paragraphs.append(_say_order_not_found(conversation, order_id))
            continue
        customer = findings.find_customer(conversation, order["customer_id"])
        paragraphs.append(_describe_order(order, customer))
        own = [
            hit
            for hit in findings.find_hits(conversation, "search_tickets", order_id)
            if hit["order_id"] == order_id
        ]
        paragraphs.append(_quote_hits("What the customer wrote:", own))
        paragraphs.append(_describe_refundability(order))
    others = [
        hit
        for hit in findings.find_hits(conversation, "search_tickets", question.words)
        if hit["order_id"] not in question.order_ids
    ]
    paragraphs.append(_quote_hits("Others wrote:", others))
    paragraphs.append(_quote_hits("The policies say:", findings.find_hits(conversation, "search_policies")))
    return paragraphs


def _describe_order(order: dict[str, Any], customer: dict[str, Any] | None) -> str:
    sentence = f"{order['order_id']}: {order['items'] or 'items not readable'}"
    sentence += f", {order['total'] or 'amount not readable'}"
    sentence += f", {order['status'] or 'status not readable'}"
    if order["delivered_on"] is not None:
        sentence += f" on {order['delivered_on']}" if order["status"] == "delivered" else ""
    elif order["ordered_on"] is not None:
        sentence += f", ordered on {order['ordered_on']}"
    if customer is not None:
        sentence += f"; for {customer['name']} in {customer['city']} ({customer['customer_id']})"
    elif order["customer_name"] is not None:
        sentence += f"; for {order['customer_name']}"
    sentence += f" [{order['source']}]."
    if order["note"]:
        sentence += f' Note: "{_on_one_line(order["note"])}".'
    if order["doubts"]:
        sentence += f" To be checked by a person: {'; '.join(order['doubts'])}."
    return sentence


def _describe_refundability(order: dict[str, Any]) -> str:
    refund = order["refund"]
    if refund["allowed_by_policy"]:
        return f"The policy allows a refund of {order['order_id']} until {refund['last_day']}."
    return f"The policy does not allow a refund of {order['order_id']}: {refund['obstacle']}."


def _describe_refunds(question: Question, conversation: Conversation) -> list[str]:
    if not question.order_ids:
        return ["Which order is it? I need its number, such as FF-10432, before I can look at a refund."]
    paragraphs = [_describe_refund(order_id, conversation) for order_id in question.order_ids]
    if any(result.answer is not None for result in conversation.results_of("refund_order")):
        paragraphs.append(
            _quote_hits("The policies say:", findings.find_hits(conversation, "search_policies"))
        )
    return paragraphs


def _describe_refund(order_id: str, conversation: Conversation) -> str:
    order = findings.find_order(conversation, order_id)
    if order is None:
        return _say_order_not_found(conversation, order_id)
    known = findings.find_accepted_refunds(conversation, order_id)
    attempt = findings.find_refund_attempt(conversation, order_id)
    if attempt is None:
        if known is None:
            return f"The payment provider could not be asked about {order_id}, so I did not send a refund."
        if known:
            return f"{order_id} was refunded before, so I did not send another: {_list_refunds(known)}."
        return _describe_refundability(order)
    if attempt.answer is not None:
        sent = f"{attempt.answer['amount']} {attempt.answer['currency']}"
        return f"Done: {sent} for {order_id} are on their way ({attempt.answer['refund_id']})."
    if not findings.is_outcome_unknown(attempt.output):
        return f"{order_id} was not refunded. {attempt.output}"
    said = (
        f"The refund of {order_id} was interrupted and its own result is lost: the call alone cannot tell "
        "whether the money left. I did not send it again."
    )
    if known is None or not findings.was_checked_after(conversation, attempt):
        return f"{said} The payment provider could not be asked; a person has to look there first."
    if known:
        return f"{said} I asked the payment provider instead. It accepted {_count_refunds(known)}."
    return (
        f"{said} The payment provider has no refund for {order_id} so far; look again before it is sent anew."
    )


def _describe_refund_status(question: Question, conversation: Conversation) -> list[str]:
    paragraphs: list[str] = []
    for order_id in question.order_ids or (None,):
        known = findings.find_accepted_refunds(conversation, order_id)
        about = f"for {order_id}" if order_id is not None else "at all"
        if known is None:
            paragraphs.append(f"The payment provider could not be asked for refunds {about}.")
        elif known:
            paragraphs.append(f"The payment provider accepted {_count_refunds(known)}.")
        else:
            paragraphs.append(f"The payment provider has no refund {about}.")
    return paragraphs


def _describe_counts(conversation: Conversation) -> list[str]:
    paragraphs: list[str] = []
    for result in conversation.results_of("count_orders"):
        if result.answer is not None:
            statuses = ", ".join(f"{count} {status}" for status, count in result.answer["by_status"].items())
            totals = "; ".join(result.answer["delivered_totals"])
            paragraphs.append(f"{result.answer['orders']} orders: {statuses} [{result.answer['source']}].")
            paragraphs.append(f"The delivered ones come to {totals}.")
    return paragraphs


def _describe_search(question: Question, conversation: Conversation) -> list[str]:
    paragraphs: list[str] = []
    for result in conversation.results_of("lookup_customer"):
        answer = result.answer
        if answer is not None and answer["found"]:
            country, email = answer["country"] or "country unknown", answer["email"] or "no readable e-mail"
            paragraphs.append(
                f"{answer['name']} ({answer['customer_id']}), {answer['city']}, {country}, {email} "
                f"[{answer['source']}]."
            )
        elif answer is not None and answer["candidates"]:
            names = "; ".join(f"{c['name']} ({c['customer_id']})" for c in answer["candidates"])
            paragraphs.append(f"Several customers could be meant by {answer['customer']!r}: {names}.")
    for result in conversation.results_of("list_orders_of_customer"):
        if result.answer is not None and result.answer["orders"]:
            lines = [f"- {_describe_listed_order(order)}" for order in result.answer["orders"]]
            paragraphs.append("\n".join([f"Orders of {result.answer['customer_id']}:", *lines]))
    orders = [
        findings.find_order(conversation, hit["order_id"]) for hit in _ticket_hits(question, conversation)
    ]
    paragraphs += [_describe_order(order, None) for order in orders if order is not None]
    person_found = bool(paragraphs) and not question.ticket_ids
    hits_of = {
        "Tickets:": findings.find_hits(conversation, "search_tickets"),
        "The policies say:": findings.find_hits(conversation, "search_policies"),
        "Orders:": [] if person_found else findings.find_hits(conversation, "search_orders"),
    }
    paragraphs += [_quote_hits(heading, hits) for heading, hits in hits_of.items()]
    if not any(paragraphs):
        return [_say_nothing_found(conversation)]
    return paragraphs


def _ticket_hits(question: Question, conversation: Conversation) -> list[dict[str, Any]]:
    hits = findings.find_hits(conversation, "search_tickets")
    return [hit for hit in hits if hit["id"] in question.ticket_ids and hit["order_id"] is not None]


def _describe_listed_order(order: dict[str, Any]) -> str:
    facts = (order["items"], order["total"], order["status"], order["ordered_on"])
    return f"{order['order_id']}: {', '.join(fact or 'not readable' for fact in facts)} [{order['source']}]"


def _say_order_not_found(conversation: Conversation, order_id: str) -> str:
    for result in conversation.results_of("lookup_order"):
        if result.answer is not None and result.answer["order_id"] == order_id:
            return f"There is no order {order_id} among the {result.answer['searched_orders']} in the files."
    return f"The order {order_id} could not be looked up."


def _say_nothing_found(conversation: Conversation) -> str:
    searched = {
        result.tool_name.removeprefix("search_"): result.answer["searched"]
        for result in conversation.results
        if result.answer is not None and "searched" in result.answer
    }
    if not searched:
        return "I found nothing to search for in that. " + _ABILITIES
    places = ", ".join(f"{count} {_PLACES[place]}" for place, count in searched.items())
    return f"I found nothing about that in the desk's files (searched: {places}), so I will not guess."


def _describe_failures(conversation: Conversation) -> list[str]:
    failed = [
        f"{result.tool_name}: {result.output}"
        for result in conversation.results
        if result.answer is None and result.tool_name != "refund_order"
    ]
    return ["Not everything could be looked up. " + " ".join(failed)] if failed else []


def _quote_hits(heading: str, hits: Sequence[dict[str, Any]]) -> str:
    if not hits:
        return ""
    lines: list[str] = []
    for hit in hits:
        author = f", {hit['from']}" if hit.get("from") else ""
        day = f", {hit['opened_on']}" if hit.get("opened_on") else ""
        label = hit["id"] if "order_id" in hit or str(hit["id"]).startswith("FF-") else hit["title"]
        lines.append(f'- {label}{author}{day}: "{_on_one_line(hit["quote"])}" [{hit["source"]}]')
    return "\n".join([heading, *lines])


def _count_refunds(refunds: Sequence[dict[str, Any]]) -> str:
    return f"{len(refunds)} refund{'' if len(refunds) == 1 else 's'}: {_list_refunds(refunds)}"


def _list_refunds(refunds: Sequence[dict[str, Any]]) -> str:
    return "; ".join(
        f"{refund['refund_id']} of {refund['amount']} {refund['currency']} for {refund['order_id']} "
        f"at {refund['accepted_at']}"
        for refund in refunds
    )


def _on_one_line(text: str) -> str:
    return " ".join(text.strip("| ").split())
