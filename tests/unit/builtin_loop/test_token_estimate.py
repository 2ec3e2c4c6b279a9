from __future__ import annotations

import base64
import json
from typing import Any, get_args

import pytest

from dex_agents.builtin_loop.contract import (
    ModelOutputItem,
    ModelRequest,
    ModelTool,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
)
from dex_agents.builtin_loop.token_estimate import (
    InputTokenAnchor,
    TokenizerFamily,
    build_input_token_anchor,
    estimate_input_tokens,
    estimate_text_tokens,
)
from dex_agents.limits import ESTIMATED_IMAGE_INPUT_TOKENS

FAMILIES: tuple[TokenizerFamily, ...] = get_args(TokenizerFamily)
PNG_BYTES = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 12_000

each_family = pytest.mark.parametrize("family", FAMILIES)


def ask(*texts: str, **fields: Any) -> ModelRequest:
    return ModelRequest(fields.pop("instructions", ""), tuple(map(ModelUserTextItem, texts)), **fields)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (
            "Your parcel was delivered to a neighbour on Tuesday afternoon. If you did not get it, tell us "
            "and we will send another one.",
            {"o200k": 27, "cl100k": 27, "claude": 27, "deepseek": 27},
        ),
        (
            "您的包裹已于星期二下午送到邻居处。如果您没有收到\uff0c请告诉我们\uff0c我们会再寄一个。",
            {"o200k": 27, "cl100k": 38, "claude": 40, "deepseek": 21},
        ),
        (
            "Ваша посылка была передана соседу во вторник днём. Если вы её не получили, сообщите нам, "
            "и мы отправим другую.",
            {"o200k": 33, "cl100k": 46, "claude": 57, "deepseek": 38},
        ),
        (
            "Ihr Paket wurde am Dienstagnachmittag bei einem Nachbarn abgegeben. Falls Sie es nicht erhalten "
            "haben, schicken wir ein neues.",
            {"o200k": 27, "cl100k": 35, "claude": 36, "deepseek": 34},
        ),
        (
            '{"id": "ord_3f2a9c0e", "status": "refund", "total": 49.95, "created_at": '
            '"2026-03-14T09:26:53Z", "items": [{"sku": "A-1042", "qty": 2, "gift": false}], "note": null}',
            {"o200k": 76, "cl100k": 76, "claude": 75, "deepseek": 81},
        ),
        (
            "sha256:6ae8a75555209fd6c44157c0aed8016e763ff435a19cf186f76863140143ff72",
            {"o200k": 35, "cl100k": 35, "claude": 37, "deepseek": 36},
        ),
        (
            "def add_item(items: list[str], item: str) -> None:\n"
            "    if item not in items:\n        items.append(item)\n",
            {"o200k": 27, "cl100k": 27, "claude": 33, "deepseek": 27},
        ),
    ],
    ids=["English", "Chinese", "Russian", "German", "JSON", "digest", "Python"],
)
def test_a_sentence_is_estimated_near_what_the_tokenizers_make_of_it(
    text: str, tokens: dict[TokenizerFamily, int]
) -> None:
    for family, count in tokens.items():
        assert estimate_text_tokens(text, family=family) == pytest.approx(count, rel=0.4)
    assert estimate_text_tokens(text) >= max(tokens.values()) * 0.8


@each_family
@pytest.mark.parametrize("character", ["a", "7", " ", "\n", "-", "é", "你", "\x00", "\U0001f600", "\ud800"])
def test_a_run_without_end_is_never_free(family: TokenizerFamily, character: str) -> None:
    assert estimate_text_tokens(character * 100_000, family=family) >= 1_000


@each_family
def test_a_script_without_a_weight_costs_a_token_a_character_at_least(family: TokenizerFamily) -> None:
    assert estimate_text_tokens("ሰላም" * 100, family=family) >= 300


@each_family
def test_no_text_has_no_tokens_and_any_text_has_one(family: TokenizerFamily) -> None:
    assert estimate_text_tokens("", family=family) == 0
    assert estimate_text_tokens(" ", family=family) == 1


def test_an_unknown_family_is_named_in_the_error() -> None:
    family: Any = "o300k"
    with pytest.raises(ValueError, match=r"family must be one of o200k, .*, not 'o300k'"):
        estimate_text_tokens("text", family=family)


def test_a_negative_number_of_images_is_refused() -> None:
    with pytest.raises(ValueError, match="images must not be below zero, not -1"):
        estimate_input_tokens(ask("text"), images=-1)


