"""What model calls consumed."""

from __future__ import annotations

import msgspec

__all__ = ["AgentUsage", "ModelUsage", "add_agent_usage", "empty_agent_usage"]


class AgentUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts reported by providers, summed; a provider that does not report a count leaves it at zero.

    Attributes:
        model_calls: Model calls that returned an answer.
        input_tokens: All input tokens, cached ones included.
        output_tokens: All output tokens, reasoning included.
        cached_input_tokens: Input tokens read from a provider's cache.
        cache_write_tokens: Input tokens written to a provider's cache.
        reasoning_tokens: Output tokens that were reasoning.
    """

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class ModelUsage(msgspec.Struct, frozen=True):
    """What the calls of one model consumed.

    Attributes:
        model: The model's name as the provider gave it, or `None`.
        usage: The sum over its calls.
    """

    model: str | None
    usage: AgentUsage


def empty_agent_usage() -> AgentUsage:
    """Return the usage of no model call."""
    return AgentUsage()


def add_agent_usage(first: AgentUsage, second: AgentUsage) -> AgentUsage:
    """Return the sum of two usages, field by field."""
    return AgentUsage(
        model_calls=first.model_calls + second.model_calls,
        input_tokens=first.input_tokens + second.input_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        cached_input_tokens=first.cached_input_tokens + second.cached_input_tokens,
        cache_write_tokens=first.cache_write_tokens + second.cache_write_tokens,
        reasoning_tokens=first.reasoning_tokens + second.reasoning_tokens,
    )
