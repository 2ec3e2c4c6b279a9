"""A model made of plain code: it decides from the question and the tool results alone, so no key is needed.

It has no answers of its own. Each call of `decide_reply` sees what a real model would see and returns either
tool calls or a text whose every fact comes from a result: other files give other answers.

=================  ====================================  ==============================  =================
The question is    first it calls, in parallel           then                            then it answers
=================  ====================================  ==============================  =================
a refund           order, provider, tickets, policies    `refund_order` if allowed;      what is certain
                                                         `find_refund` if unknown
about refunds      provider                                                              what was accepted
about an order     order, its tickets, policies          customer, others' tickets       facts and quotes
a count            `count_orders`                                                        the numbers
anything else      tickets, policies, orders, customer   the customer's orders, or a     quotes, or that
                                                         wider search                    nothing was found
=================  ====================================  ==============================  =================
"""

from __future__ import annotations

from dex_agents.builtin_loop import ModelRequest, ScriptedModelReply, ScriptedToolCall
from examples.support_desk import answers, findings
from examples.support_desk.conversation import Conversation, read_conversation
from examples.support_desk.questions import Question, read_question

__all__ = ["decide_reply", "reply_as_desk_model"]

_MAX_ORDERS = 3


def reply_as_desk_model(request: ModelRequest) -> ScriptedModelReply:
    """Answer one model call; the script of a `ScriptedModelClient`."""
    return decide_reply(read_conversation(request))


def decide_reply(conversation: Conversation) -> ScriptedModelReply:
    """Return the next reply; the same conversation always gives the same one."""
    question = read_question(conversation.question, conversation.earlier_questions)
    if conversation.may_call_tools:
        if conversation.results:
            calls = _decide_further_calls(question, conversation)
        else:
            calls = _decide_first_calls(question)
        if calls:
            opening = "" if conversation.results else answers.announce_lookup(question)
            return ScriptedModelReply(text=opening, tool_calls=tuple(calls))
    return ScriptedModelReply(text=answers.compose_answer(question, conversation))


def _decide_first_calls(question: Question) -> list[ScriptedToolCall]:
    """The first calls of a turn depend on the question alone."""
    orders = question.order_ids[:_MAX_ORDERS]
    match question.wish:
        case "greeting":
            return []
        case "count":
            return [ScriptedToolCall("count_orders", {})]
        case "refund_status":
            return [ScriptedToolCall("find_refund", {"order_id": order}) for order in orders] or [
                ScriptedToolCall("find_refund", {})
            ]
        case "refund":
            calls = [
                ScriptedToolCall(tool_name, {"order_id": order})
                for order in orders
                for tool_name in ("lookup_order", "find_refund")
            ]
            calls += [ScriptedToolCall("search_tickets", {"query": order, "limit": 2}) for order in orders]
            return [
                *calls,
                ScriptedToolCall("search_policies", {"query": "how long refunds take", "limit": 1}),
            ]
        case "order":
            calls = [ScriptedToolCall("lookup_order", {"order_id": order}) for order in orders]
            calls += [ScriptedToolCall("search_tickets", {"query": order, "limit": 2}) for order in orders]
            if question.words:
                calls.append(ScriptedToolCall("search_policies", {"query": question.words}))
            return calls
        case "search":
            return _decide_searches(question)


def _decide_searches(question: Question) -> list[ScriptedToolCall]:
    people = question.customer_ids + question.names
    calls = [ScriptedToolCall("lookup_customer", {"customer": person}) for person in people[:_MAX_ORDERS]]
    calls += [
        ScriptedToolCall("search_tickets", {"query": ticket, "limit": 1}) for ticket in question.ticket_ids
    ]
    if question.words:
        calls += [
            ScriptedToolCall(tool_name, {"query": question.words})
            for tool_name in ("search_tickets", "search_policies", "search_orders")
        ]
    return calls


def _decide_further_calls(question: Question, conversation: Conversation) -> list[ScriptedToolCall]:
    """Later calls depend on what the earlier ones returned."""
    match question.wish:
        case "refund":
            return _decide_refunds(question, conversation)
        case "order":
            return _decide_order_background(question, conversation)
        case "search":
            return _decide_search_background(question, conversation)
        case "greeting" | "count" | "refund_status":
            return []


def _decide_refunds(question: Question, conversation: Conversation) -> list[ScriptedToolCall]:
    calls: list[ScriptedToolCall] = []
    for order_id in question.order_ids[:_MAX_ORDERS]:
        sent = findings.find_refund_attempt(conversation, order_id)
        if sent is not None:
            if findings.is_outcome_unknown(sent.output) and not findings.was_checked_after(
                conversation, sent
            ):
                calls.append(ScriptedToolCall("find_refund", {"order_id": order_id}))
            continue
        order = findings.find_order(conversation, order_id)
        known = findings.find_accepted_refunds(conversation, order_id)
        if order is None or known is None or not order["refund"]["allowed_by_policy"]:
            continue
        if len(known) >= order["refund"]["refunds_per_order"]:
            continue
        amount, _, currency = str(question.amount or order["total"]).replace(",", "").partition(" ")
        calls.append(
            ScriptedToolCall(
                "refund_order",
                {
                    "order_id": order_id,
                    "amount": amount,
                    "currency": currency,
                    "reason": findings.compose_refund_reason(conversation, order_id),
                },
            )
        )
    return calls


def _decide_order_background(question: Question, conversation: Conversation) -> list[ScriptedToolCall]:
    calls: list[ScriptedToolCall] = []
    for order_id in question.order_ids[:_MAX_ORDERS]:
        order = findings.find_order(conversation, order_id)
        if order is None:
            continue
        if order["customer_id"] is not None:
            calls.append(ScriptedToolCall("lookup_customer", {"customer": order["customer_id"]}))
        if question.words:
            calls.append(ScriptedToolCall("search_tickets", {"query": question.words}))
    return _only_new(calls, conversation)


def _decide_search_background(question: Question, conversation: Conversation) -> list[ScriptedToolCall]:
    calls = [
        ScriptedToolCall("list_orders_of_customer", {"customer_id": result.answer["customer_id"]})
        for result in conversation.results_of("lookup_customer")
        if result.answer is not None and result.answer["found"]
    ]
    calls += [
        ScriptedToolCall("lookup_order", {"order_id": hit["order_id"]})
        for ticket_id in question.ticket_ids
        for hit in findings.find_hits(conversation, "search_tickets")
        if hit["id"] == ticket_id and hit["order_id"] is not None
    ]
    if not calls and not findings.found_anything(conversation):
        wider = findings.widen_query(question)
        if wider is not None:
            calls = [
                ScriptedToolCall(tool_name, {"query": wider})
                for tool_name in ("search_tickets", "search_policies")
            ]
    return _only_new(calls, conversation)


def _only_new(calls: list[ScriptedToolCall], conversation: Conversation) -> list[ScriptedToolCall]:
    done = [ScriptedToolCall(result.tool_name, result.arguments) for result in conversation.results]
    new: list[ScriptedToolCall] = []
    for call in calls:
        if call not in done and call not in new:
            new.append(call)
    return new
