"""Random sessions: the real runner and the real clients, over providers that answer whatever comes to mind.

A provider's answer goes from its stream events through the client's own reading of them; only the HTTP
between the two is left out. Sessions crash, are cancelled and steered, change their model, lose what they
have stored to damage, and have their beginning summarised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from dex_agents import AgentImageReference, InMemoryMediaStore, MediaStoreError, texts
from dex_agents.builtin_loop import (
    AgentDefinition,
    BuiltinLoopAgentRunner,
    ModelClient,
    ModelRequest,
    ModelResponse,
    function_tool,
)
from dex_agents.builtin_loop.model_clients import AnthropicModelClient, OpenAIModelClient
from dex_agents.builtin_loop.model_clients.anthropic_messages import MessagesFold
from dex_agents.builtin_loop.model_clients.openai_chat import ChatCompletionsFold
from dex_agents.builtin_loop.model_clients.openai_responses import ResponsesFold
from dex_agents.builtin_loop.runner import EmptyModelAnswerError
from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.runner.outcomes import ToolCallsRequested
from dex_agents.runner.turn_context import AgentTurnContext
from dex_agents.testing import ModelApi, ModelServerReply, ScriptedToolCall
from dex_agents.testing.model_streams import build_stream
from dex_agents.tools.builtin import BUILT_IN_TOOLS
from dex_agents.wire.context import ContextSummary
from dex_agents.wire.tool_calls import ToolCallStatus, ToolEffect
from tests.property.chance import Chance
from tests.sample_images import jpeg_image, png_image
from tests.unit.builtin_loop.turns import Conversation

__all__ = ["RandomSession", "Sent"]

Sent = Callable[[ModelApi, dict[str, Any]], None]
"""Is told of each request before it is answered."""

_BLANKS: Final = ("", " ", "\n\t", "\u00a0")
_MODEL_CALL_IDS: Final = ("call_1", "call_1", "call_2", "toolu_01A", "", "é/?", "x" * 300, "\ud800")
_TOOL_NAMES: Final = ("look", "look", "put", "unknown", "bad name", "n" * 90, "")
_ARGUMENTS: Final = (
    "",
    "{",
    '{"q": "unterminat',
    "[]",
    "null",
    '{"q":1,"q":2}',
    '{"q": NaN}',
    '{"q": 1e999}',
    '{"q": "\\ud800"}',
    '{"text": ""}',
    '{"q": "\ud800"}',
    "{}",
)
_DAMAGES: Final[tuple[Any, ...]] = (None, "", 7, [], [{}], {"type": "text", "text": " "}, "x")
_STATUSES: Final[tuple[ToolCallStatus, ...]] = (
    "succeeded",
    "succeeded",
    "failed",
    "rejected",
    "not_run",
    "outcome_unknown",
)


_STORE: Final = InMemoryMediaStore()


class _WireModel:
    """A model client whose HTTP is a function call."""

    def __init__(
        self, client: OpenAIModelClient | AnthropicModelClient, api: ModelApi, chance: Chance, sent: Sent
    ) -> None:
        self._client = client
        self._api: Final[ModelApi] = api
        self._chance = chance
        self._sent = sent
        self._calls = 0

    @property
    def provider(self) -> str:
        return self._client.provider

    @property
    def api(self) -> str:
        return self._client.api

    async def generate(self, request: ModelRequest, events: AgentEventWriter) -> ModelResponse:
        body = json.loads(json.dumps(self._client.build_request(request), ensure_ascii=False))
        self._sent(self._api, body)
        self._calls += 1
        match self._api:
            case "responses":
                fold = ResponsesFold(self.provider, self._client.model)
            case "chat_completions":
                fold = ChatCompletionsFold(self.provider, self._client.model)
            case "messages":
                fold = MessagesFold(self.provider, self._client.model)
        for _, data in build_stream(self._api, _reply(self._chance), body, number=self._calls):
            if data != "[DONE]":
                fold.feed(json.loads(json.dumps(data)), events)
        return fold.finish()


def _build_models(chance: Chance, sent: Sent) -> dict[str, ModelClient]:
    enabled = {"type": "enabled", "budget_tokens": 1024}
    clients: dict[str, tuple[ModelApi, OpenAIModelClient | AnthropicModelClient]] = {
        "reasoning": ("responses", OpenAIModelClient("gpt-5")),
        "plain": ("responses", OpenAIModelClient("gpt-4.1")),
        "other server": ("responses", OpenAIModelClient("x", provider="other", max_output_tokens=99)),
        "compatible": ("chat_completions", OpenAIModelClient("x", api="chat_completions", provider="local")),
        "thinking": ("messages", AnthropicModelClient("claude", thinking=enabled)),
        "adaptive": ("messages", AnthropicModelClient("claude", thinking={"type": "adaptive"})),
        "quick": ("messages", AnthropicModelClient("claude", prompt_caching=False)),
    }
    return {name: _WireModel(client, api, chance, sent) for name, (api, client) in clients.items()}


def _text(chance: Chance) -> str:
    return chance.choice((chance.choice(_BLANKS), "a plain text", chance.text(3), chance.text(3)))


def _reply(chance: Chance) -> ModelServerReply:
    calls = tuple(_call(chance) for _ in range(chance.choice((0, 0, 1, 1, 2, 4))))
    reply = ModelServerReply(
        text=_text(chance),
        reasoning=chance.choice(("", "I think.", _text(chance))),
        signature="signed/+=",
        redacted=chance.choice(("", "", "opaque")),
        tool_calls=calls,
        is_cut_off=chance.random() < 0.1,
    )
    return replace(reply, text="", refusal="I will not.") if chance.random() < 0.05 else reply


def _call(chance: Chance) -> ScriptedToolCall:
    good = json.dumps({"q": chance.text(2)}, ensure_ascii=bool(chance.randrange(2)))
    arguments = chance.choice((good, good, good, chance.choice(_ARGUMENTS), chance.text(2)))
    return ScriptedToolCall(
        chance.choice(_TOOL_NAMES), arguments, chance.choice((None, chance.choice(_MODEL_CALL_IDS)))
    )


@function_tool(effect=ToolEffect.READ)
async def look(q: Any = None) -> str:
    """Look something up."""
    return str(q)


class RandomSession:
    """One session, from its first turn to its last."""

    def __init__(self, chance: Chance, sent: Sent) -> None:
        self._chance = chance
        models = _build_models(chance, sent)

        def choose(settings: Mapping[str, Any]) -> ModelClient:
            return models[settings["model"]]

        definition = AgentDefinition(
            name="any",
            instructions=chance.choice(("", "Help.", "Help \ud800")),
            model=models["reasoning"],
            resolve_model=choose,
            tools=(look,),
            built_in_tools=("write_todos",),
            plan_mode_enabled=True,
            planning_tool_choice="required",
            max_model_calls_per_turn=3,
            media_store=_STORE,
        )
        self._images: list[AgentImageReference] = []
        self._names = sorted(models)
        self._summary: ContextSummary | None = None
        self._conversation = Conversation(
            BuiltinLoopAgentRunner(definition), built_in_tools=(BUILT_IN_TOOLS["write_todos"],)
        )

    async def run(self) -> None:
        """Run some turns."""
        elsewhere = InMemoryMediaStore()
        self._images = [
            await _STORE.put_image(png_image()),
            await _STORE.put_image(jpeg_image()),
            # One that is gone, and one that is of another store.
            await elsewhere.put_image(png_image(b"gone")),
            AgentImageReference("file:///x/sha256/" + "0" * 64, "image/png", "0" * 64, 9),
        ]
        for _ in range(self._chance.randrange(1, 5)):
            await self._run_turn()

    async def _run_turn(self) -> None:
        chance, conversation = self._chance, self._conversation
        conversation.interaction_mode = "plan" if chance.random() < 0.15 else "default"
        conversation.begin_turn(_text(chance), self._choose_images())
        while True:
            conversation.session_settings = {"model": chance.choice(self._names)}
            if chance.random() < 0.1:
                self._damage()
            if chance.random() < 0.1:
                self._summarize()
            outcome = await self._call_model()
            if outcome is None or not isinstance(outcome, ToolCallsRequested):
                break
            for call in outcome.tool_calls:
                if call.refusal is None and call.not_run_reason is None:
                    self._finish(call.tool_call_id)
            if chance.random() < 0.15:
                self._cancel()
                return
            if chance.random() < 0.2:
                conversation.store([conversation.runner.build_user_message(_text(chance))])
        if outcome is None:
            self._cancel()

    async def _call_model(self) -> Any:
        """Call the model until an attempt is committed; `None` when every attempt failed."""
        conversation = self._conversation
        for attempt in (1, 2, 3):
            turn: AgentTurnContext = conversation.build_turn(attempt)
            turn = replace(turn, context_summary=self._summary)
            try:
                outcome = await conversation.runner.run_model_step(turn)
            except (EmptyModelAnswerError, MediaStoreError):
                continue
            if attempt < 3 and self._chance.random() < 0.15:
                continue  # The Worker died before the commit.
            conversation.commit(outcome)
            return outcome
        return None

    def _finish(self, tool_call_id: str) -> None:
        chance = self._chance
        if chance.random() < 0.1:
            return  # Its Worker died; a record without an end is told as an unknown outcome.
        status = chance.choice(_STATUSES)
        self._conversation.finish_call(
            tool_call_id,
            _text(chance),
            status=status,
            error=chance.choice((None, _text(chance))),
            images=self._choose_images() if status == "succeeded" else (),
        )

    def _choose_images(self) -> tuple[AgentImageReference, ...]:
        chance = self._chance
        if chance.random() < 0.8:
            return ()
        return tuple(chance.choice(self._images) for _ in range(chance.randrange(1, 4)))

    def _cancel(self) -> None:
        conversation = self._conversation
        records = [call for call in conversation.calls if call.turn_id == conversation.turn_id]
        open_calls = [
            msgspec.structs.replace(call, status="not_run") if call.status == "running" else call
            for call in records
        ]
        conversation.store(
            conversation.runner.build_unfinished_turn_messages(
                conversation.turn_messages, open_calls, texts.TURN_CANCELLED_NOTE
            )
        )

    def _damage(self) -> None:
        """Cut, lose or change what is stored of one message."""
        messages, chance = self._conversation.messages, self._chance
        index = chance.randrange(len(messages))
        item = messages[index].framework_item
        match chance.randrange(3):
            case 0:
                item = item[: chance.randrange(len(item))]
            case 1:
                item = json.dumps({"type": "tool_result", "tool_call_id": "gone", "output": chance.text(2)})
            case _:
                decoded: dict[str, Any] = (
                    json.loads(item) if item.startswith("{") and item.endswith("}") else {}
                )
                value = chance.choice(_DAMAGES)
                item = json.dumps(decoded | {chance.choice((*decoded, "item")): value})
        messages[index] = msgspec.structs.replace(messages[index], framework_item=item)

    def _summarize(self) -> None:
        conversation, chance = self._conversation, self._chance
        turn = replace(conversation.build_turn(), context_summary=self._summary)
        cut = conversation.runner.choose_compaction_cut(turn, chance.randrange(200))
        if cut is None:
            return
        self._summary = ContextSummary(
            text=chance.choice(("They talked.", "odd \ud800")),
            covered_through=cut,
            revision=1 if self._summary is None else self._summary.revision + 1,
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        conversation.messages = [one for one in conversation.messages if one.sequence > cut]
