"""Every fault, through both SDKs: what is told, and whether it is worth another attempt."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from dex_agents.builtin_loop.model_clients import AnthropicModelClient, OpenAIModelClient
from dex_agents.errors import ModelCallError, ModelCallRefusedError
from dex_agents.testing import (
    ModelApi,
    ModelServer,
    ModelServerError,
    ModelServerReply,
    ScriptedToolCall,
    StreamFault,
    find_free_loopback_ports,
)
from dex_agents.testing.model_streams import build_stream
from tests.unit.builtin_loop.model_clients.clients import APIS, asking, build_client, talking
from tests.unit.builtin_loop.turns import RecordedEvents

each_api = pytest.mark.parametrize("api", APIS)


async def fail(api: ModelApi, answer: ModelServerReply | ModelServerError) -> ModelCallError:
    """Return the error of one call, and check that it was one request."""
    async with talking(api, answer) as (client, server):
        with pytest.raises(ModelCallError) as caught:
            await client.generate(asking(), RecordedEvents())
        assert len(server.requests) == 1
    return caught.value


@each_api
@pytest.mark.requirement("rate-limit")
@pytest.mark.parametrize(
    ("retry_after", "seconds"), [("7", 7), ("0.2", 1), ("soon", None), (None, None), ("900", 900)]
)
async def test_a_rate_limit_says_when_to_come_back(
    api: ModelApi, retry_after: str | None, seconds: int | None
) -> None:
    error = await fail(api, ModelServerError(status=429, retry_after=retry_after))
    assert not isinstance(error, ModelCallRefusedError)
    assert (error.status, error.retry_after_seconds) == (429, seconds)
    assert str(error) == f"{api}: answered 429: this error was asked for"


@each_api
async def test_a_provider_that_wants_to_be_left_alone_for_long_ends_the_turn(api: ModelApi) -> None:
    error = await fail(api, ModelServerError(status=429, retry_after="901"))
    assert isinstance(error, ModelCallRefusedError)
    assert "901 s" in str(error)


@each_api
@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 529])
async def test_what_may_pass_is_worth_another_attempt(api: ModelApi, status: int) -> None:
    error = await fail(api, ModelServerError(status=status))
    assert not isinstance(error, ModelCallRefusedError)
    assert (error.status, error.retry_after_seconds) == (status, None)


@each_api
@pytest.mark.requirement("refused-at-once")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_what_stays_is_refused(api: ModelApi, status: int) -> None:
    error = await fail(api, ModelServerError(status=status))
    assert isinstance(error, ModelCallRefusedError)
    assert error.status == status


@each_api
async def test_an_account_without_credit_is_refused_although_the_status_says_later(api: ModelApi) -> None:
    error = await fail(api, ModelServerError(status=429, code="insufficient_quota", retry_after="1"))
    assert isinstance(error, ModelCallRefusedError)
    assert error.retry_after_seconds is None


WHOLE = ModelServerReply(text="I look.", reasoning="hm", tool_calls=(ScriptedToolCall("look", {"q": "x"}),))


def count_needed_events(api: ModelApi) -> int:
    """Return how many events of `WHOLE` an answer needs; Chat Completions has two more after them."""
    body = {"stream_options": {"include_usage": True}}
    return len(build_stream(api, WHOLE, body, number=1)) - 2 * (api == "chat_completions")


@each_api
@pytest.mark.case("BR-024")
@pytest.mark.requirement("whole-answers")
@pytest.mark.parametrize("fault", ["hang_up", "cut", "ended", "malformed", "error"])
async def test_half_an_answer_is_no_answer_wherever_it_breaks_off(api: ModelApi, fault: StreamFault) -> None:
    places = range(1 if fault == "hang_up" else count_needed_events(api))
    broken = replace(WHOLE, fault=fault, error=ModelServerError(status=529))
    async with talking(api, *(replace(broken, fault_after=place) for place in places)) as (client, server):
        for place in places:
            with pytest.raises(ModelCallError) as caught:
                await client.generate(asking(), RecordedEvents())
            assert not isinstance(caught.value, ModelCallRefusedError), place
            assert caught.value.provider == api
        assert len(server.requests) == len(places)


@each_api
async def test_an_answer_with_all_its_events_is_whole(api: ModelApi) -> None:
    """The counterpart of the test before: one event more, and the body may end."""
    reply = replace(WHOLE, fault="ended", fault_after=count_needed_events(api))
    async with talking(api, reply) as (client, _):
        response = await client.generate(asking(), RecordedEvents())
    assert response.text == "I look."
    assert len(response.tool_calls) == 1


@each_api
@pytest.mark.parametrize(
    ("code", "is_final"),
    [("context_length_exceeded", True), ("invalid_request_error", True), ("overloaded_error", False)],
)
async def test_an_error_inside_a_stream_says_what_it_is(api: ModelApi, code: str, is_final: bool) -> None:
    error = await fail(
        api,
        ModelServerReply(
            text="one two",
            fault="error",
            fault_after=3,
            error=ModelServerError(code=code, message="so\nit is"),
        ),
    )
    assert isinstance(error, ModelCallRefusedError) == is_final
    assert str(error) == f"{api}: so it is"


@each_api
@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "application/json", ""])
async def test_another_content_type_is_named(api: ModelApi, content_type: str) -> None:
    error = await fail(api, ModelServerReply(text="x", content_type=content_type))
    shown = content_type.partition(";")[0] or "no content type"
    assert str(error) == f"{api}: answered with {shown} in place of text/event-stream"


@each_api
async def test_slow_tokens_are_waited_for(api: ModelApi) -> None:
    events = RecordedEvents()
    more = asyncio.Semaphore(0)

    async def before_event() -> None:
        await more.acquire()

    async with talking(api, ModelServerReply(text="one two", before_event=before_event)) as (client, _):
        answering = asyncio.create_task(client.generate(asking(), events))
        while not any(events.text):
            more.release()
            await asyncio.sleep(0)
        assert not answering.done()
        for _ in range(50):
            more.release()
        assert (await answering).text == "one two"


@each_api
async def test_a_provider_that_falls_silent_fails_the_attempt(api: ModelApi) -> None:
    silent = asyncio.Event()

    async def before_event() -> None:
        await silent.wait()

    reply = ModelServerReply(text="never", before_event=before_event)
    async with talking(api, reply, timeout=timedelta(milliseconds=50)) as (client, _):
        with pytest.raises(ModelCallError) as caught:
            await client.generate(asking(), RecordedEvents())
    assert not isinstance(caught.value, ModelCallRefusedError)


@each_api
@pytest.mark.requirement("cancelled-call")
async def test_a_cancelled_call_closes_its_connection(api: ModelApi) -> None:
    never = asyncio.Event()
    reached = asyncio.Event()
    events_left = 6

    async def before_event() -> None:
        nonlocal events_left
        events_left -= 1
        if not events_left:
            reached.set()
            await never.wait()

    events = RecordedEvents()
    reply = ModelServerReply(text="one two three four five", before_event=before_event)
    async with talking(api, reply) as (client, server):
        answering = asyncio.create_task(client.generate(asking(), events))
        async with asyncio.timeout(30):
            await reached.wait()
            answering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await answering
            await server.requests[0].hung_up.wait()


@each_api
async def test_a_server_that_is_not_there_fails_the_attempt(api: ModelApi) -> None:
    (port,) = find_free_loopback_ports(1)
    url = f"http://127.0.0.1:{port}"
    client = (
        AnthropicModelClient("m", base_url=url)
        if api == "messages"
        else OpenAIModelClient("m", api=api, base_url=url)
    )
    async with client:
        with pytest.raises(ModelCallError) as caught:
            await client.generate(asking(), RecordedEvents())
    assert not isinstance(caught.value, ModelCallRefusedError)
    assert caught.value.status is None


@each_api
async def test_without_a_key_the_call_is_refused_and_says_what_to_set(
    api: ModelApi, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    client = AnthropicModelClient("m") if api == "messages" else OpenAIModelClient("m", api=api)
    async with client:
        with pytest.raises(ModelCallRefusedError, match=r"there is no API key: set [A-Z]+_API_KEY"):
            await client.generate(asking(), RecordedEvents())


@each_api
async def test_the_providers_key_is_not_sent_to_another_server(
    api: ModelApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-you")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-for-you")
    async with talking(api, ModelServerReply(text="hi")) as (client, server):
        await client.generate(asking(), RecordedEvents())
        assert "not-for-you" not in str(server.requests[0].headers)


@each_api
async def test_a_key_that_an_error_repeats_is_not_told(api: ModelApi) -> None:
    error = await fail(api, ModelServerError(status=401, message="Incorrect key sk-abc123secret given"))
    assert str(error) == f"{api}: answered 401: Incorrect key [key] given"


@each_api
async def test_calls_of_several_sessions_share_a_client(api: ModelApi) -> None:
    server = ModelServer(lambda request: ModelServerReply(text=f"answer {request.number}"))
    async with server, build_client(api, server) as client:
        responses = await asyncio.gather(*(client.generate(asking(), RecordedEvents()) for _ in range(8)))
    assert sorted(response.text for response in responses) == [f"answer {number}" for number in range(1, 9)]
