"""What a function tool returns when it has images to show beside its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dex_agents.wire.images import AgentImageReference

__all__ = ["FunctionToolResult", "function_tool_result"]


@dataclass(frozen=True)
class FunctionToolResult:
    """An output with images; made by `function_tool_result`.

    Attributes:
        output: What the tool would return without images.
        images: What the model sees with it.
    """

    output: Any
    images: tuple[AgentImageReference, ...] = ()


def function_tool_result(output: Any, *, images: Sequence[AgentImageReference] = ()) -> FunctionToolResult:
    """Return an output with images from the agent's media store.

    Args:
        output: As a tool returns it: text, or what can be written as JSON.
        images: What `MediaStore.put_image` returned; at most `limits.MAX_IMAGES_PER_MESSAGE`.

    Durability:
        Images are named by their content: a repeated attempt that puts them again changes nothing.
    """
    return FunctionToolResult(output, tuple(images))
