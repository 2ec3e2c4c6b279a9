"""How many input tokens a model call will take, without the model's vocabulary and without asking anybody.

A text is counted by classes of characters, and each count weighed by what a family of tokenizers makes of it.
The weights are data, `token_weights.json`; `benches/fit_token_weights.py` fits them and prints how far off
they are: about 6 % a text, where a quarter of the characters is off by 30 % and sees only half of JSON, logs,
digests or Chinese.

The better estimate starts from an *anchor*, the input tokens that the provider reported for the call before:
only what was added since is estimated then, and what a provider adds of its own is in the count already.

Images cost the same, whatever their bytes: they are references, and their base64 text is never looked at.
"""

import re
from importlib import resources
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from dex_agents._native import TOKEN_FEATURE_NAMES, TokenWeights
from dex_agents.builtin_loop.contract import (
    ModelInputItem,
    ModelOutputItem,
    ModelRequest,
    ModelTool,
    ModelToolResultItem,
    ModelUserTextItem,
)
from dex_agents.codecs.json_text import encode_json_text
from dex_agents.limits import ESTIMATED_IMAGE_INPUT_TOKENS

__all__ = [
    "InputTokenAnchor",
    "TokenizerFamily",
    "build_input_token_anchor",
    "estimate_input_tokens",
    "estimate_text_tokens",
    "tokenizer_family_of",
]

TokenizerFamily: TypeAlias = Literal["o200k", "cl100k", "claude", "deepseek", "default"]
"""Tokenizers that make about the same of a text.

`o200k`: OpenAI from GPT-4o on. `cl100k`: GPT-4 and GPT-3.5. `claude`: fitted to the one tokenizer that
Anthropic published, in 2023. `deepseek`: DeepSeek from V2 on. `default`: any other model; as much as the
dearest of these makes of each text, so that a context window is not found full too late.
"""

_ITEM_TOKENS: Final = 4
"""Who speaks, and the marks around an item or a call."""

_TOOL_TOKENS: Final = 8
"""The marks around a tool's declaration."""

_FAMILIES_BY_MODEL: Final[tuple[tuple[re.Pattern[str], TokenizerFamily], ...]] = (
    # A model that learned from another one's answers keeps its own tokenizer.
    (re.compile(r"distill"), "default"),
    (
        re.compile(r"(?<![a-z0-9])(?:chatgpt|gpt-4o|gpt-4\.[15]|gpt-[5-9]|gpt-oss|o[1-9](?![a-z0-9]))"),
        "o200k",
    ),
    (re.compile(r"(?<![a-z0-9])gpt-(?:4|3\.5)(?![0-9.])"), "cl100k"),
    (re.compile(r"(?<![a-z0-9])claude"), "claude"),
    (re.compile(r"(?<![a-z0-9])deepseek"), "deepseek"),
)

# The first bytes of PNG, JPEG, GIF and WebP as base64 writes them, in a JSON string. Providers return images
# they made in their output, and take them back in it.
_IMAGE_IN_JSON: Final = re.compile(
    r'"(?:data:image\\?/[a-z.+-]+;base64,)?(?:iVBORw0KGgo|\\?/9j\\?/|R0lGOD|UklGR)[A-Za-z0-9+/=\\]{64,}"'
)


class _WeightsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    about: str
    families: dict[TokenizerFamily, dict[str, int]]


def _load_weights() -> dict[TokenizerFamily, TokenWeights]:
    data = resources.files("dex_agents.builtin_loop").joinpath("token_weights.json").read_bytes()
    families = msgspec.json.decode(data, type=_WeightsFile).families
    # A row that does not fit the extension is a broken build: better no import than wrong sums.
    if set(families) != set(get_args(TokenizerFamily)) or any(
        list(row) != TOKEN_FEATURE_NAMES for row in families.values()
    ):
        message = "token_weights.json is not of this build of dex_agents._native; run `make build`"
        raise ImportError(message)
    return {family: TokenWeights(tuple(row.values())) for family, row in families.items()}


_WEIGHTS: Final = _load_weights()


class InputTokenAnchor(msgspec.Struct, frozen=True):
    """What a provider counted in one request, beside what was estimated for that same request.

    Attributes:
        family: Whose weights the estimate used; another family's estimates cannot be compared with it.
        input_tokens: What the provider reported, cached tokens included; above zero.
        estimated_input_tokens: The estimate of the same request; above zero.
    """

    family: TokenizerFamily
    input_tokens: int
    estimated_input_tokens: int


