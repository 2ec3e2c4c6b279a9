"""A model without a key: answers each call from a function of the request."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from dex_agents.builtin_loop.contract import (
    ModelOutputItem,
    ModelRequest,
    ModelResponse,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
)
from dex_agents.codecs.json_text import encode_json_text
from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.wire.usage import AgentUsage, empty_agent_usage

__all__ = ["ScriptedModelClient", "ScriptedModelReply", "ScriptedToolCall"]

_WORDS: Final = re.compile(r"\s*\S+\s*|\s+")


@dataclass(frozen=True)
class ScriptedToolCall:
    """A call that a script asks for.

    Attributes:
        tool_name: The tool.
        arguments: A value to write as JSON, or the very text, to show what broken text leads to.
        model_call_id: The call's ID; by default `call_<n>`, counted through the conversation.
    """

    tool_name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    model_call_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ScriptedModelReply:
    """What a script answers to one request.

    Attributes:
        text: The answer's text, streamed word by word.
        reasoning: Reasoning to stream before it.
        tool_calls: The calls it asks for.
        item: JSON text of native output, as another provider's client would keep it.
        usage: What the call counts as.
        finish_reason: The reason it gives for stopping.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ScriptedToolCall, ...] = ()
    item: str | None = None
    usage: AgentUsage = field(default_factory=empty_agent_usage)
    finish_reason: str | None = None


class ScriptedModelClient:
    """A `ModelClient` for demos, tutorials and tests.

    Keep the script deterministic and let it look at the request alone: a crashed `RunModel` asks it again.
    """

    def __init__(
        self,
        script: Callable[[ModelRequest], ScriptedModelReply | Awaitable[ScriptedModelReply]],
        *,
        provider: str = "scripted",
        api: str = "scripted",
        before_delta: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Make a client of a script.

        Args:
            script: Answers a request, sync or async; what it raises fails the attempt.
            provider: Stored with every answer.
            api: Stored with every answer.
            before_delta: Awaited with each piece of text before it is streamed: a pause for a demo, a gate
                for a test.
        """
        self._script = script
        self._provider = provider
        self._api = api
        self._before_delta = before_delta

    @property
    def provider(self) -> str:
        """See `ModelClient.provider`."""
        return self._provider

    @property
    def api(self) -> str:
        """See `ModelClient.api`."""
        return self._api

    async def generate(self, request: ModelRequest, events: AgentEventWriter) -> ModelResponse:
        """Ask the script, stream its reasoning and its text, and return the answer.

        Args:
            request: Given to the script.
            events: Speaks to live viewers.

        Raises:
            TypeError: The script returned something else than a `ScriptedModelReply`.

        Durability:
            See `ModelClient.generate`.
        """
        answer = self._script(request)
        reply: Any = await answer if inspect.isawaitable(answer) else answer
        if not isinstance(reply, ScriptedModelReply):
            raise TypeError(f"the script returned a {type(reply).__name__}, not a ScriptedModelReply")
        await self._stream(reply.reasoning, events.write_reasoning_delta)
        await self._stream(reply.text, events.write_text_delta)
        calls_before = sum(
            len(item.tool_calls) for item in request.items if isinstance(item, ModelOutputItem)
        )
        return ModelResponse(
            text=reply.text,
            tool_calls=tuple(
                _build_call(call, number) for number, call in enumerate(reply.tool_calls, calls_before + 1)
            ),
            item=reply.item,
            reasoning=reply.reasoning,
            usage=reply.usage,
            finish_reason=reply.finish_reason,
            request_model=self._api,
            response_model=self._api,
        )

    @staticmethod
    def user_texts(request: ModelRequest) -> tuple[str, ...]:
        """Return every user text of the conversation, oldest first."""
        return tuple(item.text for item in request.items if isinstance(item, ModelUserTextItem))

    @staticmethod
    def tool_results(request: ModelRequest) -> tuple[ModelToolResultItem, ...]:
        """Return the tool results since the latest user text, in the asked order.

        Empty in the first call of a turn, so a script can tell by it whether to ask for tools or to answer.
        """
        results: list[ModelToolResultItem] = []
        for item in request.items:
            if isinstance(item, ModelUserTextItem):
                results.clear()
            elif isinstance(item, ModelToolResultItem):
                results.append(item)
        return tuple(results)

    async def _stream(self, text: str, write: Callable[[str], None]) -> None:
        for delta in cast("list[str]", _WORDS.findall(text)):
            if self._before_delta is not None:
                await self._before_delta(delta)
            write(delta)


def _build_call(call: ScriptedToolCall, number: int) -> ModelToolCall:
    return ModelToolCall(
        model_call_id=f"call_{number}" if call.model_call_id is None else call.model_call_id,
        tool_name=call.tool_name,
        arguments=call.arguments if isinstance(call.arguments, str) else encode_json_text(call.arguments),
    )
