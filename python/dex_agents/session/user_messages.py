"""A user's text and images as the runner spells them, and what keeps images out of a session."""

from __future__ import annotations

from collections.abc import Sequence

from dex_agents import texts
from dex_agents.errors import ImageValidationError
from dex_agents.media.references import validate_image_references
from dex_agents.runner.contract import AcceptsImages, AgentFrameworkRunner
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.messages import FrameworkMessage, QueuedMessage

__all__ = ["build_user_message", "find_image_refusal"]


def find_image_refusal(
    runner: AgentFrameworkRunner, images: Sequence[AgentImageReference]
) -> ImageValidationError | None:
    """Return why images cannot come with a message, or `None`; asked before the message is accepted."""
    if not images:
        return None
    if not _accepts_images(runner):
        return ImageValidationError("images", "this agent takes no images: it has no media store")
    try:
        validate_image_references(images)
    except ImageValidationError as error:
        return error
    return None


def build_user_message(runner: AgentFrameworkRunner, message: QueuedMessage) -> FrameworkMessage:
    """Return an accepted message as the runner spells it; never refuses one.

    Images that this version of the agent cannot take, although an earlier one accepted them, are named to the
    model instead.
    """
    if not message.images:
        return runner.build_user_message(message.text)
    if isinstance(runner, AcceptsImages) and find_image_refusal(runner, message.images) is None:
        return runner.build_user_message_with_images(message.text, message.images)
    notes = [
        texts.image_not_shown(image.mime_type, image.size_bytes, texts.IMAGES_NOT_TAKEN)
        for image in message.images
    ]
    return runner.build_user_message("\n".join((message.text, *notes)))


def _accepts_images(runner: AgentFrameworkRunner) -> bool:
    return isinstance(runner, AcceptsImages) and runner.accepts_images
