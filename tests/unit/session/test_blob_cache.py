"""The cache of large values, without an engine: what it keeps and what it forgets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dex_agents.session.blob_cache import FetchingBlobCache


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[FetchingBlobCache]:
    opened = FetchingBlobCache(f"unix:{tmp_path}/nobody.sock", max_bytes=100)
    yield opened
    opened.close()


def test_the_least_recently_used_values_go_first(cache: FetchingBlobCache) -> None:
    for name in "abc":
        assert cache.put(f"1:f{name}", name.encode() * 40)
        assert cache.get("1:fa") == b"a" * 40
    assert cache.get("1:fc") == b"c" * 40
    assert cache.get("1:fb") is None


def test_a_value_that_alone_exceeds_the_bound_is_not_kept(cache: FetchingBlobCache) -> None:
    cache.put("1:fa", b"a" * 60)
    assert not cache.put("1:fb", b"b" * 101)
    assert cache.get("1:fa") == b"a" * 60


def test_replacing_and_deleting_free_their_bytes(cache: FetchingBlobCache) -> None:
    cache.put("1:fa", b"a" * 90)
    cache.put("1:fa", b"A" * 10)
    cache.put("1:fb", b"b" * 90)
    assert cache.get("1:fa") == b"A" * 10
    cache.delete("1:fb")
    cache.put("1:fc", b"c" * 90)
    assert cache.get("1:fa") == b"A" * 10
    cache.delete_all()
    assert cache.get("1:fa") is None


def test_an_engine_that_is_away_makes_a_miss(cache: FetchingBlobCache) -> None:
    assert cache.get("3:abcs0123456789") is None
