"""`make bench-json`: json_text beside json.dumps, orjson and msgspec, in one run.

Only json_text writes the text of `json.dumps`, which is asserted before anything is timed. The other two
write JSON of their own (raw UTF-8, no blanks, `null` for NaN) and show what the machine allows.
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import orjson

from benches.measurement import environment_line, geometric_mean, measure_rounds, print_table, speed_ratio
from benches.workloads.json_values import JSON_VALUES
from dex_agents import _native
from dex_agents.codecs.json_text import encode_compact_sorted_json_text, encode_json_text

Encoder = Callable[[Any], object]

_msgspec_encode = msgspec.json.Encoder().encode
_msgspec_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def _dumps_unicode(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _encode_unicode(value: Any) -> str:
    return encode_json_text(value, ensure_ascii=False)


def _dumps_compact_sorted(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _orjson_sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


_VARIANTS: dict[str, dict[str, Encoder]] = {
    "default": {
        "json.dumps": json.dumps,
        "json_text": encode_json_text,
        "orjson": orjson.dumps,
        "msgspec": _msgspec_encode,
    },
    "ensure_ascii=False": {
        "json.dumps": _dumps_unicode,
        "json_text": _encode_unicode,
        "orjson": orjson.dumps,
        "msgspec": _msgspec_encode,
    },
    "sorted keys, compact": {
        "json.dumps": _dumps_compact_sorted,
        "json_text": encode_compact_sorted_json_text,
        "orjson": _orjson_sorted,
        "msgspec": _msgspec_encode_sorted,
    },
}


def _bench_variant(title: str, encoders: dict[str, Encoder], rounds: int) -> None:
    peers = list(encoders)[1:]
    rows: list[list[str]] = []
    columns: dict[str, list[Any]] = {peer: [] for peer in [*peers, "json_text/orjson"]}
    for workload, value in JSON_VALUES.items():
        text = encoders["json.dumps"](value)
        if encoders["json_text"](value) != text:
            sys.exit(f"json_text differs from json.dumps on {workload!r} ({title})")
        samples = measure_rounds(
            {name: lambda encode=encode, value=value: encode(value) for name, encode in encoders.items()},
            rounds=rounds,
        )
        for peer in peers:
            columns[peer].append(speed_ratio(samples["json.dumps"], samples[peer]))
        columns["json_text/orjson"].append(speed_ratio(samples["orjson"], samples["json_text"]))
        microseconds = min(samples["json_text"]) * 1e6
        rows.append([workload, *(str(column[-1]) for column in columns.values()), f"{microseconds:.2f}"])
    means = [f"{geometric_mean(column):.2f}x" for column in columns.values()]
    rows.append(["geometric mean", *means, ""])
    print(f"\n{title}: times as fast as json.dumps, median (lowest..highest) of {rounds} rounds")
    print_table(["value", *columns, "json_text us"], rows)


def main() -> None:
    """Print one table for each spelling the product uses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="samples of each candidate")
    rounds: int = parser.parse_args().rounds
    if _native.build_profile != "release":
        sys.exit("bench_json: the extension is a development build; run `make bench-json`")
    print(f"{environment_line()}; dex_agents._native {_native.__version__} {_native.build_profile}")
    print(f"orjson {orjson.__version__}, msgspec {msgspec.__version__}")
    for title, encoders in _VARIANTS.items():
        _bench_variant(title, encoders, rounds)


if __name__ == "__main__":
    main()
