"""`make bench-json`: json_text beside json.dumps, orjson and msgspec, in one run.

Only json_text writes the text of `json.dumps`, which is asserted before anything is timed. The other two
write JSON of their own (raw UTF-8, no blanks, `null` for NaN) and show what the machine allows.
"""

import argparse
import json
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from benches.measurement import (
    Ratio,
    environment_line,
    geometric_mean,
    measure_rounds,
    print_table,
    speed_ratio,
)
from benches.native_rows import NativeRow, Target
from benches.workloads.json_values import JSON_VALUES
from dex_agents import _native
from dex_agents.builtin_loop.json_values import build_object_of_distinct_keys
from dex_agents.codecs.json_text import (
    ReadJsonObject,
    encode_compact_sorted_json_text,
    encode_json_text,
    read_json_object,
)

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


Samples = dict[str, list[float]]


def variant_samples(title: str, rounds: int) -> dict[str, Samples]:
    """Time one spelling, after json_text was found equal to json.dumps.

    Args:
        title: The spelling, a key of the variants.
        rounds: Samples of each candidate.

    Returns:
        Seconds a call by candidate, by value.
    """
    encoders = _VARIANTS[title]
    results: dict[str, Samples] = {}
    for workload, value in JSON_VALUES.items():
        if encoders["json_text"](value) != encoders["json.dumps"](value):
            sys.exit(f"json_text differs from json.dumps on {workload!r} ({title})")
        results[workload] = measure_rounds(
            {name: lambda encode=encode, value=value: encode(value) for name, encode in encoders.items()},
            rounds=rounds,
        )
    return results


def _ratios(samples: Samples) -> dict[str, Ratio]:
    """Compare every candidate with json.dumps, and json_text with orjson."""
    peers = list(samples)[1:]
    ratios = {peer: speed_ratio(samples["json.dumps"], samples[peer]) for peer in peers}
    return {**ratios, "json_text/orjson": speed_ratio(samples["orjson"], samples["json_text"])}


def _means(ratios: Sequence[dict[str, Ratio]]) -> dict[str, str]:
    return {name: f"{geometric_mean([each[name] for each in ratios]):.2f}x" for name in ratios[0]}


_MEAN = Target(4, 8, "CJK text and long text with escapes, see above")
_ASCII_MEAN = Target(0.35, 0.7, "orjson writes bytes, without blanks, and no string of Python's")
_FALLBACK = Target(0.9, 1.0, "what was walked up to the part that is left is walked twice")
_ASCII_VALUES = (
    "tool arguments, 64 B",
    "log text, 63 KB ASCII",
    "tool result rows, 64 KiB",
    "nested 200 deep",
)
_VALUE_TARGETS = {
    "tool arguments, 64 B": Target(6, 10, "the call of the seam and the string it returns"),
    "log text, 63 KB ASCII": Target(
        12, 20, "a run ends at each escape and is copied alone; no vectors in safe Rust"
    ),
    "4,500 numbers": Target(3, 8, "the shortest digits of each float"),
}


def native_rows(rounds: int) -> list[NativeRow]:
    """Return what `make bench-native` shows of json_text: each value as it is stored, and means."""
    rows: list[NativeRow] = []
    for title in _VARIANTS:
        ratios = {name: _ratios(samples) for name, samples in variant_samples(title, rounds).items()}
        if title == "default":
            rows += _value_rows(ratios)
        means = {
            name: geometric_mean([each[name] for each in ratios.values()]) for name in _ratio_names(ratios)
        }
        for name, mean in means.items():
            compared = name if "/" in name else f"{name} / json.dumps"
            target = _MEAN if (title, name) == ("default", "json_text") else None
            rows.append(NativeRow("json_text", f"{title}, mean: {compared}", f"{mean:.2f}x", mean, target))
    return [*rows, *_fallback_rows(rounds), *_reading_rows(rounds)]


def _ratio_names(ratios: Mapping[str, Mapping[str, Ratio]]) -> list[str]:
    return list(next(iter(ratios.values())))


