"""The JSON that the loop stores as `framework_item`, written once and read for ever.

Reading never fails: an item that a bug or an older version damaged is healed as far as it can be, then
stands as the display text that is stored beside it, then as a note that something was there.
"""

import json
from typing import Any, Final

import msgspec

from dex_agents import texts
from dex_agents.builtin_loop.json_values import heal_json_value, is_json_object
from dex_agents.codecs.unicode_text import replace_lone_surrogates
from dex_agents.errors import RunnerContractError
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.messages import AgentMessage, FrameworkMessage

__all__ = [
    "StoredItem",
    "StoredModelOutput",
    "StoredToolCall",
    "StoredToolResult",
    "StoredUserText",
    "build_native_item",
    "decode_stored_item",
    "encode_stored_item",
]


class StoredToolCall(msgspec.Struct, frozen=True):
    """A call within a stored answer.

    Attributes:
        tool_call_id: Ours; pairs the call with its result.
        model_call_id: The model's, for requests.
        tool_name: The tool as the model named it.
        arguments: What the model wrote, broken or not.
    """

    tool_call_id: str
    model_call_id: str
    tool_name: str
    arguments: str


class StoredUserText(msgspec.Struct, frozen=True, omit_defaults=True, tag="user_text", tag_field="type"):
    """Text of the user's side.

    Attributes:
        text: The text.
        images: What is shown with it.
    """

    text: str
    images: tuple[AgentImageReference, ...] = ()


class StoredModelOutput(msgspec.Struct, frozen=True, tag="model_output", tag_field="type"):
    """An answer of a model.

    Attributes:
        provider: Which provider wrote `item`.
        api: Through which of its APIs.
        item: The provider's own output, or `null`.
        text: The answer's text.
        tool_calls: The calls in the model's order.
    """

    provider: str = ""
    api: str = ""
    item: msgspec.Raw = msgspec.Raw(b"null")
    text: str | None = ""
    tool_calls: tuple[StoredToolCall, ...] = ()


class StoredToolResult(msgspec.Struct, frozen=True, omit_defaults=True, tag="tool_result", tag_field="type"):
    """The result of a call.

    Attributes:
        tool_call_id: The call.
        tool_name: The tool.
        output: What the model reads.
        images: What is shown with it.
    """

    tool_call_id: str
    tool_name: str
    output: str
    images: tuple[AgentImageReference, ...] = ()


StoredItem = StoredUserText | StoredModelOutput | StoredToolResult

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(StoredItem)


def encode_stored_item(item: StoredItem) -> str:
    """Return the `framework_item` text: compact JSON, fields in the order they are declared."""
    return _ENCODER.encode(item).decode()


def build_native_item(item: str | None) -> msgspec.Raw:
    """Return a provider's own output in the form that is stored, byte for byte.

    Lone surrogates, which no later request could carry, are the only thing that is changed.

    Raises:
        RunnerContractError: The model client gave something else than JSON text.
    """
    if item is None:
        return msgspec.Raw(b"null")
    try:
        msgspec.json.decode(item)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        healed = _heal_json_text(item)
        if healed is None:
            raise RunnerContractError("ModelResponse.item: the text is not JSON") from None
        return msgspec.Raw(healed)
    return msgspec.Raw(item.encode())


def decode_stored_item(message: AgentMessage | FrameworkMessage) -> StoredItem | None:
    """Read a stored message.

    Returns:
        The item, healed where it had to be, or `None` for a tool result that names no call.
    """
    try:
        return _DECODER.decode(message.framework_item)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        healed = _heal_json_text(message.framework_item)
    # Images that cannot be read must not take the text along.
    for candidate in (healed, healed and _without_images(healed)):
        if candidate is not None:
            try:
                return _DECODER.decode(candidate)
            except (msgspec.MsgspecError, RecursionError):
                pass
    return _item_from_display_fields(message)


def _heal_json_text(text: str) -> bytes | None:
    try:
        value: Any = json.loads(text)
        return _ENCODER.encode(heal_json_value(value))
    except (ValueError, OverflowError, RecursionError):
        return None


def _without_images(text: bytes) -> bytes | None:
    value: Any = json.loads(text)
    if not is_json_object(value) or "images" not in value:
        return None
    return _ENCODER.encode({key: part for key, part in value.items() if key != "images"})


def _item_from_display_fields(message: AgentMessage | FrameworkMessage) -> StoredItem | None:
    text = replace_lone_surrogates(message.text or texts.UNREADABLE_MESSAGE)
    match message.role:
        case "user" | "note":
            return StoredUserText(text)
        case "assistant":
            return StoredModelOutput(text=text)
        case "tool":
            if message.tool_call_id is None:
                return None
            return StoredToolResult(
                tool_call_id=replace_lone_surrogates(message.tool_call_id),
                tool_name=replace_lone_surrogates(message.tool_name or ""),
                output=replace_lone_surrogates(message.tool_output or texts.UNREADABLE_MESSAGE),
            )