def tokenizer_family_of(model: str | None) -> TokenizerFamily:
    """Return the family of a model by its name; `default` for a name that tells nothing.

    Args:
        model: As a provider or a gateway names it, such as `gpt-5-mini`, `openrouter/openai/o3` or
            `us.anthropic.claude-sonnet-4`; `None` when it is not known.
    """
    name = "" if model is None else model.lower()
    for pattern, family in _FAMILIES_BY_MODEL:
        if pattern.search(name):
            return family
    return "default"


def estimate_text_tokens(text: str, *, family: TokenizerFamily = "default") -> int:
    """Return about how many tokens a text has; zero for an empty one only.

    Args:
        text: Any text, lone surrogates included; no size limit. Other threads run while one is counted that
            is long.
        family: Whose tokenizer reads it.

    Raises:
        ValueError: There is no such `family`.
    """
    return _whole_tokens(_weights_of(family).estimate_millitokens((text,)))


def estimate_input_tokens(
    request: ModelRequest,
    *,
    family: TokenizerFamily = "default",
    images: int = 0,
    anchor: InputTokenAnchor | None = None,
) -> int:
    """Return about how many input tokens a model call will take; pure.

    With an anchor, a request that grew is the reported count and the estimate of what was added; one that
    shrank, because a summary took the place of messages, is the same share of the reported count.

    Args:
        request: As it will be given to the model client.
        family: Whose tokenizer reads it.
        images: How many are sent beside those of its items, `limits.ESTIMATED_IMAGE_INPUT_TOKENS` each.
        anchor: Of an earlier request of the same session. One of another family is not used.

    Raises:
        ValueError: `images` is below zero, or there is no such `family`.
    """
    estimate = _estimate_request(request, family, images)
    if anchor is None or anchor.family != family:
        return estimate
    added = estimate - anchor.estimated_input_tokens
    if added >= 0:
        return anchor.input_tokens + added
    return -(-anchor.input_tokens * estimate // anchor.estimated_input_tokens)


def build_input_token_anchor(
    request: ModelRequest, input_tokens: int, *, family: TokenizerFamily = "default", images: int = 0
) -> InputTokenAnchor | None:
    """Return the anchor that an answered request leaves for the next ones, `None` if nothing was reported.

    Args:
        request: The request as it was answered.
        input_tokens: `ModelResponse.usage.input_tokens` of the answer; zero when the provider reports none.
        family: As in the estimates that will start from it.
        images: How many were sent beside those of its items.

    Raises:
        ValueError: `images` is below zero, or there is no such `family`.
    """
    if input_tokens <= 0:
        return None
    return InputTokenAnchor(family, input_tokens, _estimate_request(request, family, images))


def _estimate_request(request: ModelRequest, family: TokenizerFamily, images: int) -> int:
    if images < 0:
        message = f"images must not be below zero, not {images}"
        raise ValueError(message)
    texts: list[str] = [request.instructions]
    # One more item for the mark at which the answer begins, so that no request is free.
    marks = _ITEM_TOKENS
    for item in request.items:
        calls, found = _add_item_texts(texts, item)
        marks += _ITEM_TOKENS * (1 + calls)
        images += found
    for tool in request.tools:
        _add_tool_texts(texts, tool)
        marks += _TOOL_TOKENS
    text_tokens = _whole_tokens(_weights_of(family).estimate_millitokens(tuple(texts)))
    return text_tokens + marks + images * ESTIMATED_IMAGE_INPUT_TOKENS


def _add_item_texts(texts: list[str], item: ModelInputItem) -> tuple[int, int]:
    """Add what the model reads of an item, and return how many calls and images are in it."""
    match item:
        case ModelUserTextItem(text=text, images=images):
            texts.append(text)
            return 0, len(images)
        case ModelToolResultItem(tool_name=tool_name, output=output, images=images):
            texts += (tool_name, output)
            return 0, len(images)
        case ModelOutputItem(item=str(native), tool_calls=calls):
            native_text, found = _IMAGE_IN_JSON.subn('""', native)
            texts.append(native_text)
            return len(calls), found
        case ModelOutputItem(text=text, tool_calls=calls):
            texts.append(text)
            for call in calls:
                texts += (call.tool_name, call.arguments)
            return len(calls), 0


def _add_tool_texts(texts: list[str], tool: ModelTool) -> None:
    texts += (tool.name, tool.description, encode_json_text(tool.parameters, ensure_ascii=False))


def _weights_of(family: TokenizerFamily) -> TokenWeights:
    try:
        return _WEIGHTS[family]
    except KeyError:
        message = f"family must be one of {', '.join(_WEIGHTS)}, not {family!r}"
        raise ValueError(message) from None


def _whole_tokens(millitokens: int) -> int:
    return -(-millitokens // 1_000)
