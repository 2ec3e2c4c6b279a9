from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from dex_agents.testing import (
    ModelServer,
    ModelServerError,
    ModelServerReply,
    ModelServerRequest,
    ScriptedToolCall,
)

PATHS = {"responses": "/responses", "chat_completions": "/chat/completions", "messages": "/messages"}
each_path = pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)


async def post(server: ModelServer, path: str, body: object = None) -> httpx2.Response:
    async with httpx2.AsyncClient() as client:
        sent: Any = {"model": "m", "stream": True} if body is None else body
        return await client.post(server.openai_base_url + path, json=sent)


def events_of(response: httpx2.Response) -> list[Any]:
    lines = (line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def test_every_request_is_kept_with_its_api_and_its_headers() -> None:
    async with ModelServer(lambda _: ModelServerReply(text="hi")) as server:
        for path in PATHS.values():
            response = await post(server, path, {"stream": True, "path": path})
            assert response.headers["content-type"] == "text/event-stream"
    assert [(request.number, request.api) for request in server.requests] == list(enumerate(PATHS, 1))
    assert [request.body["path"] for request in server.requests] == list(PATHS.values())
    assert server.requests[0].headers["content-type"] == "application/json"
    assert server.anthropic_base_url + "/v1" == server.openai_base_url


@each_path
async def test_a_script_answers_in_order_and_then_says_that_it_has_no_more(path: str) -> None:
    async with ModelServer([ModelServerReply(text="one"), ModelServerError(status=529)]) as server:
        statuses = [(await post(server, path)).status_code for _ in range(3)]
    assert statuses == [200, 529, 400]


async def test_a_function_may_look_at_the_request_and_wait() -> None:
    async def answer(request: ModelServerRequest) -> ModelServerReply:
        await asyncio.sleep(0)
        return ModelServerReply(text=request.body["model"])

    async with ModelServer(answer) as server:
        response = await post(server, PATHS["messages"])
    assert any(event.get("delta") == {"type": "text_delta", "text": "m"} for event in events_of(response))


@pytest.mark.parametrize("body", [[], {"model": "m"}, {"stream": False}])
@each_path
async def test_a_request_that_does_not_stream_is_refused_and_not_counted(path: str, body: object) -> None:
    async with ModelServer([ModelServerReply(text="hi")]) as server:
        response = await post(server, path, body)
        assert response.status_code == 400
        assert "stream" in response.json()["error"]["message"]
        assert not server.requests


async def test_nothing_else_is_served() -> None:
    async with ModelServer([]) as server:
        assert (await post(server, "/models")).status_code == 404


async def test_an_error_has_the_form_and_the_headers_of_the_provider() -> None:
    error = ModelServerError(status=429, retry_after="9", message="slow down", headers={"x-id": "7"})
    async with ModelServer(lambda _: error) as server:
        openai = await post(server, PATHS["responses"])
        anthropic = await post(server, PATHS["messages"])
    for response in (openai, anthropic):
        assert (response.status_code, response.headers["retry-after"], response.headers["x-id"]) == (
            429,
            "9",
            "7",
        )
    assert openai.json()["error"] == {
        "message": "slow down",
        "type": "rate_limit_error",
        "param": None,
        "code": None,
    }
    assert anthropic.json() == {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "slow down"},
    }


@each_path
async def test_what_utf8_cannot_carry_is_sent_as_an_escape(path: str) -> None:
    call = ScriptedToolCall("look", '{"q": "\\ud800"}')
    async with ModelServer([ModelServerReply(text="x\ud800", tool_calls=(call,))]) as server:
        response = await post(server, path)
    assert "\\ud800" in response.text
    assert "x\ud800" in json.dumps(events_of(response), ensure_ascii=False)


@each_path
async def test_a_client_that_hangs_up_is_noticed(path: str) -> None:
    never = asyncio.Event()

    async def before_event() -> None:
        await never.wait()

    async with ModelServer([ModelServerReply(text="hi", before_event=before_event)]) as server:
        asking = asyncio.create_task(post(server, path))
        (request,) = await server.wait_for_requests(1)
        assert not request.hung_up.is_set()
        asking.cancel()
        async with asyncio.timeout(30):
            await request.hung_up.wait()


async def test_a_wait_for_requests_that_do_not_come_ends() -> None:
    async with ModelServer([]) as server:
        with pytest.raises(TimeoutError):
            await server.wait_for_requests(1, timeout=0.01)


async def test_closing_the_server_ends_what_it_is_answering() -> None:
    never = asyncio.Event()

    async def before_event() -> None:
        await never.wait()

    async with ModelServer([ModelServerReply(text="hi", before_event=before_event)]) as server:
        asking = asyncio.create_task(post(server, PATHS["responses"]))
        await server.wait_for_requests(1)
    with pytest.raises(httpx2.RemoteProtocolError):
        await asking


async def test_bytes_that_are_no_http_are_left_alone() -> None:
    async with ModelServer([ModelServerReply(text="hi")]) as server:
        host, _, port = server.anthropic_base_url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"hello")
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        assert (await post(server, PATHS["responses"])).status_code == 200
