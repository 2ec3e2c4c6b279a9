"""What is believed of a Worker's capacity."""

from __future__ import annotations

from dex_agents.engine.workers import Worker


def test_a_worker_that_declined_all_it_had_is_asked_again() -> None:
    worker = Worker("w")
    worker.busy = 2
    worker.busy -= 1
    worker.note_decline("rpc", now=0.0)
    assert not worker.has_room("rpc", now=0.0)
    worker.busy -= 1
    delay = worker.note_decline("rpc", now=0.0)
    assert not worker.has_room("rpc", now=0.0)
    assert worker.has_room("rpc", now=delay)


def test_a_worker_that_declined_while_it_worked_has_room_again_after_an_answer() -> None:
    worker = Worker("w")
    worker.busy = 1
    worker.note_decline("rpc", now=0.0)
    assert not worker.has_room("rpc", now=10.0)
    worker.note_success()
    assert worker.has_room("rpc", now=10.0)
