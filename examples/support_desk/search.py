"""Ranking search over short texts: BM25, with a light folding of word forms for the languages of the desk.

Pure and small on purpose: a few hundred documents need no index on disk.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["MINIMUM_COVERAGE", "Document", "SearchHit", "SearchIndex", "split_words"]

_TERM_SATURATION: Final = 1.2
_LENGTH_NORMALIZATION: Final = 0.75

MINIMUM_COVERAGE: Final = 0.34
"""A document counts as found when its words carry at least this share of the query's weight."""

_MINIMUM_OF_BEST: Final = 0.45
"""Beside a hit that fits, one with less than this share of its score only distracts."""

_QUOTE_CHARACTERS: Final = 200
"""A quote grows by whole sentences while it stays under this."""

_WORD: Final = re.compile(r"[a-z]{1,2}-\d{3,}|[^\W_]+")
_IDEOGRAPHS: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_TRANSLITERATED: Final = str.maketrans({"ß": "ss", "ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe"})

_STOP_WORD_TEXT: Final = """
    a about after again all also am an and any are as at be been but by can could did do does for from get
    had has have he her him his how i if in into is it its just many me more my no not of on or our out over
    please say says she should so some such tell than that the their them then there these they this to too
    up us was we were what when where which who why will with would yes you your anyone anything something
    customer customers find found give know let look need show see want wants like happen happens happened
    aber als am auf aus bei bin bitte das dass den der des die ein eine einen einer es fur hat ich ihr im ist
    kann kein man mein meine mich mir mit nach nicht noch nur oder sie sind und uber um uns von vor war was
    wenn wer wie wir wo zu zum zur
    au aux avec ce cette comment dans de des du elle en est et il j je l la le les leur mais me mon ne nous
    ou par pas pour pouvez que qui sa se ses son sur un une vos votre vous
    al como con cual cuando del donde el ella ellos esta este favor ha hay las lo los mas mi muy para pero
    por que quiero ser si sin sobre son su sus tengo un una y yo
    att av den det du efter en er ett fick han har hur i inte jag kan man med men mig min mitt nar och om pa
    som till var vi
"""
_STOP_WORDS: Final = frozenset(_STOP_WORD_TEXT.split())


@dataclass(frozen=True)
class Document:
    """A text that can be found.

    Attributes:
        document_id: Names it among the documents of its index.
        title: Counts twice.
        text: The body; hits quote from it.
        source: Where it stands, such as `tickets.csv:12`.
        keywords: Further words to find it by; never quoted.
    """

    document_id: str
    title: str
    text: str
    source: str
    keywords: str = ""


@dataclass(frozen=True)
class SearchHit:
    """A document that was found.

    Attributes:
        document: What was found.
        score: BM25; compares hits of one query only.
        coverage: The share of the query's weight that the document's words carry, above 0 and up to 1.
        quote: The sentence that says most about the query, with what follows it while that is short.
    """

    document: Document
    score: float
    coverage: float
    quote: str


def split_words(text: str) -> list[str]:
    """Return the words of a text, folded so that forms of one word compare equal; stop words are left out."""
    plain = unicodedata.normalize("NFKD", text.lower().translate(_TRANSLITERATED))
    # A dakuten is a combining mark too, but kana with and without it are different letters.
    plain = "".join(c for c in plain if not unicodedata.combining(c) or c in "\u3099\u309a")
    plain = unicodedata.normalize("NFC", plain)
    found: list[str] = _WORD.findall(_IDEOGRAPHS.sub(" ", plain))
    words = [_fold_word(word) for word in found if word not in _STOP_WORDS]
    for run in _IDEOGRAPHS.findall(plain):
        # There are no spaces to split at, so neighbouring pairs stand for words.
        words.extend(run[i : i + 2] for i in range(max(1, len(run) - 1)))
    return words


def _fold_word(word: str) -> str:
    if len(word) < 4 or not word.isalpha():
        return word
    for ending in ("ingly", "edly", "ing", "ied", "ies", "ed", "es", "s"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 3 and not (ending == "s" and stem.endswith("s")):
            word = stem + "y" if ending in ("ied", "ies") else stem
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiousl":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


class SearchIndex:
    """Finds documents by their words.

    Args:
        documents: At most a few thousand; their order breaks ties.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = tuple(documents)
        self._counts = [
            Counter(split_words(f"{document.title}\n{document.title}\n{document.text}\n{document.keywords}"))
            for document in self._documents
        ]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._average_length = sum(self._lengths) / max(1, len(self._lengths)) or 1.0
        self._documents_with = Counter(word for counts in self._counts for word in counts)

    def __len__(self) -> int:
        return len(self._documents)

    def search(self, query: str, limit: int = 5) -> list[SearchHit]:
        """Return the best documents, best first; none when nothing fits well enough.

        Args:
            query: In any words; a query of stop words only finds nothing.
            limit: How many at most.
        """
        words = list(dict.fromkeys(split_words(query)))
        whole_weight = sum(self._weight(word) for word in words)
        hits: list[SearchHit] = []
        for document, counts, length in zip(self._documents, self._counts, self._lengths, strict=True):
            matched = [word for word in words if word in counts]
            coverage = sum(self._weight(word) for word in matched) / whole_weight if matched else 0.0
            if coverage < MINIMUM_COVERAGE:
                continue
            score = sum(self._score_word(word, counts[word], length) for word in matched)
            hits.append(SearchHit(document, score, coverage, self._quote(document, matched)))
        hits.sort(key=lambda hit: -hit.score)
        return [hit for hit in hits[:limit] if hit.score >= _MINIMUM_OF_BEST * hits[0].score]

    def _weight(self, word: str) -> float:
        """Inverse document frequency; a word that occurs nowhere weighs most."""
        found_in = self._documents_with[word]
        return math.log(1 + (len(self._documents) - found_in + 0.5) / (found_in + 0.5))

    def _score_word(self, word: str, count: int, length: int) -> float:
        stretch = 1 - _LENGTH_NORMALIZATION + _LENGTH_NORMALIZATION * length / self._average_length
        return self._weight(word) * count * (_TERM_SATURATION + 1) / (count + _TERM_SATURATION * stretch)

    def _quote(self, document: Document, matched: list[str]) -> str:
        sentences = [
            " ".join(sentence.split())
            for sentence in re.split(r"(?<=[.!?。])\s+|\n\s*\n|\n(?=\|)", document.text)
            if sentence.strip(" |-\n")
        ]
        if not sentences:
            return document.title

        def weigh(sentence: str) -> float:
            words = set(split_words(sentence))
            return sum(self._weight(word) for word in matched if word in words)

        first = max(range(len(sentences)), key=lambda place: weigh(sentences[place]))
        quote = sentences[first]
        for sentence in sentences[first + 1 :]:
            if sentence.startswith("|") or len(quote) + len(sentence) > _QUOTE_CHARACTERS:
                break
            quote += f" {sentence}"
        return quote
