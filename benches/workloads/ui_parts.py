"""Parts of UI streams as sessions make them, built alike on every run."""

import random
from typing import Any

__all__ = ["UI_BATCHES"]

_SEED = 20_250

# A tokenizer's pieces: mostly short words, now and then a line end, a quote or another script.
_PIECES = ("Hello", " wor", "ld, ", "your ", "order ", "is paid", " \u2713", "\n", " \u4f60\u597d", ' "q"')


def _delta(text: str, owner: str = "msg_0042") -> dict[str, Any]:
    return {"type": "text-delta", "id": owner, "delta": text}


def _mixed(chance: random.Random) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"type": "start", "messageId": "msg_0042"}]
    for call in range(4):
        call_id = f"call_{call}"
        rows = [{"id": f"ord_{chance.getrandbits(32):08x}", "total": chance.random() * 500} for _ in range(8)]
        tool = {"toolCallId": call_id, "toolName": "find_orders", "dynamic": True}
        parts += [
            {"type": "start-step"},
            {"type": "text-start", "id": f"t{call}"},
            *(_delta(piece, f"t{call}") for piece in _PIECES),
            {"type": "text-end", "id": f"t{call}"},
            {"type": "tool-input-available", **tool, "input": {"customer": "cus_42", "limit": 8}},
            {
                "type": "tool-output-available",
                "toolCallId": call_id,
                "output": {"rows": rows},
                "dynamic": True,
            },
            {"type": "finish-step"},
        ]
    return [*parts, {"type": "finish", "finishReason": "stop"}]


UI_BATCHES: dict[str, list[dict[str, Any]]] = {
    "10 text deltas": [_delta(piece) for piece in _PIECES],
    "1,000 text deltas": [_delta(piece) for piece in _PIECES] * 100,
    "a turn of 4 tool calls": _mixed(random.Random(_SEED)),
    "long deltas, 8 KB": [_delta("".join(_PIECES) * 150) for _ in range(4)],
    "CJK deltas, 2 KB": [_delta("\u60a8\u7684\u8ba2\u5355\u5df2\u4ed8\u6b3e\uff0c" * 85) for _ in range(8)],
    "line ends and controls": [_delta("\r\n\t\u2028\x85\x00" * 100) for _ in range(4)],
}
"""Batches by what they stand for."""
