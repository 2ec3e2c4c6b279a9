"""What a `ModelServer` answers, in no provider's terms: replies, faults inside them, and errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from dex_agents.builtin_loop.scripted_model import ScriptedToolCall
from dex_agents.codecs.json_text import encode_json_text
from dex_agents.wire.usage import AgentUsage

__all__ = ["ModelApi", "ModelServerError", "ModelServerReply", "StreamFault", "arguments_text"]

ModelApi = Literal["responses", "chat_completions", "messages"]
"""An API that the server speaks; its path tells which."""

StreamFault = Literal["hang_up", "cut", "ended", "malformed", "error"]
"""What goes wrong in a reply, after `fault_after` of its events.

`hang_up` closes the connection without an HTTP answer; `cut` breaks off in the middle of the body; `ended`
ends the body in order, as a proxy does whose upstream died; `malformed` sends an event that is not JSON;
`error` sends the provider's own error event.
"""

_DEFAULT_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, kw_only=True)
class ModelServerReply:
    """An answer of the model. As it stands, without text and calls, it is the empty answer.

    Attributes:
        text: Streamed word by word.
        reasoning: Reasoning that is shown: a summary, or thinking.
        signature: What the provider signs or encrypts that reasoning with; sent with it only.
        redacted: Reasoning that is not shown, as the provider encrypts it; the Messages API alone has it.
        tool_calls: What it asks for. Calls may share an ID; by default the server numbers them.
        refusal: The model's words for not answering.
        is_cut_off: Whether the token limit ended it: the last call's arguments then lack their last piece.
        finish_reason: The provider's word for the end, where it is not what the rest of the reply says.
        usage: What the call counts as.
        content_type: Of the HTTP answer.
        fault: What goes wrong.
        fault_after: How many events are sent before that.
        error: The error of the `error` fault.
        before_event: Awaited before each event: a sleep for slow tokens, a gate for a test.
    """

    text: str = ""
    reasoning: str = ""
    signature: str = "signed"
    redacted: str = ""
    tool_calls: tuple[ScriptedToolCall, ...] = ()
    refusal: str = ""
    is_cut_off: bool = False
    finish_reason: str | None = None
    usage: AgentUsage = field(default_factory=lambda: AgentUsage(input_tokens=10, output_tokens=5))
    content_type: str = "text/event-stream"
    fault: StreamFault | None = None
    fault_after: int = 0
    error: ModelServerError | None = None
    before_event: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, kw_only=True)
class ModelServerError:
    """An HTTP error, or the error inside a stream, in the provider's form.

    Attributes:
        status: The HTTP status; 429, 500 and 529 are the usual ones to test with.
        code: The provider's code or type; by default the usual one of the status.
        message: For people.
        retry_after: The header of that name: seconds, or a date.
        headers: More headers.
    """

    status: int = 500
    code: str | None = None
    message: str = "this error was asked for"
    retry_after: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def body(self, api: ModelApi) -> dict[str, Any]:
        """Return the error as a provider writes it.

        Args:
            api: Whose form it has.
        """
        kind = self.code or _DEFAULT_TYPES.get(self.status, "api_error")
        if api == "messages":
            return {"type": "error", "error": {"type": kind, "message": self.message}}
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}


def arguments_text(call: ScriptedToolCall) -> str:
    """Return the arguments of a call as the model writes them."""
    return call.arguments if isinstance(call.arguments, str) else encode_json_text(call.arguments)
