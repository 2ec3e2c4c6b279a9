"""The cases of area `model`, and what a provider does to a session, through both SDKs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dex_agents import AgentSessionClient, ToolEffect, limits, texts
from dex_agents.builtin_loop import function_tool
from dex_agents.testing import (
    ModelApi,
    ModelServer,
    ModelServerError,
    ModelServerReply,
    ModelServerRequest,
    ScriptedToolCall,
)
from dex_agents.wire.snapshots import SessionProgress
from tests.integration.session.desk import answers, ask
from tests.integration.session.model_servers import APIS, serve_models

each_api = pytest.mark.parametrize("api", APIS)

DONE = ModelServerReply(text="done")


@function_tool(effect=ToolEffect.READ)
async def look(q: str = "") -> str:
    """Look something up."""
    return "" if q == "nothing" else f"found {q}"


def asks(*calls: tuple[str, Any], **fields: Any) -> ModelServerReply:
    """Return an answer that asks for tools."""
    asked = tuple(ScriptedToolCall(name, arguments) for name, arguments in calls)
    return ModelServerReply(reasoning="I need a tool.", tool_calls=asked, **fields)


def results_of(request: ModelServerRequest) -> list[str]:
    """Return the results that a request carries, in order."""
    match request.api:
        case "responses":
            return [item["output"] for item in request.body["input"] if "output" in item]
        case "chat_completions":
            return [item["content"] for item in request.body["messages"] if item["role"] == "tool"]
        case "messages":
            blocks = [block for message in request.body["messages"] for block in message["content"]]
            results = [block["content"] for block in blocks if block["type"] == "tool_result"]
            return [content[0]["text"] for content in results]


Talk = Callable[..., Awaitable[tuple[SessionProgress, ModelServer, list[Any]]]]


@pytest.fixture
def talk(tmp_path: Path, api: ModelApi) -> Talk:
    """Send messages to a session whose model follows a script; return how the last turn ended."""

    async def run(
        *script: Any, messages: tuple[str, ...] = ("hello",)
    ) -> tuple[SessionProgress, ModelServer, list[Any]]:
        async with (
            ModelServer(script) as server,
            serve_models(tmp_path / "a.db", server, [look], first=api) as client,
        ):
            await client.start_session("s")
            ends = [await ask(client, "s", message) for message in messages]
            snapshot = await client.get_agent_snapshot("s")
        return ends[-1], server, list(snapshot.tool_calls)

    return run


@each_api
@pytest.mark.case("BR-054")
async def test_an_unknown_tool_is_told_and_the_turn_goes_on(talk: Talk) -> None:
    progress, server, _ = await talk(asks(("loook", {})), DONE)
    assert progress.last_turn_outcome == "completed"
    (told,) = results_of(server.requests[1])
    assert "loook" in told
    assert "look" in told


@each_api
@pytest.mark.case("BR-055")
@pytest.mark.case("BR-056")
async def test_empty_answers_after_tools_end_the_turn_readably(talk: Talk) -> None:
    nothing = ModelServerReply(reasoning="only thoughts")
    progress, server, _ = await talk(asks(("look", {"q": "a"})), *[nothing] * limits.MAX_MODEL_CALL_ATTEMPTS)
    assert progress.last_turn_error == texts.empty_answer_error(limits.MAX_MODEL_CALL_ATTEMPTS)
    assert len(server.requests) == 1 + limits.MAX_MODEL_CALL_ATTEMPTS


@each_api
@pytest.mark.case("BR-057")
@pytest.mark.case("BR-058")
async def test_blank_texts_and_outputs_are_never_sent(talk: Talk) -> None:
    progress, server, _ = await talk(asks(("look", {"q": "nothing"}), text=" \n"), DONE)
    assert progress.last_turn_outcome == "completed"
    assert results_of(server.requests[1]) == [texts.EMPTY_TOOL_OUTPUT]


@each_api
@pytest.mark.case("BR-059")
@pytest.mark.case("BR-061")
@pytest.mark.parametrize("arguments", ['{"q": "unterminat', "not json", "[]", '{"q": "a", "q": "b"}'])
async def test_broken_arguments_run_nothing_and_can_be_sent_back(talk: Talk, arguments: str) -> None:
    progress, server, calls = await talk(asks(("look", arguments)), DONE, DONE, messages=("one", "two"))
    assert progress.last_turn_outcome == "completed"
    assert [(call.status, call.arguments) for call in calls] == [("failed", arguments)]
    assert results_of(server.requests[2])[0].startswith("The tool call failed: invalid arguments: ")
    assert "_invalid_arguments" in json.dumps(server.requests[2].body)


@each_api
@pytest.mark.case("BR-062")
@pytest.mark.parametrize("arguments", ['{"q": "some longer text"}', ""])
async def test_a_call_that_the_token_limit_cut_is_not_run(talk: Talk, arguments: str) -> None:
    _, server, calls = await talk(asks(("look", arguments), is_cut_off=True), DONE)
    assert [call.status for call in calls] == ["failed"]
    assert results_of(server.requests[1])[0].startswith("The tool call failed: invalid arguments: ")


@pytest.mark.parametrize(("api", "reason"), [("chat_completions", "tool_calls"), ("messages", "tool_use")])
@pytest.mark.case("BR-062")
async def test_a_cut_call_is_not_run_although_the_provider_says_that_it_is_whole(
    talk: Talk, reason: str
) -> None:
    cut = asks(("look", {"q": "some longer text"}), is_cut_off=True, finish_reason=reason)
    progress, server, calls = await talk(cut, DONE)
    assert progress.last_turn_outcome == "completed"
    assert [call.status for call in calls] == ["failed"]
    assert results_of(server.requests[1])[0].startswith("The tool call failed: invalid arguments: ")


@each_api
@pytest.mark.case("BR-063")
async def test_arguments_over_the_limit_are_not_run_and_not_sent_back_whole(talk: Talk) -> None:
    _, server, calls = await talk(asks(("look", {"q": "x" * 1_200_000})), DONE)
    assert [call.status for call in calls] == ["failed"]
    assert len(json.dumps(server.requests[1].body)) < 10_000


@each_api
@pytest.mark.case("BR-024")
async def test_a_call_in_half_an_answer_leaves_nothing(talk: Talk) -> None:
    half = asks(("look", {"q": "a"}), fault="cut", fault_after=8)
    progress, server, calls = await talk(half, asks(("look", {"q": "b"})), DONE)
    assert progress.last_turn_outcome == "completed"
    assert [json.loads(call.arguments) for call in calls] == [{"q": "b"}]
    assert server.requests[0].body == server.requests[1].body
    assert results_of(server.requests[2]) == ["found b"]


@each_api
@pytest.mark.requirement("rate-limit")
async def test_a_rate_limit_moves_the_next_attempt(talk: Talk) -> None:
    limited = ModelServerError(status=429, retry_after="1")
    progress, server, _ = await talk(limited, limited, DONE)
    assert progress.last_turn_outcome == "completed"
    assert len(server.requests) == 3


@each_api
@pytest.mark.requirement("refused-at-once")
async def test_a_refused_call_ends_the_turn_at_once_and_the_session_goes_on(talk: Talk) -> None:
    refused = ModelServerError(status=401, message="the key is wrong")
    progress, server, _ = await talk(asks(("look", {"q": "a"})), refused, DONE, messages=("one", "two"))
    assert progress.last_turn_outcome == "completed"
    assert len(server.requests) == 3
    assert results_of(server.requests[2]) == ["found a"]


@each_api
async def test_a_provider_that_stays_down_ends_the_turn_and_is_named(talk: Talk, api: ModelApi) -> None:
    progress, server, _ = await talk(*[ModelServerError(status=503, retry_after="1")] * 3)
    assert progress.last_turn_outcome == "failed"
    provider = "anthropic" if api == "messages" else "openai-compatible"
    assert progress.last_turn_error == f"{provider}: answered 503: this error was asked for"
    assert len(server.requests) == limits.MAX_MODEL_CALL_ATTEMPTS


async def test_a_refusal_without_text_ends_the_turn_at_once(tmp_path: Path) -> None:
    script = [ModelServerReply(refusal="Not this."), DONE]
    async with (
        ModelServer(script) as server,
        serve_models(tmp_path / "a.db", server, first="messages") as client,
    ):
        await client.start_session("s")
        progress = await ask(client, "s", "hello")
        assert progress.last_turn_error == texts.model_declined("Not this.")
        assert (await ask(client, "s", "something else")).last_turn_outcome == "completed"
        assert (await client.get_agent_snapshot("s")).usage.model_calls == 2


@pytest.mark.case("BR-064")
@pytest.mark.requirement("model-switch")
@pytest.mark.parametrize(("mine", "other"), [("responses", "messages"), ("messages", "responses")])
async def test_a_session_changes_its_model_and_comes_back(
    tmp_path: Path, mine: ModelApi, other: ModelApi
) -> None:
    signed = replace(asks(("look", {"q": "a"}), text="I look."), signature="only mine")

    def script(request: ModelServerRequest) -> ModelServerReply:
        return DONE if results_of(request) else signed

    async with ModelServer(script) as server, serve_models(tmp_path / "a.db", server, [look]) as client:
        await client.start_session("s")
        for model in (mine, other, "chat_completions", mine):
            await client.update_session_settings("s", {"model": model})
            assert (await ask(client, "s", f"hello {model}")).last_turn_outcome == "completed"
        assert len(await answers(client, "s")) == 5
        sent = [json.dumps(request.body) for request in server.requests]
    assert [request.api for request in server.requests] == [mine, mine, other, "chat_completions", mine]
    assert ["only mine" in body for body in sent] == [False, True, False, False, True]
    assert all('"look"' in body and "found a" in body for body in sent[2:])


@each_api
@pytest.mark.requirement("cancelled-call")
@pytest.mark.case("BR-023")
async def test_a_cancelled_turn_hangs_up_on_the_provider(tmp_path: Path, api: ModelApi) -> None:
    streaming, never = asyncio.Event(), asyncio.Event()

    async def before_event() -> None:
        streaming.set()
        await never.wait()

    script = [asks(("look", {"q": "a"})), ModelServerReply(text="slow", before_event=before_event), DONE]
    async with (
        ModelServer(script) as server,
        serve_models(tmp_path / "a.db", server, [look], first=api) as client,
    ):
        await client.start_session("s", first_message="hello")
        async with asyncio.timeout(30):
            await streaming.wait()
            assert await client.cancel_turn("s")
            await server.requests[1].hung_up.wait()
        await client.wait_for_idle("s", timeout=30)
        assert (await ask(client, "s", "again")).last_turn_outcome == "completed"


@each_api
@pytest.mark.case("BR-020")
@pytest.mark.case("BR-021")
async def test_steering_between_parallel_results_comes_after_all_of_them(
    tmp_path: Path, api: ModelApi
) -> None:
    running, gate = asyncio.Event(), asyncio.Event()

    @function_tool(effect=ToolEffect.READ)
    async def wait(q: int) -> str:
        """Wait for the test."""
        if q == 4:
            running.set()
            await gate.wait()
        return f"result {q}"

    script = [asks(*(("wait", {"q": number}) for number in range(5))), DONE]
    async with (
        ModelServer(script) as server,
        serve_models(tmp_path / "a.db", server, [wait], first=api) as client,
    ):
        await client.start_session("s", first_message="hello")
        async with asyncio.timeout(30):
            await running.wait()
        await steer(client, "hurry")
        gate.set()
        await client.wait_for_idle("s", timeout=30)
        body = json.dumps(server.requests[1].body)
        assert results_of(server.requests[1]) == [f"result {number}" for number in range(5)]
    assert body.index("result 4") < body.index("hurry")


async def steer(client: AgentSessionClient, text: str) -> None:
    assert await client.steer_user_message("s", text)
