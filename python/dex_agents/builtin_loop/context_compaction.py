"""How long a model's input is, where it can be cut, and the request that summarises what is cut off.

All of it is pure. A cut lies between two model responses whose calls all have stored results, and never right
behind a user's message: so both halves are conversations of their own, and a turn of many tool calls can be
cut in its middle. The latest exchange always stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, Protocol, runtime_checkable

import msgspec

from dex_agents import texts
from dex_agents.builtin_loop.contract import ModelClient, ModelRequest, ModelUserTextItem
from dex_agents.builtin_loop.stored_items import (
    StoredModelOutput,
    StoredToolResult,
    StoredUserText,
    decode_stored_item,
)
from dex_agents.builtin_loop.token_estimate import (
    InputTokenAnchor,
    TokenizerFamily,
    build_input_token_anchor,
    estimate_input_tokens,
    estimate_text_tokens,
    tokenizer_family_of,
)
from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates
from dex_agents.limits import ESTIMATED_IMAGE_INPUT_TOKENS
from dex_agents.runner.contract import ContextSummaryRequest
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.messages import AgentMessage, FrameworkMessage
from dex_agents.wire.usage import AgentUsage

__all__ = [
    "NamesItsModel",
    "build_summary_request",
    "choose_cut",
    "estimate_request",
    "measure_request",
]

_LONGEST_TEXT_BYTES: Final = 16 * 1024
"""Of one message in a transcript to summarise: a long tool output must not crowd out the conversation."""

_SUMMARY_INPUT_SHARE: Final = 0.6
"""How much of the window the transcript to summarise may take; a longer one is summarised in parts."""


_LEAST_GAIN_SHARE: Final = 0.02
"""How much of the window a summary has to free: where instructions and tools alone fill it, every model call
would be preceded by another that changes next to nothing."""


@runtime_checkable
class NamesItsModel(Protocol):
    """A model client that says which model it calls, so that estimates can use the weights of its family."""

    @property
    def model(self) -> str:
        """The model as the provider names it."""
        ...


class _StoredAnchor(msgspec.Struct, frozen=True):
    """`AgentTurnContext.input_token_anchor` of the built-in loop.

    Attributes:
        model: Provider, API and model of the call; an estimate for another one does not start from it.
        input_tokens: What the provider reported.
        estimated_input_tokens: What was estimated for that same request.
    """

    model: str
    input_tokens: int
    estimated_input_tokens: int


def estimate_request(request: ModelRequest, model: ModelClient, stored_anchor: str | None) -> int:
    """Return about how many input tokens a request takes.

    Args:
        request: The request.
        model: Who is to answer it.
        stored_anchor: What `measure_request` left: then only what was added since is estimated.
    """
    family = _family_of(model)
    stored = _decode_anchor(stored_anchor)
    anchor = None
    if stored is not None and stored.model == _key_of(model):
        anchor = InputTokenAnchor(family, stored.input_tokens, stored.estimated_input_tokens)
    return estimate_input_tokens(request, family=family, anchor=anchor)


def measure_request(request: ModelRequest, model: ModelClient, usage: AgentUsage) -> str | None:
    """Return what an answered request leaves for the next estimate; `None` if its tokens were not reported.

    Args:
        request: The request.
        model: Who answered it.
        usage: What the provider reported.
    """
    anchor = build_input_token_anchor(request, usage.input_tokens, family=_family_of(model))
    if anchor is None:
        return None
    stored = _StoredAnchor(_key_of(model), anchor.input_tokens, anchor.estimated_input_tokens)
    return msgspec.json.encode(stored).decode()


def choose_cut(
    messages: Sequence[AgentMessage],
    retained_tokens: int,
    *,
    model: ModelClient,
    context_window_tokens: int | None = None,
) -> int | None:
    """Return the sequence number of the last message that a summary should cover, or `None`.

    Args:
        messages: What the model reads now.
        retained_tokens: About how many tokens of messages are to stay.
        model: Who reads them.
        context_window_tokens: Input that a summary call may have; `None` for any.
    """
    family = _family_of(model)
    sizes = [
        sum(estimate_text_tokens(text, family=family) for text in _lines(one))
        + len(one.images) * ESTIMATED_IMAGE_INPUT_TOKENS
        for one in messages
    ]
    read = list(accumulate(sizes, initial=0))
    candidates = [index for index in _find_cuts(messages) if 0 < index < len(messages)]
    if not candidates:
        return None
    fitting = [index for index in candidates if read[-1] - read[index] <= retained_tokens]
    chosen = fitting[0] if fitting else candidates[-1]
    if context_window_tokens is not None:
        longest = int(context_window_tokens * _SUMMARY_INPUT_SHARE)
        shown = list(accumulate((_shown_tokens(one, family) for one in messages), initial=0))
        readable = [index for index in candidates if index <= chosen and shown[index] <= longest]
        chosen = readable[-1] if readable else candidates[0]
        if read[chosen] < context_window_tokens * _LEAST_GAIN_SHARE:
            return None
    return messages[chosen - 1].sequence


def build_summary_request(request: ContextSummaryRequest) -> ModelRequest:
    """Return the model call that summarises; it offers no tools and holds one text.

    The conversation is written out as text, so that the model cannot go on with it instead, and so that no
    provider misses the tools of its calls.
    """
    transcript = "\n".join(line for message in request.messages for line in _shown_lines(message))
    earlier = None if request.earlier_summary is None else request.earlier_summary.text
    task = texts.context_summary_task(
        transcript, None if earlier is None else replace_lone_surrogates(earlier)
    )
    return ModelRequest(instructions=texts.CONTEXT_SUMMARY_INSTRUCTIONS, items=(ModelUserTextItem(task),))


def _find_cuts(messages: Sequence[AgentMessage | FrameworkMessage]) -> Iterator[int]:
    """Yield each index before which the messages may be cut."""
    open_calls: set[str] = set()
    for index, message in enumerate(messages, 1):
        match decode_stored_item(message):
            case StoredModelOutput(tool_calls=calls):
                open_calls = {call.tool_call_id for call in calls}
            case StoredToolResult(tool_call_id=tool_call_id):
                open_calls.discard(tool_call_id)
            case _:
                pass
        following = decode_stored_item(messages[index]) if index < len(messages) else None
        if not open_calls and message.role != "user" and not isinstance(following, StoredToolResult):
            yield index


def _lines(message: AgentMessage | FrameworkMessage) -> tuple[str, ...]:
    match decode_stored_item(message):
        case StoredUserText(text=text, images=images):
            return (texts.transcript_user(text), *_image_lines(images))
        case StoredModelOutput(text=text, tool_calls=calls):
            said = () if not text or not text.strip() else (texts.transcript_answer(text),)
            return (*said, *(texts.transcript_call(call.tool_name, call.arguments) for call in calls))
        case StoredToolResult(tool_name=tool_name, output=output, images=images):
            return (texts.transcript_result(tool_name, output), *_image_lines(images))
        case None:
            return ()


def _image_lines(images: tuple[AgentImageReference, ...]) -> tuple[str, ...]:
    return (texts.transcript_images(len(images)),) if images else ()


def _shown_lines(message: AgentMessage | FrameworkMessage) -> Iterator[str]:
    for line in _lines(message):
        healed = replace_lone_surrogates(line)
        shown = cut_to_bytes(healed, _LONGEST_TEXT_BYTES)
        if shown != healed:
            shown += texts.output_cut_note(len(shown.encode()), len(healed.encode()))
        yield shown


def _shown_tokens(message: AgentMessage | FrameworkMessage, family: TokenizerFamily) -> int:
    return sum(estimate_text_tokens(line, family=family) for line in _shown_lines(message))


def _family_of(model: ModelClient) -> TokenizerFamily:
    return tokenizer_family_of(model.model if isinstance(model, NamesItsModel) else None)


def _key_of(model: ModelClient) -> str:
    name = model.model if isinstance(model, NamesItsModel) else ""
    return f"{model.provider}/{model.api}/{name}"


def _decode_anchor(text: str | None) -> _StoredAnchor | None:
    # An anchor only makes an estimate better: one that cannot be read is none.
    try:
        return None if text is None else msgspec.json.decode(text, type=_StoredAnchor)
    except msgspec.MsgspecError:
        return None
