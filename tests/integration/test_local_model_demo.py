"""The turn of the local model's demo, against a server that errs as small models do."""

from __future__ import annotations

from dex_agents.builtin_loop import ScriptedToolCall
from dex_agents.testing import ModelServer, ModelServerError, ModelServerReply
from examples.local_model.demo import take_turn
from examples.terminal import Terminal

_CALL = ModelServerReply(tool_calls=(ScriptedToolCall("lookup_order", {"order_id": "A-1042"}),))
_UNREADABLE = ModelServerReply(
    tool_calls=_CALL.tool_calls,
    fault="error",
    fault_after=2,
    error=ModelServerError(
        code="server_error",
        message="The model produced output that does not match the expected peg-native format",
    ),
)


async def test_a_call_that_the_server_cannot_read_is_asked_for_again() -> None:
    async with ModelServer([_UNREADABLE, _CALL, ModelServerReply(text="It arrives on Thursday.")]) as server:
        address = server.openai_base_url.removesuffix("/v1")
        snapshot = await take_turn(address, "Where is A-1042?", Terminal())
    assert snapshot.last_turn_outcome == "completed"
    assert [(call.tool_name, call.status) for call in snapshot.tool_calls] == [("lookup_order", "succeeded")]
    assert snapshot.messages[-1].text == "It arrives on Thursday."
    assert len(server.requests) == 3
    assert [message["role"] for message in server.requests[2].body["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
