"""Images as providers take them: base64 of their bytes, with their type."""

from __future__ import annotations

from base64 import b64encode

from dex_agents.builtin_loop.contract import ModelRequest
from dex_agents.wire.images import AgentImageReference

__all__ = ["build_data_url", "encode_image"]


def encode_image(request: ModelRequest, image: AgentImageReference) -> str:
    """Return the bytes of an image of the request as base64."""
    return b64encode(request.image_data[image.sha256]).decode("ascii")


def build_data_url(request: ModelRequest, image: AgentImageReference) -> str:
    """Return an image of the request as a `data:` URL."""
    return f"data:{image.mime_type};base64,{encode_image(request, image)}"
