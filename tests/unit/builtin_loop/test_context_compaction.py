"""Where a conversation may be cut, what a summary call is sent, and how an estimate is anchored."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dex_agents import limits, texts
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ModelOutputItem,
    ModelRequest,
    ModelUserTextItem,
    ScriptedModelClient,
    ScriptedModelReply,
)
from dex_agents.builtin_loop.context_compaction import (
    build_summary_request,
    choose_cut,
    estimate_request,
    measure_request,
)
from dex_agents.builtin_loop.input_items import (
    build_model_output_message,
    build_tool_result_message,
    build_user_text_message,
)
from dex_agents.builtin_loop.stored_items import StoredModelOutput, StoredToolCall
from dex_agents.runner.contract import CompactsContext, ContextSummaryRequest
from dex_agents.session.transitions.messages import number_messages
from dex_agents.wire.context import ContextSummary
from dex_agents.wire.messages import AgentMessage, FrameworkMessage
from dex_agents.wire.usage import AgentUsage

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MODEL = ScriptedModelClient(lambda _: ScriptedModelReply(text="x"))


class _Named(ScriptedModelClient):
    """A client that says which model it calls."""

    def __init__(self, model: str) -> None:
        super().__init__(lambda _: ScriptedModelReply(text="x"), provider="p")
        self.model = model


def _call(number: int) -> StoredToolCall:
    return StoredToolCall(f"c{number}", f"m{number}", "look", "{}")


def _output(*calls: int, text: str = "") -> FrameworkMessage:
    return build_model_output_message(StoredModelOutput(text=text, tool_calls=tuple(map(_call, calls))))


def _result(number: int, output: str = "ok") -> FrameworkMessage:
    return build_tool_result_message(_call(number), output)


def _stored(*messages: FrameworkMessage, first: int = 1) -> tuple[AgentMessage, ...]:
    return number_messages(messages, next_sequence=first, turn_id="turn-1", now=NOW)


def test_the_built_in_runner_can_compact() -> None:
    assert isinstance(BuiltinLoopAgentRunner(AgentDefinition(name="a", model=MODEL)), CompactsContext)


@pytest.mark.case("BR-070")
@pytest.mark.requirement("compaction-cut")
def test_an_open_exchange_stays_behind_the_cut() -> None:
    messages = _stored(
        build_user_text_message("one"),
        _output(1),
        _result(1),
        _output(2, 3),
        _result(2),
    )
    assert choose_cut(messages, 1, model=MODEL) == 3


def test_nothing_is_cut_right_behind_a_users_message() -> None:
    messages = _stored(
        build_user_text_message("one"),
        _output(text="answer"),
        build_user_text_message("two"),
        _output(1),
    )
    assert choose_cut(messages, 1, model=MODEL) == 2
    assert choose_cut(messages[2:], 1, model=MODEL) is None
    assert choose_cut(messages[:1], 1, model=MODEL) is None
    assert choose_cut((), 1, model=MODEL) is None


def test_as_much_stays_as_fits() -> None:
    messages = _stored(
        *(
            message
            for _ in range(10)
            for message in (build_user_text_message("word " * 50), _output(text="word " * 50))
        )
    )
    cuts = [choose_cut(messages, retained, model=MODEL) for retained in (10, 150, 300, 1_000)]
    assert all(cut is not None for cut in cuts)
    assert cuts == sorted(cuts, key=lambda cut: -(cut or 0))
    assert cuts[0] != cuts[-1]


def test_a_summary_that_would_free_next_to_nothing_is_not_asked_for() -> None:
    messages = _stored(
        build_user_text_message("hi"), _output(text="hello"), build_user_text_message("word " * 900)
    )
    assert choose_cut(messages, 100, model=MODEL, context_window_tokens=200) == 2
    assert choose_cut(messages, 100, model=MODEL, context_window_tokens=1_000) is None


def test_what_is_too_long_for_one_summary_is_summarised_in_parts() -> None:
    messages = _stored(
        *(
            message
            for _ in range(40)
            for message in (build_user_text_message("word " * 50), _output(text="word " * 50))
        )
    )
    whole = choose_cut(messages, 100, model=MODEL)
    part = choose_cut(messages, 100, model=MODEL, context_window_tokens=1_000)
    assert whole is not None
    assert part is not None
    assert part < whole


@given(st.data())
def test_both_sides_of_a_cut_are_whole_conversations(data: st.DataObject) -> None:
    messages: list[FrameworkMessage] = []
    number = 0
    for _ in range(data.draw(st.integers(1, 8))):
        messages.append(build_user_text_message("ask " * data.draw(st.integers(1, 40))))
        for _ in range(data.draw(st.integers(0, 3))):
            calls = list(range(number, number + data.draw(st.integers(1, 3))))
            number += len(calls)
            messages.append(_output(*calls))
            messages += [_result(one, "out " * data.draw(st.integers(0, 60))) for one in calls]
        if data.draw(st.booleans()):
            messages.append(_output(text="said"))
    if data.draw(st.booleans()):
        messages += [_output(number, number + 1), _result(number)]
    stored = _stored(*messages)
    cut = choose_cut(stored, data.draw(st.integers(1, 400)), model=MODEL)
    if cut is None:
        return
    assert 1 <= cut < len(stored)
    before, behind = messages[:cut], messages[cut:]
    for side in (before, behind):
        asked = [
            call.tool_call_id
            for message in side
            if message.role == "assistant"
            for call in msgspec.json.decode(message.framework_item, type=StoredModelOutput).tool_calls
        ]
        answered = [message.tool_call_id for message in side if message.role == "tool"]
        if side is before:
            assert asked == answered
        else:
            assert set(answered) <= set(asked)


@pytest.mark.requirement("compaction-cumulative")
def test_a_summary_call_holds_one_text_and_no_tools() -> None:
    request = build_summary_request(
        ContextSummaryRequest(
            flow_id="s",
            turn_id="turn-1",
            attempt=1,
            messages=_stored(
                build_user_text_message("find it"),
                _output(1, text="I look"),
                _result(1, "x" * 100_000),
            ),
            earlier_summary=ContextSummary("They met \ud800.", 3, 1, NOW),
        )
    )
    (item,) = request.items
    assert isinstance(item, ModelUserTextItem)
    assert request.tools == ()
    assert request.instructions == texts.CONTEXT_SUMMARY_INSTRUCTIONS
    assert item.text.startswith("Summary of everything before it:\nThey met \ufffd.\n")
    lines = item.text.splitlines()
    assert [line for line in lines if line.startswith(("User", "Assistant"))] == [
        "User: find it",
        "Assistant: I look",
        "Assistant called look: {}",
    ]
    assert len(item.text) < 20_000
    assert "[The output was cut: 16384 of 100016 bytes are shown.]" in item.text


@pytest.mark.requirement("token-anchor")
def test_an_estimate_starts_from_what_the_provider_reported_for_the_call_before() -> None:
    model = _Named("gpt-5-mini")
    request = ModelRequest("Help.", (ModelUserTextItem("hello " * 100),))
    anchor = measure_request(request, model, AgentUsage(input_tokens=5_000))
    assert estimate_request(request, model, anchor) == 5_000
    longer = ModelRequest("Help.", (*request.items, ModelOutputItem("well"), ModelUserTextItem("more")))
    assert 5_000 < estimate_request(longer, model, anchor) < 5_050


@pytest.mark.parametrize("other", [_Named("gpt-5"), _Named("claude-sonnet-4"), MODEL])
def test_an_anchor_of_another_model_is_not_used(other: ScriptedModelClient) -> None:
    request = ModelRequest("Help.", (ModelUserTextItem("hello " * 100),))
    anchor = measure_request(request, _Named("gpt-5-mini"), AgentUsage(input_tokens=5_000))
    assert estimate_request(request, other, anchor) == estimate_request(request, other, None) < 1_000


@pytest.mark.parametrize("anchor", [None, "", "{}", '{"model": 3}'])
def test_an_anchor_that_can_not_be_read_is_none(anchor: str | None) -> None:
    request = ModelRequest("Help.", (ModelUserTextItem("hello"),))
    assert estimate_request(request, MODEL, anchor) < 100


def test_a_provider_that_reports_nothing_leaves_no_anchor() -> None:
    assert measure_request(ModelRequest("", (ModelUserTextItem("x"),)), MODEL, AgentUsage()) is None


@pytest.mark.case("BR-071")
@pytest.mark.case("BR-072")
@pytest.mark.case("BR-073")
@pytest.mark.requirement("image-tokens-fixed")
def test_the_images_of_a_stored_answer_cost_the_same_whatever_their_bytes() -> None:
    def estimate(base64_characters: int, count: int) -> int:
        image = '{"type":"image","data":"iVBORw0KGgo' + "A" * base64_characters + '"}'
        item = f"[{','.join([image] * count)}]"
        return estimate_request(
            ModelRequest("", (ModelUserTextItem("see"), ModelOutputItem("", item=item))), MODEL, None
        )

    assert abs(estimate(4_000_000, 1) - estimate(1_000, 1)) <= 1
    assert estimate(4_000_000, 1) < 2 * limits.ESTIMATED_IMAGE_INPUT_TOKENS
    assert estimate(1_000, 60) >= 60 * limits.ESTIMATED_IMAGE_INPUT_TOKENS
