"""Real tokenizers to judge estimates by, as litellm ships them."""

# The tokenizers are installed for `make token-weights` and `make bench-tokens` alone.
# pyright: reportMissingImports=false

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["Tokenizer", "load_tokenizers"]

Tokenizer = Callable[[str], int]


def load_tokenizers() -> dict[str, Tokenizer]:
    """Return what counts the tokens of a text, by family, without a network."""
    package = importlib.util.find_spec("litellm")
    if package is None or package.origin is None:
        sys.exit("litellm is not installed; see requirements/bench-tokens.txt")
    folder = Path(package.origin).parent / "litellm_core_utils" / "tokenizers"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    import tiktoken
    import tokenizers

    def ranks(name: str) -> Tokenizer:
        encoding = tiktoken.get_encoding(name)
        return lambda text: len(encoding.encode_ordinary(text))

    def file(name: str) -> Tokenizer:
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / name))
        return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)

    return {
        "o200k": ranks("o200k_base"),
        "cl100k": ranks("cl100k_base"),
        "claude": file("anthropic_tokenizer.json"),
        "deepseek": file("deepseek_tokenizer.json"),
    }
