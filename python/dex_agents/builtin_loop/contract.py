"""The contract between the loop and a model: what one model call is given and what it answers.

A model client knows one provider's API and nothing of sessions; everything that it needs is in the request.
"""

from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from dex_agents import limits
from dex_agents.runner.event_writer import AgentEventWriter
from dex_agents.wire.images import AgentImageReference
from dex_agents.wire.usage import AgentUsage

__all__ = [
    "LimitsImages",
    "ModelClient",
    "ModelImageLimits",
    "ModelInputItem",
    "ModelOutputItem",
    "ModelRequest",
    "ModelResponse",
    "ModelTool",
    "ModelToolCall",
    "ModelToolResultItem",
    "ModelUserTextItem",
    "ToolChoice",
]

ToolChoice = Literal["auto", "required"]
"""Whether a model may answer without a tool, or has to call one."""


class ModelToolCall(msgspec.Struct, frozen=True):
    """A call of a tool, as the model asked for it.

    Attributes:
        model_call_id: The model's own ID, `""` when it gave none. Models repeat IDs: a client pairs calls and
            results by position, never by ID alone.
        tool_name: The tool as the model named it.
        arguments: JSON text. In a request it is always the text of an object; in a response it is what the
            model wrote, broken or not, and `{}` when the provider says that the call has no arguments.
    """

    model_call_id: str
    tool_name: str
    arguments: str


class ModelUserTextItem(msgspec.Struct, frozen=True, omit_defaults=True, tag="user_text", tag_field="type"):
    """Text of the user's side of the conversation.

    Attributes:
        text: Not blank.
        images: What is shown with it, after the text; their bytes are in `ModelRequest.image_data`.
    """

    text: str
    images: tuple[AgentImageReference, ...] = ()


class ModelOutputItem(msgspec.Struct, frozen=True, tag="model_output", tag_field="type"):
    """An earlier answer of a model.

    Attributes:
        text: Its text, `""` when there is none; a client sends no text part for `""`.
        tool_calls: Its calls in the model's order. Their results are the items that follow, one for each
            call, in the same order.
        item: JSON text of the provider's own output, exactly as `ModelResponse.item` gave it; send it in
            place of `text` and `tool_calls`. `None` when another provider or API wrote it, or when it cannot
            be replayed as it is.
    """

    text: str
    tool_calls: tuple[ModelToolCall, ...] = ()
    item: str | None = None


class ModelToolResultItem(
    msgspec.Struct, frozen=True, omit_defaults=True, tag="tool_result", tag_field="type"
):
    """The result of one call of the output item before it.

    Attributes:
        model_call_id: The call's ID as the model gave it.
        tool_name: The tool.
        output: What the model reads; not blank.
        images: What is shown with it, after the output; their bytes are in `ModelRequest.image_data`.
    """

    model_call_id: str
    tool_name: str
    output: str
    images: tuple[AgentImageReference, ...] = ()


ModelInputItem = ModelUserTextItem | ModelOutputItem | ModelToolResultItem
"""One item of a request."""


class ModelTool(msgspec.Struct, frozen=True):
    """A tool that the model may ask for.

    Attributes:
        name: Matches `^[a-zA-Z0-9_-]{1,64}$`.
        description: What the model reads about it.
        parameters: The JSON Schema of its arguments, an object schema; not to be changed.
    """

    name: str
    description: str
    parameters: dict[str, Any]


class ModelRequest(msgspec.Struct, frozen=True):
    """One model call, built from committed state alone.

    Whatever a session has stored, a request is well formed: it begins with user text, every call has exactly
    one result right after its response, no text is blank, all arguments are JSON objects, and everything can
    be written as UTF-8.

    Attributes:
        instructions: The system text; `""` for none.
        items: The conversation, oldest first.
        tools: What the model may ask for. Empty in the call that must end a turn, even when `items` holds
            calls.
        tool_choice: `required` when the model has to call one of `tools`; `auto` whenever there are none.
        image_data: The bytes of every image of `items`, by SHA-256. An image that is not sent is no image of
            an item: its text names it instead.
    """

    instructions: str
    items: tuple[ModelInputItem, ...]
    tools: tuple[ModelTool, ...] = ()
    tool_choice: ToolChoice = "auto"
    image_data: dict[str, bytes] = {}


class ModelResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What a model answered.

    Attributes:
        text: The answer's text, `""` for none.
        tool_calls: What it asks for, in its order.
        item: JSON text of the provider's own output, given back in `ModelOutputItem.item` byte for byte. It
            must be what the provider accepts as input: no empty text part, nothing that only a response has.
            `None` when text and calls say everything.
        reasoning: Reasoning the model shows; only for live viewers and tests. What a provider needs to see
            again belongs in `item`.
        usage: What the call consumed; its `model_calls` is ignored.
        finish_reason: The provider's word for why it stopped, or `None`. Whether arguments are whole is
            decided from the arguments.
        refusal: Why the model gave no answer on purpose, in the provider's words; `""` when it gave one. With
            neither text nor calls the turn ends at once, and says so.
        request_model: The model that was asked for, or `None`.
        response_model: The model that answered, or `None`.
        response_id: The provider's ID of the response, or `None`.
    """

    text: str = ""
    tool_calls: tuple[ModelToolCall, ...] = ()
    item: str | None = None
    reasoning: str = ""
    usage: AgentUsage = AgentUsage()
    finish_reason: str | None = None
    refusal: str = ""
    request_model: str | None = None
    response_model: str | None = None
    response_id: str | None = None


class ModelImageLimits(msgspec.Struct, frozen=True):
    """What a provider takes of images in one request.

    Attributes:
        max_images: How many.
        max_bytes: How long they may be together, before they are spelled as base64.
    """

    max_images: int = 100
    max_bytes: int = limits.MAX_REQUEST_IMAGE_BYTES


@runtime_checkable
class LimitsImages(Protocol):
    """A model client that says how many images it sends; any other gets `ModelImageLimits()`."""

    @property
    def image_limits(self) -> ModelImageLimits:
        """Of more, the oldest are named and not sent."""
        ...


class ModelClient(Protocol):
    """Calls one model of one provider.

    One client serves every session of its agent at once.
    """

    @property
    def provider(self) -> str:
        """The provider's name, stored with every answer: native output goes back to the same one only."""
        ...

    @property
    def api(self) -> str:
        """Which of the provider's APIs it speaks, stored beside `provider`."""
        ...

    async def generate(self, request: ModelRequest, events: AgentEventWriter) -> ModelResponse:
        """Make one model call and return the whole answer.

        Write text and reasoning to `events` as they arrive. Raise when the stream ends early: half an answer
        is no answer.

        Args:
            request: What to send.
            events: Speaks to live viewers.

        Raises:
            ModelCallRefusedError: The provider will not answer, however often it is asked; the turn ends.
            ModelCallError: The call failed; the Step repeats it, at the time that the provider named if any.

        Durability:
            Runs inside `RunModel`. A raised error or a crash repeats the call from the same committed state,
            so nothing of a failed answer is stored; the provider may bill both.
        """
        ...
