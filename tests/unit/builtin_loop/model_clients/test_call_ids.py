from __future__ import annotations

import pytest

from dex_agents.builtin_loop.model_clients.call_ids import RequestCallIds


def test_the_models_own_ids_are_kept() -> None:
    ids = RequestCallIds(40)
    assert [ids.assign(one) for one in ("call_1", "toolu-2", "call_2")] == ["call_1", "toolu-2", "call_2"]


def test_a_repeated_id_gets_a_number() -> None:
    ids = RequestCallIds(40)
    assert [ids.assign(one) for one in ("a", "a", "a-2", "a")] == ["a", "a-2", "a-2-2", "a-3"]


@pytest.mark.parametrize("given", ["x" * 100, "é/ü?", "", "a#2", "\U0001f600" * 50])
def test_an_id_that_a_provider_refuses_becomes_one_that_it_takes(given: str) -> None:
    ids = RequestCallIds(12)
    assigned = [ids.assign(given) for _ in range(12)]
    assert len(set(assigned)) == 12
    for one in assigned:
        assert 1 <= len(one) <= 12
        assert one.isascii()
        assert one.replace("-", "").replace("_", "").isalnum() or set(one) <= set("-_0123456789")
