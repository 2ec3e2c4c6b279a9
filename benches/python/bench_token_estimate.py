"""`make bench-tokens`: token_estimate beside real tokenizers and beside chars/4, in one run.

The estimate is asserted to be the oracle's before anything is timed. How far off each counter is stands
beside its speed; `benches/fit_token_weights.py` judges the errors on many more texts.
"""

import argparse
import importlib.metadata
import json
import random
import sys
from collections.abc import Iterator, Mapping
from importlib import resources

from benches.measurement import environment_line, measure_rounds, print_table, speed_ratio
from benches.native_rows import NativeRow, Target
from benches.reference_tokenizers import Tokenizer, load_tokenizers
from benches.workloads.token_texts import tool_rows
from dex_agents import _native
from dex_agents.builtin_loop.token_estimate import estimate_text_tokens
from tests.oracles.token_estimate import weigh_text

_SENTENCE = (
    "The agent reads the status of the order, then asks before it refunds the damaged item; the customer is "
    "told when the money is on its way. "
)
_CHINESE = "客服先查看订单的状态\uff0c然后在退款之前询问\uff1b款项寄出时会通知客户。"

_TEXTS: Mapping[str, str] = {
    "English, 140 B": _SENTENCE,
    "English, 1.5 KB": (_SENTENCE * 11)[:1_500],
    "JSON tool rows, 64 KB": tool_rows(random.Random(20_250), 700)[: 64 * 1024],
    "Chinese, 16 KB": (_CHINESE * 200)[:5_400],
}


def _quarter(text: str) -> int:
    return len(text) // 4


def _estimate(text: str) -> int:
    return estimate_text_tokens(text, family="o200k")


def _samples(counters: Mapping[str, Tokenizer], rounds: int) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Time every counter on one text after the other, each of which the oracle estimates alike."""
    document = resources.files("dex_agents.builtin_loop").joinpath("token_weights.json").read_bytes()
    weights: dict[str, int] = json.loads(document)["families"]["o200k"]
    for name, text in _TEXTS.items():
        if _estimate(text) != -(-weigh_text(text, weights) // 1_000):
            sys.exit(f"token_estimate differs from its oracle on {name!r}")
        calls = {label: lambda count=count, text=text: count(text) for label, count in counters.items()}
        yield name, measure_rounds(calls, rounds=rounds)


def native_rows(rounds: int) -> list[NativeRow]:
    """Return what `make bench-native` shows of token_estimate: speed and error beside tiktoken."""
    truth = load_tokenizers()["o200k"]
    counters: dict[str, Tokenizer] = {"tiktoken": truth, "token_estimate": _estimate}
    targets = {
        "JSON tool rows, 64 KB": Target(50, 150, "starts of words and runs are counted beside classes")
    }
    rows: list[NativeRow] = []
    for name, samples in _samples(counters, rounds):
        ratio = speed_ratio(samples["tiktoken"], samples["token_estimate"])
        text = _TEXTS[name]
        errors = [100 * (count(text) / truth(text) - 1) for count in (_estimate, _quarter)]
        result = f"{ratio}, error {errors[0]:+.0f}% (chars/4 {errors[1]:+.0f}%)"
        measure = f"{name} / tiktoken"
        rows.append(NativeRow("token_estimate", measure, result, ratio.median, targets.get(name)))
    return rows


def main() -> None:
    """Print speed and error of each counter on each text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="samples of each candidate")
    rounds: int = parser.parse_args().rounds
    if _native.build_profile != "release":
        sys.exit("bench_token_estimate: the extension is a development build; run `make bench-tokens`")
    tokenizers = load_tokenizers()
    truth = tokenizers["o200k"]
    counters: dict[str, Tokenizer] = {
        "tiktoken o200k": truth,
        "tokenizers, Claude 2023": tokenizers["claude"],
        "chars/4": _quarter,
        "token_estimate": _estimate,
    }
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("tiktoken", "tokenizers"))
    print(f"{environment_line()}; dex_agents._native {_native.__version__} {_native.build_profile}")
    print(f"{versions}; median (lowest..highest) of {rounds} rounds; errors against o200k")
    rows: list[list[str]] = []
    for name, samples in _samples(counters, rounds):
        text = _TEXTS[name]
        for label, count in counters.items():
            seconds = min(samples[label])
            ratio = speed_ratio(samples["tiktoken o200k"], samples[label])
            error = f"{100 * (count(text) / truth(text) - 1):+.0f}%"
            if count is tokenizers["claude"]:
                error = "of its own"
            speed = f"{len(text.encode()) / seconds / 1e6:.1f}"
            rows.append([name, label, f"{seconds * 1e6:.2f}", speed, str(ratio), error])
    print_table(["text", "counter", "us", "MB/s", "times as fast as tiktoken", "error"], rows)


if __name__ == "__main__":
    main()
