"""Healing and cutting text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dex_agents.codecs.unicode_text import cut_to_bytes, replace_lone_surrogates

_any_text = st.text(alphabet=st.characters(codec=None))


@given(_any_text)
def test_healed_text_is_valid_and_text_without_a_lone_surrogate_is_left_alone(text: str) -> None:
    healed = replace_lone_surrogates(text)
    healed.encode()
    try:
        text.encode()
    except UnicodeEncodeError:
        assert "\ufffd" in healed or len(healed) < len(text)
    else:
        assert healed == text


def test_a_pair_of_surrogates_becomes_its_character() -> None:
    assert replace_lone_surrogates("\ud83d\ude00 \ude00") == "\U0001f600 \ufffd"


@given(st.text(), st.integers(0, 40))
def test_a_cut_text_is_the_longest_beginning_that_fits(text: str, limit: int) -> None:
    kept = cut_to_bytes(text, limit)
    assert text.startswith(kept)
    assert len(kept.encode()) <= limit
    if kept != text:
        assert len(text[: len(kept) + 1].encode()) > limit
