from __future__ import annotations

from examples.support_desk.search import MINIMUM_COVERAGE, Document, SearchIndex, split_words


def _index(*texts: str) -> SearchIndex:
    return SearchIndex(
        Document(f"D-{number}", "", text, f"file:{number}") for number, text in enumerate(texts, start=1)
    )


def _found(index: SearchIndex, query: str) -> list[str]:
    return [hit.document.document_id for hit in index.search(query)]


def test_forms_of_one_word_compare_equal() -> None:
    for forms in (
        ("pole", "poles"),
        ("snap", "snaps", "snapped", "snapping"),
        ("leak", "leaks", "leaked", "leaking"),
        ("battery", "batteries"),
        ("lose", "losing"),
    ):
        assert len({tuple(split_words(form)) for form in forms}) == 1, forms


def test_accents_case_and_foreign_letters_do_not_matter() -> None:
    assert split_words("GÖTEBORG Łódź Straße") == split_words("goteborg lodz strasse")


def test_identifiers_stay_whole_and_stop_words_go() -> None:
    assert split_words("What about the T-3096?") == ["t-3096"]


def test_text_without_spaces_is_split_into_pairs() -> None:
    assert split_words("点灯しない") == ["点灯", "灯し", "しな", "ない"]
    assert _found(_index("届いたヘッドランプが点灯しません", "テント"), "ヘッドランプ") == ["D-1"]


def test_the_document_with_the_rarer_words_comes_first() -> None:
    index = _index("tent tent wind", "tent zipper", "tent pole", "tent peg")
    assert _found(index, "tent zipper")[0] == "D-2"


def test_a_word_counts_for_more_in_a_shorter_document() -> None:
    long_text = "zipper " + " ".join(f"word{number}" for number in range(60))
    assert _found(_index(long_text, "zipper jams", "pole", "peg"), "zipper")[0] == "D-2"


def test_nothing_is_found_when_too_little_of_the_query_fits() -> None:
    index = _index("the cup of a stove", "a tent in the wind", "boots")
    assert _found(index, "who won the 1998 world cup") == []
    assert _found(index, "the of and") == []
    assert _found(index, "") == []


def test_coverage_tells_how_much_of_the_query_fits() -> None:
    hits = _index("tent pole snapped", "pole bent", "mug").search("pole snapped")
    assert [hit.document.document_id for hit in hits] == ["D-1"]
    assert hits[0].coverage == 1.0
    partly = _index("pole bent", "mug").search("pole snapped")
    assert partly == [] or MINIMUM_COVERAGE <= partly[0].coverage < 1.0


def test_a_quote_is_the_sentence_that_says_most_with_what_follows() -> None:
    text = "We arrived late. The pole snapped at the joint. It tore the fly.\n\nThanks!"
    (hit,) = _index(text, "mug").search("snapped pole")
    assert hit.quote == "The pole snapped at the joint. It tore the fly. Thanks!"


def test_keywords_are_found_and_never_quoted() -> None:
    index = SearchIndex([Document("T-1", "Broken", "It broke.", "t:1", keywords="FF-10432 Jonas")])
    (hit,) = index.search("FF-10432")
    assert hit.quote == "It broke."


def test_the_limit_is_kept_and_ties_keep_their_order() -> None:
    assert [hit.document.document_id for hit in _index(*["mug"] * 9).search("mug", limit=3)] == [
        "D-1",
        "D-2",
        "D-3",
    ]


def test_an_index_without_documents_finds_nothing() -> None:
    assert _index().search("anything") == []