def _value_rows(ratios: Mapping[str, Mapping[str, Ratio]]) -> list[NativeRow]:
    rows: list[NativeRow] = []
    for value, compared in ratios.items():
        ratio = compared["json_text"]
        target = _VALUE_TARGETS.get(value)
        rows.append(NativeRow("json_text", f"{value} / json.dumps", str(ratio), ratio.median, target))
    mean = geometric_mean([ratios[value]["json_text/orjson"] for value in _ASCII_VALUES])
    return [*rows, NativeRow("json_text", "ASCII values / orjson", f"{mean:.2f}x", mean, _ASCII_MEAN)]


def _fallback_rows(rounds: int) -> list[NativeRow]:
    """Compare values that json.dumps spells in the end with json.dumps alone."""
    table = JSON_VALUES["tool result rows, 64 KiB"]
    values = {
        "an OrderedDict": OrderedDict(table),
        "64 KiB with an OrderedDict at the end": {**table, "last": OrderedDict(a=1)},
    }
    rows: list[NativeRow] = []
    for name, value in values.items():
        if encode_json_text(value) != json.dumps(value):
            sys.exit(f"json_text differs from json.dumps on {name}")
        samples = measure_rounds(
            {
                "json.dumps": lambda value=value: json.dumps(value),
                "json_text": lambda value=value: encode_json_text(value),
            },
            rounds=rounds,
        )
        ratio = speed_ratio(samples["json.dumps"], samples["json_text"])
        measure = f"left to json.dumps: {name}"
        rows.append(NativeRow("json_text", measure, str(ratio), ratio.median, _FALLBACK))
    return rows


def _reading_rows(rounds: int) -> list[NativeRow]:
    """Compare strict reading with json.loads, which takes repeated keys, and with one that refuses them."""
    refusing = json.JSONDecoder(object_pairs_hook=build_object_of_distinct_keys)
    rows: list[NativeRow] = []
    for name in ("tool arguments, 64 B", "tool result rows, 64 KiB"):
        text = json.dumps(JSON_VALUES[name])
        read = read_json_object(text, max_depth=128)
        if not isinstance(read, ReadJsonObject) or read.value != json.loads(text):
            sys.exit(f"read_json_object differs from json.loads on {name!r}")
        samples = measure_rounds(
            {
                "strict": lambda text=text: read_json_object(text, max_depth=128),
                "json.loads that refuses repeated keys": lambda text=text: refusing.decode(text),
                "json.loads": lambda text=text: json.loads(text),
            },
            rounds=rounds,
        )
        rows += [
            NativeRow(
                "json_text",
                f"read strictly: {name} / {peer}",
                str(speed_ratio(samples[peer], samples["strict"])),
            )
            for peer in list(samples)[1:]
        ]
    return rows


def _print_variant(title: str, rounds: int) -> None:
    results = variant_samples(title, rounds)
    ratios = {workload: _ratios(samples) for workload, samples in results.items()}
    rows = [
        [workload, *map(str, each.values()), f"{min(results[workload]['json_text']) * 1e6:.2f}"]
        for workload, each in ratios.items()
    ]
    means = _means(list(ratios.values()))
    rows.append(["geometric mean", *means.values(), ""])
    print(f"\n{title}: times as fast as json.dumps, median (lowest..highest) of {rounds} rounds")
    print_table(["value", *means, "json_text us"], rows)


def main() -> None:
    """Print one table for each spelling the product uses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="samples of each candidate")
    rounds: int = parser.parse_args().rounds
    if _native.build_profile != "release":
        sys.exit("bench_json: the extension is a development build; run `make bench-json`")
    print(f"{environment_line()}; dex_agents._native {_native.__version__} {_native.build_profile}")
    print(f"orjson {orjson.__version__}, msgspec {msgspec.__version__}")
    for title in _VARIANTS:
        _print_variant(title, rounds)


if __name__ == "__main__":
    main()
