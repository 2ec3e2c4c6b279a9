"""What each API streams, as one answer: the same for all of them, and sent back as it came."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from dex_agents import texts
from dex_agents.builtin_loop import ModelOutputItem, ModelToolCall, ModelToolResultItem, ModelUserTextItem
from dex_agents.builtin_loop.model_clients import AnthropicModelClient, OpenAIModelClient
from dex_agents.errors import ModelCallError
from dex_agents.testing import ModelApi, ModelServer, ModelServerError, ModelServerReply, ScriptedToolCall
from dex_agents.wire.usage import AgentUsage
from tests.unit.builtin_loop.model_clients.clients import APIS, LOOK, MODEL, asking, replaying, talking
from tests.unit.builtin_loop.turns import RecordedEvents

each_api = pytest.mark.parametrize("api", APIS)
with_native = pytest.mark.parametrize("api", ["responses", "messages"])

THINKING = {"type": "enabled", "budget_tokens": 1024}


@each_api
async def test_text_and_reasoning_are_streamed_and_returned_whole(api: ModelApi) -> None:
    reply = ModelServerReply(text="It is  42.\n", reasoning="Let me think.")
    events = RecordedEvents()
    async with talking(api, reply) as (client, _):
        response = await client.generate(asking(), events)
    assert response.text == "".join(events.text) == "It is  42.\n"
    assert response.reasoning == "".join(events.reasoning) == "Let me think."
    assert len(list(filter(None, events.text))) == 3
    assert response.tool_calls == ()


@each_api
async def test_calls_come_in_the_order_asked_with_the_text_the_model_wrote(api: ModelApi) -> None:
    asked = (
        ScriptedToolCall("look", '{"q":  "é\\n", "n": 1.50}'),
        ScriptedToolCall("look", {}),
        ScriptedToolCall("put", '{"q": "unterminat'),
    )
    async with talking(api, ModelServerReply(tool_calls=asked)) as (client, _):
        response = await client.generate(asking(), RecordedEvents())
    assert response.tool_calls == (
        ModelToolCall("call_1_0", "look", '{"q":  "é\\n", "n": 1.50}'),
        ModelToolCall("call_1_1", "look", "{}"),
        ModelToolCall("call_1_2", "put", '{"q": "unterminat'),
    )
    assert response.text == ""


@each_api
async def test_an_answer_is_described(api: ModelApi) -> None:
    usage = AgentUsage(input_tokens=90, output_tokens=30, cached_input_tokens=50, reasoning_tokens=20)
    async with talking(api, ModelServerReply(text="hi", usage=usage)) as (client, _):
        response = await client.generate(asking(), RecordedEvents())
        assert (client.model, client.provider) == (MODEL, api)
        assert client.api == api
    assert response.usage == usage
    assert response.request_model == response.response_model == MODEL
    assert response.response_id
    assert response.finish_reason == {"responses": "completed", "messages": "end_turn"}.get(api, "stop")


async def test_tokens_written_to_the_cache_are_input_tokens_too() -> None:
    usage = AgentUsage(input_tokens=90, output_tokens=3, cached_input_tokens=50, cache_write_tokens=30)
    async with talking("messages", ModelServerReply(text="hi", usage=usage)) as (client, _):
        response = await client.generate(asking(), RecordedEvents())
    assert response.usage == usage


@with_native
@pytest.mark.requirement("native-replay")
async def test_the_items_of_an_answer_are_sent_back_as_they_came(api: ModelApi) -> None:
    asked = ModelServerReply(
        text="Looking.",
        reasoning="I must look.",
        signature="EqQB+/==",
        redacted="opaque==",
        tool_calls=(ScriptedToolCall("look", {"q": "é", "n": 1.5}), ScriptedToolCall("look", {})),
    )
    settings = {"thinking": THINKING} if api == "messages" else {}
    async with talking(api, asked, ModelServerReply(text="done"), **settings) as (client, server):
        response = await client.generate(asking(), RecordedEvents())
        await client.generate(asking(*replaying(response, "one", "two")), RecordedEvents())
        body = server.requests[1].body
    assert response.item is not None
    native = json.loads(response.item)
    if api == "messages":
        assert body["messages"][1] == {"role": "assistant", "content": native}
        assert native[0] == {"type": "thinking", "thinking": "I must look.", "signature": "EqQB+/=="}
        assert native[1] == {"type": "redacted_thinking", "data": "opaque=="}
    else:
        assert body["input"][1:5] == native
        assert native[0]["encrypted_content"] == "EqQB+/=="
        assert body["store"] is False


@each_api
async def test_another_providers_answer_is_reduced_to_text_and_calls(api: ModelApi) -> None:
    earlier = ModelOutputItem("Looking.", (ModelToolCall("x", "look", '{"q":1}'),), None)
    results = ModelToolResultItem("x", "look", "found")
    async with talking(api, ModelServerReply(text="done")) as (client, server):
        await client.generate(asking(earlier, results), RecordedEvents())
        body = server.requests[0].body
    match api:
        case "responses":
            assert body["input"][1:] == [
                {"type": "message", "role": "assistant", "content": "Looking."},
                {"type": "function_call", "call_id": "x", "name": "look", "arguments": '{"q":1}'},
                {"type": "function_call_output", "call_id": "x", "output": "found"},
            ]
        case "chat_completions":
            function = {"name": "look", "arguments": '{"q":1}'}
            assert body["messages"][2:] == [
                {
                    "role": "assistant",
                    "content": "Looking.",
                    "tool_calls": [{"type": "function", "id": "x", "function": function}],
                },
                {"role": "tool", "tool_call_id": "x", "content": "found"},
            ]
        case "messages":
            assert body["messages"][1]["content"] == [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "x", "name": "look", "input": {"q": 1}},
            ]
            (result,) = body["messages"][2]["content"]
            assert (result["tool_use_id"], result["content"]) == ("x", [{"type": "text", "text": "found"}])


@each_api
@pytest.mark.case("BR-021")
async def test_five_results_stand_together_in_the_order_asked(api: ModelApi) -> None:
    asked = tuple(ScriptedToolCall("look", {"q": number}) for number in range(5))
    async with talking(api, ModelServerReply(tool_calls=asked), ModelServerReply(text="ok")) as (
        client,
        server,
    ):
        response = await client.generate(asking(), RecordedEvents())
        outputs = [f"result {number}" for number in range(5)]
        steered = ModelUserTextItem("hurry")
        await client.generate(asking(*replaying(response, *outputs), steered), RecordedEvents())
        body = server.requests[1].body
    ids = [call.model_call_id for call in response.tool_calls]
    match api:
        case "responses":
            sent = [(item.get("call_id"), item.get("output")) for item in body["input"][-6:-1]]
        case "chat_completions":
            sent = [(message["tool_call_id"], message["content"]) for message in body["messages"][-6:-1]]
        case "messages":
            assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
            blocks = body["messages"][2]["content"]
            sent = [(block["tool_use_id"], block["content"][0]["text"]) for block in blocks[:5]]
            assert blocks[5]["text"] == "hurry"
    assert sent == list(zip(ids, outputs, strict=True))


@each_api
@pytest.mark.requirement("call-ids-apart")
async def test_calls_that_share_an_id_are_told_apart_in_every_later_request(api: ModelApi) -> None:
    twice = ModelServerReply(
        reasoning="twice",
        tool_calls=(
            ScriptedToolCall("look", {"q": 1}, model_call_id="same"),
            ScriptedToolCall("look", {"q": 2}, model_call_id="same"),
        ),
    )
    async with talking(api, twice, twice, ModelServerReply(text="ok")) as (client, server):
        first = await client.generate(asking(), RecordedEvents())
        assert [call.model_call_id for call in first.tool_calls] == ["same", "same"]
        once = replaying(first, "1", "2")
        second = await client.generate(asking(*once), RecordedEvents())
        await client.generate(asking(*once, *replaying(second, "3", "4")), RecordedEvents())
        shorter, longer = (list(_call_ids(api, request.body)) for request in server.requests[1:])
    assert longer == ["same", "same-2", "same-3", "same-4"]
    assert shorter == longer[:2]


def _call_ids(api: ModelApi, body: dict[str, object]) -> list[str]:
    text = json.dumps(body)
    key = {"responses": "call_id", "chat_completions": "tool_call_id", "messages": "tool_use_id"}[api]
    pieces = text.split(f'"{key}": "')[1:]
    return list(dict.fromkeys(piece.partition('"')[0] for piece in pieces))


@each_api
async def test_an_answer_that_is_cut_off_keeps_its_text_and_its_broken_call(api: ModelApi) -> None:
    reply = ModelServerReply(
        text="I will",
        tool_calls=(ScriptedToolCall("look", {}), ScriptedToolCall("put", '{"text": "half of it"}')),
        is_cut_off=True,
    )
    async with talking(api, reply) as (client, _):
        response = await client.generate(asking(), RecordedEvents())
    assert response.text == "I will"
    assert [call.arguments for call in response.tool_calls] == ["{}", '{"text": "h']
    assert response.finish_reason == {"responses": "max_output_tokens", "messages": "max_tokens"}.get(
        api, "length"
    )


@each_api
@pytest.mark.case("BR-062")
async def test_arguments_that_never_came_are_not_taken_for_none(api: ModelApi) -> None:
    calls = (ScriptedToolCall("look", ""), ScriptedToolCall("look", ""))
    async with talking(
        api,
        ModelServerReply(tool_calls=calls, is_cut_off=True),
        ModelServerReply(tool_calls=calls),
    ) as (client, _):
        cut = await client.generate(asking(), RecordedEvents())
        whole = await client.generate(asking(), RecordedEvents())
    assert [call.arguments for call in cut.tool_calls] == ["{}", ""]
    assert [call.arguments for call in whole.tool_calls] == ["{}", "{}"]


@each_api
async def test_a_refusal_is_told_as_one(api: ModelApi) -> None:
    async with talking(api, ModelServerReply(refusal="I will not.")) as (client, _):
        response = await client.generate(asking(), RecordedEvents())
    assert response.finish_reason == "refusal"
    if api == "messages":
        assert (response.text, response.refusal) == ("", "I will not.")
    else:
        assert (response.text, response.refusal) == ("I will not.", "")


@pytest.mark.parametrize("api", ["responses", "chat_completions"])
async def test_an_answer_that_a_filter_took_away_is_a_refusal(api: ModelApi) -> None:
    async with talking(api, ModelServerReply(finish_reason="content_filter")) as (client, _):
        response = await client.generate(asking(), RecordedEvents())
    assert (response.text, response.refusal) == ("", "content_filter")


@each_api
async def test_an_empty_answer_is_returned_as_one(api: ModelApi) -> None:
    async with talking(api, ModelServerReply()) as (client, _):
        response = await client.generate(asking(), RecordedEvents())
    assert (response.text, response.tool_calls, response.item, response.refusal) == ("", (), None, "")


@each_api
async def test_reasoning_alone_leaves_nothing_to_send_back_to_openai(api: ModelApi) -> None:
    async with talking(api, ModelServerReply(reasoning="hm")) as (client, _):
        response = await client.generate(asking(), RecordedEvents())
    assert (response.text, response.reasoning) == ("", "hm")
    assert (response.item is None) == (api != "messages")


@each_api
async def test_a_call_that_must_answer_offers_nothing(api: ModelApi) -> None:
    earlier = ModelOutputItem("", (ModelToolCall("x", "look", "{}"),), None)
    results = ModelToolResultItem("x", "look", "found")
    async with talking(api, ModelServerReply(text="done")) as (client, server):
        await client.generate(asking(earlier, results, tools=()), RecordedEvents())
        body = server.requests[0].body
    if api == "messages":
        assert body["tools"] == [{"name": "look", "input_schema": {"type": "object"}}]
        assert body["tool_choice"] == {"type": "none"}
    else:
        assert "tools" not in body
        assert "tool_choice" not in body


@each_api
async def test_a_required_choice_is_passed_on(api: ModelApi) -> None:
    settings = {"thinking": THINKING} if api == "messages" else {}
    async with talking(api, ModelServerReply(text="x"), **settings) as (client, server):
        await client.generate(asking(tools=(LOOK,), tool_choice="required"), RecordedEvents())
        body = server.requests[0].body
    assert body["tool_choice"] == ({"type": "any"} if api == "messages" else "required")
    assert "thinking" not in body


@each_api
async def test_more_fields_of_a_request_are_sent(api: ModelApi) -> None:
    fields = {"temperature": 0, "metadata": {"user_id": "7"}}
    settings = {"request_fields": fields, "max_output_tokens": 77}
    async with talking(api, ModelServerReply(text="x"), **settings) as (client, server):
        await client.generate(asking(), RecordedEvents())
        body = server.requests[0].body
    assert body["temperature"] == 0
    assert body["metadata"] == {"user_id": "7"}
    assert body["max_output_tokens" if api == "responses" else "max_tokens"] == 77


@each_api
async def test_what_is_sent_is_what_was_built(api: ModelApi) -> None:
    asked = ModelServerReply(text="so", reasoning="r", tool_calls=(ScriptedToolCall("look", {"q": 1}),))
    async with talking(api, asked, asked) as (client, server):
        response = await client.generate(asking(), RecordedEvents())
        request = asking(*replaying(response, "found"))
        await client.generate(request, RecordedEvents())
        assert server.requests[1].body == client.build_request(request)


async def test_a_model_without_reasoning_is_not_sent_that_of_another() -> None:
    asked = ModelServerReply(reasoning="hm", tool_calls=(ScriptedToolCall("look", {"q": 1}),))
    async with ModelServer([asked, ModelServerReply(text="done")]) as server:
        settings: dict[str, Any] = {"base_url": server.openai_base_url, "provider": "openai"}
        async with OpenAIModelClient("gpt-5", **settings) as reasoning:
            response = await reasoning.generate(asking(), RecordedEvents())
        async with OpenAIModelClient("gpt-4.1", **settings) as plain:
            await plain.generate(asking(*replaying(response, "found")), RecordedEvents())
        first, second = (request.body for request in server.requests)
    assert response.item is not None
    assert first["include"] == ["reasoning.encrypted_content"]
    assert "include" not in second
    assert [item["type"] for item in second["input"]] == ["message", "function_call", "function_call_output"]


@pytest.mark.parametrize(
    ("model", "asks"),
    [("gpt-5", True), ("o3", True), ("any", True), ("gpt-4o", False), ("ft:gpt-4o:x", False)],
)
def test_encrypted_reasoning_is_asked_of_models_that_have_it(model: str, asks: bool) -> None:
    assert ("include" in OpenAIModelClient(model).build_request(asking())) == asks
    assert "include" in OpenAIModelClient(model, encrypted_reasoning=True).build_request(asking())


def test_the_limit_of_an_answer_has_the_name_that_the_server_knows() -> None:
    settings: dict[str, Any] = {"api": "chat_completions", "max_output_tokens": 7}
    openai = OpenAIModelClient("gpt-5", **settings).build_request(asking())
    other = OpenAIModelClient("gpt-5", base_url="http://localhost/v1", **settings).build_request(asking())
    assert (openai["max_completion_tokens"], other["max_tokens"]) == (7, 7)
    assert "max_tokens" not in openai


def test_the_provider_goes_on_from_an_answer_only_when_told_to() -> None:
    body = AnthropicModelClient("m").build_request(asking(ModelOutputItem("Done.")))
    assert body["messages"][-1]["role"] == "user"
    assert body["messages"][-1]["content"][0]["text"] == texts.GO_ON


@pytest.mark.parametrize("kind", ["enabled", "adaptive"])
def test_thinking_is_left_out_where_an_answer_began_without_it(kind: str) -> None:
    client = AnthropicModelClient("m", thinking={"type": kind, "budget_tokens": 1024})
    call = ModelToolCall("x", "look", "{}")
    results = ModelToolResultItem("x", "look", "found")
    unsigned = client.build_request(asking(ModelOutputItem("", (call,)), results))
    native = json.dumps(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "x", "name": "look", "input": {}},
        ]
    )
    again = ModelOutputItem("", (call,))
    signed = client.build_request(asking(ModelOutputItem("", (call,), native), results, again, results))
    next_turn = client.build_request(
        asking(ModelOutputItem("", (call,)), results, ModelOutputItem("ok"), ModelUserTextItem("more"))
    )
    assert ("thinking" in unsigned) == (kind == "adaptive")
    assert "thinking" in signed
    assert "thinking" in next_turn


def test_the_ends_of_this_request_and_of_the_one_before_are_marked_for_the_cache() -> None:
    call = ModelToolCall("x", "look", "{}")
    results = ModelToolResultItem("x", "look", "found")
    request = asking(ModelOutputItem("", (call,)), results, ModelOutputItem("ok"), ModelUserTextItem("more"))
    marked = AnthropicModelClient("m").build_request(request)
    places = [("cache_control" in block) for message in marked["messages"] for block in message["content"]]
    assert places == [False, False, True, False, True]
    assert "cache_control" in marked["system"][0]
    unmarked = AnthropicModelClient("m", prompt_caching=False).build_request(request)
    assert "cache_control" not in json.dumps(unmarked)


@each_api
async def test_a_client_of_the_sdk_that_is_given_makes_the_request_and_repeats_nothing(api: ModelApi) -> None:
    error = ModelServerError(status=503)
    async with ModelServer([error, ModelServerReply(text="hi")]) as server:
        if api == "messages":
            given = anthropic.AsyncAnthropic(api_key="k", base_url=server.anthropic_base_url, max_retries=5)
            client = AnthropicModelClient("m", sdk_client=given)
        else:
            given = openai.AsyncOpenAI(api_key="k", base_url=server.openai_base_url, max_retries=5)
            client = OpenAIModelClient("m", api=api, sdk_client=given)
        async with given, client:
            with pytest.raises(ModelCallError):
                await client.generate(asking(), RecordedEvents())
            assert len(server.requests) == 1
            await client.aclose()
            assert (await client.generate(asking(), RecordedEvents())).text == "hi"
