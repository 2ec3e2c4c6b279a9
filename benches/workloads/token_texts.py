"""Text of the kinds that agents send, cut into chunks, from what installed packages ship.

Package descriptions, the standard library's sources and manual, Django's translations, dialogues of
chatterbot-corpus, and, from a folder of `npm install typescript`, the compiler's declarations and its
translated messages. Built alike on every run over the same packages.
"""

import importlib.metadata
import json
import random
import re
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

__all__ = ["CHUNK_CHARACTERS", "RARE_SCRIPTS", "agent_texts", "cut", "rare_script_texts", "tool_rows"]

CHUNK_CHARACTERS: Final = 1_500
_CHUNKS_A_KIND: Final = 120
_SEED: Final = 20_250

_MESSAGE_LANGUAGES: Final = {
    "Chinese, simplified": "zh-cn",
    "Chinese, traditional": "zh-tw",
    "Japanese": "ja",
    "Korean": "ko",
    "Russian": "ru",
    "German": "de",
    "French": "fr",
    "Spanish": "es",
    "Polish": "pl",
    "Turkish": "tr",
    "Czech": "cs",
    "Portuguese": "pt-br",
}

_CATALOG_LANGUAGES: Final = {
    "Greek": "el",
    "Ukrainian": "uk",
    "Arabic": "ar",
    "Persian": "fa",
    "Hebrew": "he",
    "Hindi": "hi",
    "Bengali": "bn",
    "Thai": "th",
    "Vietnamese": "vi",
}

RARE_SCRIPTS: Final = {
    "Armenian": "hy",
    "Georgian": "ka",
    "Kannada": "kn",
    "Khmer": "km",
    "Malayalam": "ml",
    "Tamil": "ta",
    "Telugu": "te",
    "Burmese": "my",
}
"""Scripts with no weight of their own, by Django's code: what an unknown script is judged on."""

_DIALOGUE_LANGUAGES: Final = {
    "English": "english",
    "Chinese, simplified": "chinese",
    "Chinese, traditional": "traditionalchinese",
    "Japanese": "japanese",
    "Korean": "korean",
    "Russian": "russian",
    "Ukrainian": "ukrainian",
    "Bengali": "bengali",
    "Hebrew": "hebrew",
    "Persian": "persian",
    "Dutch": "dutch",
    "French": "french",
    "German": "german",
    "Indonesian": "indonesian",
    "Italian": "italian",
    "Portuguese": "portuguese",
    "Spanish": "spanish",
    "Turkish": "turkish",
}

_EMOJI: Final = [
    chr(code) for code in (*range(0x1F600, 0x1F650), *range(0x1F680, 0x1F6C0), 0x2764, 0x2705, 0x26A0)
]
_CATALOG_ENTRY: Final = re.compile(r'^msgstr(?:\[\d\])? ((?:".*"\s*)+)', re.MULTILINE)


def cut(text: str, characters: int = CHUNK_CHARACTERS) -> list[str]:
    """Cut a text into chunks of equal length; what is left over is dropped."""
    return [text[start : start + characters] for start in range(0, len(text) - characters + 1, characters)]


def agent_texts(node_modules: Path) -> dict[str, list[str]]:
    """Return chunks by kind: what a session's texts are made of, in the languages people write to agents.

    Args:
        node_modules: A folder that holds `typescript`, version 5.
    """
    chance = random.Random(_SEED)
    descriptions = _package_descriptions()
    prose = _prose_lines(descriptions)
    library = Path(sysconfig.get_path("stdlib"))
    compiler = node_modules / "typescript" / "lib"
    manual = (library / "pydoc_data" / "topics.py").read_text(encoding="utf-8")
    declarations = (compiler / "lib.es5.d.ts", compiler / "typescript.d.ts")
    kinds: dict[str, Iterable[str]] = {
        "English prose": cut("\n".join(prose)),
        "Markdown": [chunk for text in descriptions for chunk in cut(text)[:6]],
        "manual": cut(manual.encode().decode("unicode_escape", "replace")),
        "Python code": [chunk for path in sorted(library.glob("*.py")) for chunk in cut(_text_of(path))[:4]],
        "TypeScript code": cut("".join(map(_text_of, declarations))),
        "JSON, indented": _indented_json(node_modules),
        "JSON tool rows": cut(tool_rows(chance, 1_800)),
        "hex, UUID, digests": [_digests(chance) for _ in range(80)],
        "base64": [_base64_text(chance) for _ in range(80)],
        "log lines": cut("".join(_log_line(chance) for _ in range(2_500))),
    }
    for language, folder in _MESSAGE_LANGUAGES.items():
        messages = json.loads(_text_of(compiler / folder / "diagnosticMessages.generated.json"))
        kinds[language] = cut("\n".join(messages.values()))
    for language, code in _CATALOG_LANGUAGES.items():
        kinds[language] = cut(_catalog_text(code), 500)
    for language, folder in _DIALOGUE_LANGUAGES.items():
        kinds[f"dialogue, {language}"] = cut(_dialogue_text(folder), 700)
    chinese = kinds["Chinese, simplified"]
    kinds["Chinese as \\u escapes"] = [json.dumps(chunk)[:CHUNK_CHARACTERS] for chunk in chinese]
    kinds["chat with emoji"] = [_chat(chance, chunk) for chunk in kinds["English prose"]]
    return {kind: _some(chance, list(chunks)) for kind, chunks in kinds.items()}


