"""The turn that every library runs: a question, two tools in parallel, an answer.

Plain data without imports, so that a process that measures one library does not load another.
"""

from dataclasses import dataclass
from typing import Final

__all__ = [
    "ANSWER",
    "CONTENT_BYTES_A_TURN",
    "MESSAGES_A_TURN",
    "TOOLS",
    "StoredMessage",
    "ToolUse",
    "build_question",
    "expect_messages",
]


@dataclass(frozen=True)
class ToolUse:
    """A tool that the model asks for in every turn.

    Attributes:
        name: The tool.
        argument: The name of its only argument.
        value: What the model passes.
        output: What the tool returns, JSON text.
    """

    name: str
    argument: str
    value: str
    output: str


@dataclass(frozen=True)
class StoredMessage:
    """A message as a library gives it back from its store.

    Attributes:
        role: `user`, `assistant` or `tool`.
        text: What was said; empty for an answer that only asks for tools.
    """

    role: str
    text: str


TOOLS: Final = (
    ToolUse(
        "look_up_order",
        "order_id",
        "ord_10422",
        '{"order_id": "ord_10422", "status": "shipped", "carrier": "DHL", "total": 86.4, "currency": "EUR", '
        '"items": [{"sku": "KET-17", "quantity": 1}, {"sku": "MUG-02", "quantity": 4}]}',
    ),
    ToolUse(
        "look_up_customer",
        "customer_id",
        "cus_7731",
        '{"customer_id": "cus_7731", "name": "Ada Moreau", "since": "2021-03-09", "city": "Lyon", '
        '"orders": 12, "open_tickets": 0, "newsletter": false}',
    ),
)

ANSWER: Final = (
    "Your order ord_10422 left our warehouse yesterday and is on its way with DHL. It should reach you in "
    "Lyon within two working days; the invoice of 86.40 EUR is in your account."
)

MESSAGES_A_TURN: Final = 3 + len(TOOLS)
"""The question, the request for tools, a result of each tool, the answer."""


def build_question(turn: int) -> str:
    """Return what the user asks in a session's turn, counted from 0."""
    return f"Hello, this is my message number {turn}: where is the parcel with my kettle and the four mugs?"


def expect_messages(turns: int) -> list[StoredMessage]:
    """Return what a session holds after so many turns."""
    messages: list[StoredMessage] = []
    for turn in range(turns):
        messages.append(StoredMessage("user", build_question(turn)))
        messages.append(StoredMessage("assistant", ""))
        messages.extend(StoredMessage("tool", tool.output) for tool in TOOLS)
        messages.append(StoredMessage("assistant", ANSWER))
    return messages


CONTENT_BYTES_A_TURN: Final = sum(len(message.text.encode()) for message in expect_messages(1)) + sum(
    len(f'{tool.name}{{"{tool.argument}": "{tool.value}"}}'.encode()) for tool in TOOLS
)
"""What a turn adds that somebody said: the texts, and the two calls with their arguments."""
