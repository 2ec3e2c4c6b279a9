"""Stored messages → the items of a model request that every provider accepts.

Two rules hold whatever is stored: each call has exactly one result, and the results follow their response at
once, all of them, in the order in which the calls were asked. What is missing reads as an unknown outcome;
what answers nothing is left out.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from dex_agents import texts
from dex_agents.builtin_loop.contract import (
    ModelInputItem,
    ModelOutputItem,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
)
from dex_agents.builtin_loop.stored_items import (
    StoredModelOutput,
    StoredToolCall,
    StoredToolResult,
    StoredUserText,
    decode_stored_item,
    encode_stored_item,
)
from dex_agents.builtin_loop.tool_arguments import replayable_arguments
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.tools.results import describe_tool_result
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.messages import AgentMessage, FrameworkMessage
from dex_agents.wire.tool_calls import AgentToolCall

__all__ = [
    "build_input_items",
    "build_model_output_message",
    "build_tool_result_message",
    "build_user_text_message",
    "find_latest_output",
    "find_open_calls",
]

_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_A_TOOL_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_UNNAMED_TOOL: Final = "unnamed_tool"

# Two providers refuse a text part that is blank, and older answers were stored with such a part.
_BLANK_TEXT_PART: Final = re.compile(rb'"text"\s*:\s*"(?:\s|\\[nrtf])*"')


def build_input_items(
    messages: Sequence[AgentMessage | FrameworkMessage],
    *,
    provider: str,
    api: str,
    recorded_calls: Sequence[AgentToolCall] = (),
    summary: str | None = None,
) -> tuple[ModelInputItem, ...]:
    """Return the items of a request; total, whatever the messages hold.

    Args:
        messages: In sequence order.
        provider: The provider that is called; native output of any other is left out.
        api: Its API.
        recorded_calls: Records that give a result to calls which have none among the messages.
        summary: What stands for the conversation before the messages, or `None`.
    """
    recorded = {call.tool_call_id: call for call in recorded_calls}
    items: list[ModelInputItem] = []
    open_slots: dict[str, deque[int]] = {}
    for message in messages:
        match decode_stored_item(message):
            case StoredUserText(text=text, images=images):
                items.append(ModelUserTextItem(text if text.strip() else texts.UNREADABLE_MESSAGE, images))
            case StoredModelOutput() as output:
                # A model that repeats an ID means its latest call: the earlier one takes no more results.
                open_slots.update(_add_output(items, output, recorded, target=(provider, api)))
            case StoredToolResult() as result:
                slots = open_slots.get(result.tool_call_id)
                if slots:
                    _fill_slot(items, slots.popleft(), result)
            case None:
                pass
    if summary is not None:
        items.insert(0, ModelUserTextItem(texts.context_summary_note(replace_lone_surrogates(summary))))
    elif items and not isinstance(items[0], ModelUserTextItem):
        items.insert(0, ModelUserTextItem(texts.EARLIER_CONVERSATION_NOT_SHOWN))
    return tuple(items)


def build_user_text_message(
    text: str, *, is_note: bool = False, images: tuple[AgentImageReference, ...] = ()
) -> FrameworkMessage:
    """Return a user's text with its images, or the session's own note, as a message to store."""
    healed = replace_lone_surrogates(text)
    return FrameworkMessage(
        role="note" if is_note else "user",
        framework_item=encode_stored_item(StoredUserText(healed, images)),
        text=healed,
        images=images,
    )


def build_model_output_message(output: StoredModelOutput) -> FrameworkMessage:
    """Return a model's answer as a message to store; its native output only when that can be replayed."""
    if not _is_replayable(output, tuple(map(_replayable_call, output.tool_calls))):
        output = msgspec.structs.replace(output, item=msgspec.Raw(b"null"))
    return FrameworkMessage(
        role="assistant", framework_item=encode_stored_item(output), text=output.text or None
    )