def test_everything_that_is_sent_counts() -> None:
    words = " some more words"
    bare = ModelRequest("be brief", (ModelUserTextItem("hello"),), ())
    call = ModelToolCall("call_1", "find_order", '{"order_id": "ord_1042"}')
    tool = ModelTool("find_order", "Find an order.", {"type": "object"})
    larger = [
        ModelRequest("be brief" + words, bare.items),
        ModelRequest("be brief", (ModelUserTextItem("hello" + words),)),
        ModelRequest("be brief", (*bare.items, ModelOutputItem("hello back"))),
        ModelRequest("be brief", (*bare.items, ModelOutputItem("", (call,)))),
        ModelRequest("be brief", (*bare.items, ModelOutputItem("", (call,), '{"type":"function_call"}'))),
        ModelRequest("be brief", (*bare.items, ModelToolResultItem("call_1", "find_order", "not found"))),
        ModelRequest("be brief", bare.items, (tool,)),
    ]
    assert all(estimate_input_tokens(request) > estimate_input_tokens(bare) for request in larger)


def test_native_output_counts_in_place_of_text_and_calls() -> None:
    native = json.dumps({"reasoning": "because " * 50})
    text = "a text that is not sent " * 100
    with_text = ModelRequest("", (ModelOutputItem(text, (), native),))
    without = ModelRequest("", (ModelOutputItem("", (), native),))
    assert estimate_input_tokens(with_text) == estimate_input_tokens(without)


def test_a_tools_schema_counts_as_readable_text() -> None:
    def asking(description: str) -> ModelRequest:
        tool = ModelTool("look_up", "", {"type": "object", "description": description})
        return ask("hello", tools=(tool,))

    added = estimate_input_tokens(asking("订单" * 100)) - estimate_input_tokens(asking(""))
    assert added == pytest.approx(estimate_text_tokens("订单" * 100), abs=2)


@pytest.mark.requirement("image-tokens-fixed")
@pytest.mark.parametrize("prefix", ["", "data:image/png;base64,"])
@pytest.mark.parametrize("escaped", [False, True])
def test_an_image_in_native_output_costs_what_an_image_costs(prefix: str, escaped: bool) -> None:
    image = prefix + base64.b64encode(PNG_BYTES).decode()
    native = json.dumps({"type": "image_generation_call", "result": image})
    if escaped:
        native = native.replace("/", "\\/")
    empty = json.dumps({"type": "image_generation_call", "result": ""})
    with_image = estimate_input_tokens(ModelRequest("", (ModelOutputItem("", (), native),)))
    without = estimate_input_tokens(ModelRequest("", (ModelOutputItem("", (), empty),)))
    assert with_image == without + ESTIMATED_IMAGE_INPUT_TOKENS


@pytest.mark.requirement("image-tokens-fixed")
def test_images_of_a_tool_result_cost_what_uploaded_images_cost() -> None:
    uploaded = ask("look at these")
    returned = ModelRequest("", (ModelToolResultItem("call_1", "", "look at these"),))
    assert estimate_input_tokens(uploaded, images=20) == estimate_input_tokens(returned, images=20)


@pytest.mark.requirement("token-anchor")
def test_an_anchor_replaces_what_was_estimated_before() -> None:
    first = ask("hello", instructions="x" * 1_000)
    second = ModelRequest(first.instructions, (*first.items, ModelOutputItem("how can I help?")))
    anchor = build_input_token_anchor(first, 5_000, family="claude")
    assert anchor is not None
    assert estimate_input_tokens(first, family="claude", anchor=anchor) == 5_000
    added = estimate_input_tokens(second, family="claude") - estimate_input_tokens(first, family="claude")
    assert 4 < added < 20
    assert estimate_input_tokens(second, family="claude", anchor=anchor) == 5_000 + added


def test_a_request_that_shrank_is_its_share_of_the_reported_count() -> None:
    text = "a long conversation about parcels and refunds. "
    before, after = ask(text * 1_000), ask(text * 100)
    anchor = build_input_token_anchor(before, 9_000)
    estimate = estimate_input_tokens(after, anchor=anchor)
    assert estimate == pytest.approx(900, rel=0.01)
    nothing_left = estimate_input_tokens(ask(""), anchor=InputTokenAnchor("default", 10, 1_000_000))
    assert nothing_left == 1


def test_an_anchor_of_another_family_is_not_used() -> None:
    request = ask("hello")
    anchor = build_input_token_anchor(request, 5_000, family="o200k")
    assert estimate_input_tokens(request, family="claude", anchor=anchor) == estimate_input_tokens(
        request, family="claude"
    )


@pytest.mark.parametrize("reported", [0, -1])
def test_nothing_reported_leaves_no_anchor(reported: int) -> None:
    assert build_input_token_anchor(ask("hello"), reported) is None
