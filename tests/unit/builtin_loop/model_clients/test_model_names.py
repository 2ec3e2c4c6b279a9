from __future__ import annotations

import builtins
import importlib.util
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dex_agents.builtin_loop.model_clients import AnthropicModelClient, OpenAIModelClient, model_from_name
from dex_agents.errors import InvalidInputError
from dex_agents.testing import ModelServer, ModelServerReply
from tests.unit.builtin_loop.model_clients.clients import asking
from tests.unit.builtin_loop.turns import RecordedEvents


@pytest.mark.parametrize(
    ("name", "kind", "model", "provider", "api"),
    [
        ("openai/gpt-5", OpenAIModelClient, "gpt-5", "openai", "responses"),
        ("openai/ft:gpt-4o:acme::id", OpenAIModelClient, "ft:gpt-4o:acme::id", "openai", "responses"),
        ("anthropic/claude-x", AnthropicModelClient, "claude-x", "anthropic", "messages"),
        (
            "openai-compatible/meta/llama-3@http://localhost:8000/v1",
            OpenAIModelClient,
            "meta/llama-3",
            "openai-compatible",
            "chat_completions",
        ),
        (
            "openai-compatible/a@b@https://user:pw@host/v1",
            OpenAIModelClient,
            "a@b",
            "openai-compatible",
            "chat_completions",
        ),
    ],
)
def test_a_name_says_who_is_called_and_how(
    name: str, kind: type[object], model: str, provider: str, api: str
) -> None:
    client: Any = model_from_name(name)
    assert (type(client), client.model, client.provider, client.api) == (kind, model, provider, api)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gpt-5",
        "openai/",
        "openai/ ",
        "anthropic",
        "mistral/large",
        "openai-compatible/x",
        "openai-compatible/x@localhost:8000",
        "openai-compatible/@http://localhost",
        "openai-compatible/x@http://",
        "openai-compatible/x@ftp://host",
    ],
)
def test_another_name_is_refused_with_the_forms_there_are(name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^name: .* openai-compatible/NAME@URL$"):
        model_from_name(name)


async def test_a_compatible_server_is_called_with_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai")
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", "of-the-server")
    async with ModelServer([ModelServerReply(text="hi")] * 2) as server:
        name = f"openai-compatible/tiny@{server.openai_base_url}"
        for api_key in (None, "given"):
            client: Any = model_from_name(name, api_key=api_key)
            async with client:
                await client.generate(asking(), RecordedEvents())
        sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer of-the-server", "Bearer given"]


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_a_missing_extra_is_named_before_any_session_runs(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str, parent: str | None = None) -> Any:
        return None if name == package else real(name, parent)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(ImportError) as caught:
        model_from_name(f"{package}/any")
    assert f'pip install "dex-agents-native[{package}]"' in str(caught.value)


def test_making_a_client_imports_no_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def watch(name: str, *rest: Any, **more: Any) -> Any:
        assert name.partition(".")[0] not in ("openai", "anthropic", "httpx2")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", watch)
    model_from_name("openai/gpt-5")
    model_from_name("anthropic/claude-x")


@pytest.mark.parametrize("make", [OpenAIModelClient, AnthropicModelClient])
@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"model": " "}, "model"),
        ({"model": None}, "model"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"timeout": timedelta()}, "timeout"),
        ({"request_fields": {"stream": False}}, "request_fields"),
        ({"request_fields": {"messages": []}}, "request_fields"),
    ],
)
def test_a_setting_that_breaks_a_rule_is_named(
    make: Callable[..., object], settings: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInputError, match=rf"^{field}: "):
        make(**({"model": "m"} | settings))


def test_an_unknown_api_is_refused() -> None:
    api: Any = "assistants"
    with pytest.raises(
        InvalidInputError, match=r"^api: 'assistants' is none of responses, chat_completions$"
    ):
        OpenAIModelClient("m", api=api)
