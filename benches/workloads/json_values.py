"""The seven kinds of value that agents turn into JSON text, built alike on every run."""

import random
from collections.abc import Callable
from typing import Any

__all__ = ["JSON_VALUES"]

_SEED = 20_250

_WORDS = """
agent order status store user refund payment shipping label total retry error quick customer asks before after
policy window item parcel carrier
""".split()  # noqa: SIM905 - one word a line would hide that these are words


def _sentence(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(words))


def _tool_arguments(_: random.Random) -> Any:
    return {"order_id": "ord_1042", "reason": "damaged item", "amount": 25}


def _chat_message(chance: random.Random) -> Any:
    greeting = "Bonjour, où est ma commande ? 你好\uff0c请帮我查一下 \U0001f600\U0001f680 "
    return {
        "role": "user",
        "content": [{"type": "text", "text": f"{greeting}{_sentence(chance, 110)} “quoted” café\n\tend"}],
        "metadata": {
            "locale": "fr-FR",
            "tags": ["vip", "émigré", "日本語"],
            "turn": 12,
            "score": 0.87,
            "stream": True,
            "parent": None,
        },
    }


def _log_text(chance: random.Random) -> Any:
    openings = ("INFO ok ", "path/to/file.py:12 ", '"quoted" ', "line end\n")
    lines = (f"{chance.choice(openings)}{_sentence(chance, 6)} " for _ in range(1_500))
    return {"stdout": "".join(lines)[:63_000]}


def _cjk_text(chance: random.Random) -> Any:
    return {"text": "".join(chr(chance.randrange(0x4E00, 0x9FA5)) for _ in range(21_000))}


def _tool_rows(chance: random.Random) -> Any:
    return {
        "rows": [
            {
                "id": f"ord_{chance.getrandbits(32):08x}",
                "status": chance.choice(("paid", "open", "void")),
                "total": round(chance.random() * 500, 2),
                "qty": chance.randrange(9),
                "note": _sentence(chance, 9),
                "paid": chance.random() < 0.5,
                "ref": None,
            }
            for _ in range(370)
        ]
    }


def _nested(_: random.Random) -> Any:
    value: Any = {"leaf": [1, 2, 3]}
    for level in range(198):
        value = {f"k{level}": value, "v": [level]} if level % 2 else [value, "x"]
    return value


def _numbers(chance: random.Random) -> Any:
    return {
        "floats": [chance.gauss(0, 1) * 10 ** chance.randrange(-8, 18) for _ in range(1_500)],
        "integers": [chance.randrange(-(2**53), 2**53) for _ in range(1_500)],
        "small": [chance.randrange(200) for _ in range(1_500)],
    }


_BUILDERS: dict[str, Callable[[random.Random], Any]] = {
    "tool arguments, 64 B": _tool_arguments,
    "chat message, 1.1 KB": _chat_message,
    "log text, 63 KB ASCII": _log_text,
    "CJK text, 21,000 chars": _cjk_text,
    "tool result rows, 64 KiB": _tool_rows,
    "nested 200 deep": _nested,
    "4,500 numbers": _numbers,
}

JSON_VALUES: dict[str, Any] = {name: build(random.Random(_SEED)) for name, build in _BUILDERS.items()}
"""Values by what they stand for."""