def build_tool_result_message(
    call: StoredToolCall, output: str, images: tuple[AgentImageReference, ...] = ()
) -> FrameworkMessage:
    """Return the result of a call as a message to store."""
    healed = replace_lone_surrogates(output)
    item = StoredToolResult(call.tool_call_id, call.tool_name, healed, images)
    return FrameworkMessage(
        role="tool",
        framework_item=encode_stored_item(item),
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        tool_arguments=call.arguments,
        tool_output=healed,
        images=images,
    )


def find_latest_output(messages: Sequence[AgentMessage | FrameworkMessage]) -> StoredModelOutput:
    """Return the latest answer of a model; an empty one when there is none."""
    for message in reversed(messages):
        item = decode_stored_item(message)
        if isinstance(item, StoredModelOutput):
            return item
    return StoredModelOutput()


def find_open_calls(messages: Sequence[AgentMessage | FrameworkMessage]) -> tuple[StoredToolCall, ...]:
    """Return the calls of the latest answer that no later message answers, in the asked order."""
    answered: set[str] = set()
    for message in reversed(messages):
        match decode_stored_item(message):
            case StoredToolResult(tool_call_id=tool_call_id):
                answered.add(tool_call_id)
            case StoredModelOutput(tool_calls=calls):
                return tuple(call for call in calls if call.tool_call_id not in answered)
            case _:
                pass
    return ()


def _add_output(
    items: list[ModelInputItem],
    output: StoredModelOutput,
    recorded: Mapping[str, AgentToolCall],
    *,
    target: tuple[str, str],
) -> dict[str, deque[int]]:
    text = output.text if output.text is not None and output.text.strip() else ""
    if not text and not output.tool_calls:
        return {}
    calls = tuple(map(_replayable_call, output.tool_calls))
    is_native = (output.provider, output.api) == target and _is_replayable(output, calls)
    items.append(ModelOutputItem(text, calls, bytes(output.item).decode() if is_native else None))
    slots: dict[str, deque[int]] = {}
    for stored, call in zip(output.tool_calls, calls, strict=True):
        slots.setdefault(stored.tool_call_id, deque()).append(len(items))
        record = recorded.get(stored.tool_call_id)
        items.append(
            ModelToolResultItem(
                model_call_id=call.model_call_id,
                tool_name=call.tool_name,
                output=_sendable_output(
                    texts.OUTCOME_UNKNOWN_TOOL_RESULT if record is None else describe_tool_result(record)
                ),
                images=() if record is None else record.images,
            )
        )
    return slots


def _fill_slot(items: list[ModelInputItem], slot: int, result: StoredToolResult) -> None:
    reserved = items[slot]
    if isinstance(reserved, ModelToolResultItem):
        items[slot] = ModelToolResultItem(
            reserved.model_call_id, reserved.tool_name, _sendable_output(result.output), result.images
        )


def _sendable_output(output: str) -> str:
    return replace_lone_surrogates(output) if output.strip() else texts.EMPTY_TOOL_OUTPUT


def _replayable_call(call: StoredToolCall) -> ModelToolCall:
    name = call.tool_name
    if _TOOL_NAME.fullmatch(name) is None:
        name = _NOT_IN_A_TOOL_NAME.sub("_", name)[:64] or _UNNAMED_TOOL
    return ModelToolCall(
        model_call_id=call.model_call_id or call.tool_call_id,
        tool_name=name,
        arguments=replayable_arguments(call.arguments),
    )


def _is_replayable(output: StoredModelOutput, calls: Sequence[ModelToolCall]) -> bool:
    """Whether the provider would take its own output back as it is: none of its calls had to be healed."""
    if bytes(output.item) == b"null" or _BLANK_TEXT_PART.search(output.item) is not None:
        return False
    return all(
        (stored.tool_name, stored.arguments) == (call.tool_name, call.arguments)
        for stored, call in zip(output.tool_calls, calls, strict=True)
    )
