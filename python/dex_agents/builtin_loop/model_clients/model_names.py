"""Models by one text, for a command line or a setting of a session."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import urlsplit

from dex_agents.builtin_loop.contract import ModelClient
from dex_agents.builtin_loop.model_clients.anthropic_client import AnthropicModelClient
from dex_agents.builtin_loop.model_clients.openai_client import OpenAIModelClient
from dex_agents.errors import InvalidInputError

__all__ = ["model_from_name"]

_FORMS: Final = "openai/NAME, anthropic/NAME, openai-compatible/NAME@URL"


def model_from_name(name: str, *, api_key: str | None = None) -> ModelClient:
    """Return the client of a model.

    Args:
        name: `openai/NAME` (Responses API), `anthropic/NAME`, or `openai-compatible/NAME@URL` (Chat
            Completions; the URL with its `/v1`). `NAME` is the provider's own and may have slashes.
        api_key: By default the provider's own environment variable: `OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, or
            `OPENAI_COMPATIBLE_API_KEY`, without which a compatible server gets no key.

    Raises:
        InvalidInputError: `name` has none of these forms.
        ImportError: The provider's extra is not installed.
    """
    provider, _, model = name.partition("/")
    match provider:
        case "openai" if model.strip():
            return OpenAIModelClient(model, api_key=api_key)
        case "anthropic" if model.strip():
            return AnthropicModelClient(model, api_key=api_key)
        case "openai-compatible":
            # The first `@` before a URL: a name has no `://`, and a URL may have an `@` of its own.
            model, _, url = name.partition("/")[2].partition("://")
            model, _, scheme = model.rpartition("@")
            base_url = f"{scheme}://{url}"
            if model.strip() and scheme in ("http", "https") and urlsplit(base_url).hostname:
                return OpenAIModelClient(
                    model,
                    api="chat_completions",
                    base_url=base_url,
                    api_key=api_key or os.environ.get("OPENAI_COMPATIBLE_API_KEY") or None,
                )
        case _:
            pass
    raise InvalidInputError("name", f"{name!r} has none of the forms {_FORMS}")