def rare_script_texts() -> dict[str, list[str]]:
    """Return short chunks, by language, of scripts that no weight was fitted on."""
    chance = random.Random(_SEED)
    return {language: _some(chance, cut(_catalog_text(code), 300)) for language, code in RARE_SCRIPTS.items()}


def tool_rows(chance: random.Random, count: int) -> str:
    """Return rows of orders as a tool returns them, in the spelling of `json.dumps`."""
    words = "paid open void refund shipped label error retry customer order".split()  # noqa: SIM905
    rows = [
        {
            "id": f"ord_{chance.getrandbits(32):08x}",
            "status": chance.choice(words),
            "total": round(chance.random() * 900, 2),
            "qty": chance.randrange(9),
            "created_at": f"2026-0{chance.randrange(1, 9)}-1{chance.randrange(9)}T0{chance.randrange(9)}:"
            f"{chance.randrange(59):02d}:{chance.randrange(59):02d}Z",
            "paid": chance.random() < 0.5,
            "ref": None,
        }
        for _ in range(count)
    ]
    return json.dumps(rows)


def _some(chance: random.Random, chunks: Sequence[str]) -> list[str]:
    return chance.sample(chunks, min(len(chunks), _CHUNKS_A_KIND))


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _package_descriptions() -> list[str]:
    found = {
        distribution.metadata["Name"]: (distribution.read_text("METADATA") or "").partition("\n\n")[2]
        for distribution in importlib.metadata.distributions()
    }
    return [found[name] for name in sorted(found)]


def _prose_lines(descriptions: Iterable[str]) -> list[str]:
    """Keep long lines of plain sentences, each once."""
    lines = (line for text in descriptions for line in text.splitlines())
    prose = (line for line in lines if len(line) > 80 and line.count(" ") > 8)
    return list(dict.fromkeys(line for line in prose if "http" not in line and "|" not in line))


def _indented_json(node_modules: Path) -> list[str]:
    manifests = [_text_of(path) for path in sorted(node_modules.rglob("package.json"))]
    german = json.loads(_text_of(node_modules / "typescript/lib/de/diagnosticMessages.generated.json"))
    return [chunk for text in (*manifests, json.dumps(german, indent=2)[:60_000]) for chunk in cut(text)]


def _digests(chance: random.Random) -> str:
    def one() -> str:
        spelling = chance.randrange(3)
        if spelling == 0:
            return f"{chance.getrandbits(128):032x}"
        if spelling == 1:
            parts = (chance.getrandbits(32), chance.getrandbits(16), chance.getrandbits(12))
            return "{:08x}-{:04x}-4{:03x}".format(*parts)
        return f"sha256:{chance.getrandbits(256):064x}"

    return " ".join(one() for _ in range(200))[:CHUNK_CHARACTERS]


def _base64_text(chance: random.Random) -> str:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return "".join(chance.choices(alphabet, k=CHUNK_CHARACTERS))


def _log_line(chance: random.Random) -> str:
    moment = f"2026-05-{chance.randrange(1, 29):02d} 1{chance.randrange(9)}:{chance.randrange(59):02d}"
    return (
        f"{moment}:{chance.randrange(59):02d}.{chance.randrange(999):03d} INFO "
        f"worker[{chance.randrange(99)}] session={chance.getrandbits(24):06x} "
        f"turn={chance.randrange(50)} step=RunModel took {chance.randrange(900)} ms\n"
    )


def _chat(chance: random.Random, prose: str) -> str:
    words = (f"{word} {chance.choice(_EMOJI)}" if chance.random() < 0.25 else word for word in prose.split())
    return " ".join(words)[:CHUNK_CHARACTERS]


def _dialogue_text(language: str) -> str:
    """Return what people and bots say to each other, one line an utterance."""
    corpus = importlib.metadata.distribution("chatterbot-corpus")
    paths = [
        Path(str(corpus.locate_file(file)))
        for file in corpus.files or ()
        if file.match(f"*/data/{language}/*.yml") and file.stem != "coding"
    ]
    lines = (line for path in sorted(paths) for line in _text_of(path).splitlines())
    said = (
        line.removeprefix("- -").removeprefix("  -").strip()
        for line in lines
        if line.startswith(("- -", "  -"))
    )
    return "\n".join(dict.fromkeys(said))


def _catalog_text(code: str) -> str:
    """Return the translated messages of Django's applications in one language."""
    django = importlib.metadata.distribution("django")
    paths = [
        Path(str(django.locate_file(file)))
        for file in django.files or ()
        if file.match(f"*/locale/{code}/LC_MESSAGES/django.po")
    ]
    entries = (entry for path in sorted(paths) for entry in _CATALOG_ENTRY.findall(_text_of(path))[1:])
    messages = ("".join(json.loads(part) for part in entry.splitlines() if part) for entry in entries)
    return "\n".join(dict.fromkeys(filter(None, messages)))
