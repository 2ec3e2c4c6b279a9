from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.failures import ServiceError
from dex_agents.engine.machine import apply_attribute_change, apply_stop, start_run
from dex_agents.engine.search_grammar import parse_query
from dex_agents.engine.state import Run
from dex_agents.engine.store.database import resolve_path
from dex_agents.engine.store.reader import StoreReader
from dex_agents.engine.store.search_query import SearchStatement
from dex_agents.engine.store.writer import StoreWriter
from dex_agents.engine.unit import Unit
from dex_agents.engine.values import BlobNumbers
from tests.unit.engine.building import NOW, null, skipping, text

TYPES: dict[str, int] = {
    "Status": pb.INDEX_TYPE_KEYWORD,
    "Title": pb.INDEX_TYPE_TEXT,
    "Tags": pb.INDEX_TYPE_KEYWORD_ARRAY,
    "Cost": pb.INDEX_TYPE_DOUBLE,
    "Turns": pb.INDEX_TYPE_INT,
    "Urgent": pb.INDEX_TYPE_BOOL,
    "Due": pb.INDEX_TYPE_DATETIME,
}


def tags(*names: str) -> pb.Value:
    payload = "[" + ",".join(f'"{name}"' for name in names) + "]"
    return pb.Value(obj_value=pb.EncodedObject(encoding="json", payload=payload.encode()))


class Catalogue:
    """Three runs in a database: `a` and `b` are open, `c` is canceled."""

    def __init__(self, path: str) -> None:
        self._writer = StoreWriter(path, "normal")
        self._reader = StoreReader(path)
        self._runs: dict[str, Run] = {}
        self.last: tuple[str | int | float | None, int] | None = None
        self.add(
            "a", "Session", {"Status": text("open"), "Title": text("Book a Flight"), "Cost": 1.5, "Turns": 3}
        )
        self.add(
            "b",
            "Session",
            {"Status": text("waiting"), "Tags": tags("vip", "new"), "Cost": 20, "Urgent": True},
        )
        self.add(
            "c", "Import", {"Due": text("2026-01-02T03:04:05Z"), "Title": text("flight list"), "Turns": 2**60}
        )
        self.change("c", lambda run, unit: apply_stop(run, pb.STOP_TYPE_CANCEL, "", unit, NOW + 100))

    def add(self, name: str, flow_type: str, indexed: dict[str, pb.Value | float | bool]) -> None:
        number = len(self._runs) + 1
        run = Run(number, f"run-{name}", name, flow_type, "", NOW + number, pb.FlowConfig())
        self._runs[name] = run
        request = pb.StartFlowRequest(start_step_type="Await" if name == "a" else "Work", step_input=null())
        if name != "a":
            request.step_options.CopyFrom(skipping())
        for key, value in indexed.items():
            index = request.flow_start_options.attributes.add(key=f"attribute-{key}")
            index.value.CopyFrom(value if isinstance(value, pb.Value) else number_value(value))
            index.index_config.CopyFrom(
                pb.IndexConfig(enable=True, type=pb.IndexType.Name(TYPES[key]), index_key=key)
            )
        self.change(name, lambda run, unit: start_run(run, request, unit, NOW))

    def change(self, name: str, apply: Callable[[Run, Unit], None]) -> None:
        unit = Unit(BlobNumbers("00000000", 0), dict(TYPES))
        apply(self._runs[name], unit)
        self._writer.append([(self._writer.last_sequence + 1, unit.operations)], unit.blobs)
        self._writer.fold()

    def write(self, name: str, key: str, value: pb.Value) -> None:
        config = pb.IndexConfig(enable=True, type=pb.IndexType.Name(TYPES[key]), index_key=key)
        change = pb.AttributeWrite(key=f"attribute-{key}", value=value, index_config=config)
        self.change(name, lambda run, unit: apply_attribute_change(run, [change], unit, NOW))

    def set_mode(self, name: str, mode: pb.ActiveStepSearchMode) -> None:
        def apply(run: Run, unit: Unit) -> None:
            run.config.active_step_search_mode = mode
            unit.put_run(run)

        self.change(name, apply)

    def find(
        self, query: str, rows: int = 100, after: tuple[str | int | float | None, int] | None = None
    ) -> str:
        statement = SearchStatement(parse_query(query), TYPES).limit(rows, after)
        found = self._reader.search(statement.text, tuple(statement.parameters))
        self.last = None if not found else (found[-1].position, found[-1].number)
        return "".join(run.flow_id for run in found)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


def number_value(value: float | bool) -> pb.Value:
    if isinstance(value, bool):
        return pb.Value(bool_value=value)
    return pb.Value(int_value=value) if isinstance(value, int) else pb.Value(double_value=value)


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    catalogue = Catalogue(resolve_path(tmp_path_factory.mktemp("search") / "engine.db"))
    yield catalogue
    catalogue.close()


@pytest.fixture
def own_catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    catalogue = Catalogue(resolve_path(tmp_path / "engine.db"))
    yield catalogue
    catalogue.close()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", "cba"),
        ("FlowType = 'Session'", "ba"),
        ("FlowType != 'Session'", "c"),
        ("FlowId IN ('a', 'c')", "ca"),
        ("WorkflowId STARTS_WITH 'b'", "b"),
        ("RunId = 'run-b'", "b"),
        ("ExecutionStatus = 'Running'", "ba"),
        ("ExecutionStatus = 'Canceled'", "c"),
        ("ExecutionStatus IN ('Completed', 'Cancelled')", "c"),
        ("CloseTime IS NULL", "ba"),
        ("CloseTime > '1970-01-12T13:48:00Z'", "c"),
        ("StartTime BETWEEN '1970-01-12T13:46:40Z' AND '1970-01-12T13:46:42Z'", "ba"),
        ("Status = 'open'", "a"),
        ("Status != 'open'", "cb"),
        ("Status IN ('open', 'waiting')", "ba"),
        ("Status STARTS_WITH 'wait'", "b"),
        ("Status >= 'p'", "b"),
        ("Status IS NULL", "c"),
        ("Status IS NOT NULL", "ba"),
        ("Title = 'flight'", "ca"),
        ("Title = 'FLIGHT list'", "c"),
        ("Title = 'flight missing'", ""),
        ("Title STARTS_WITH 'Fli'", "ca"),
        ("Tags = 'vip'", "b"),
        ("Tags IN ('old', 'new')", "b"),
        ("Tags != 'vip'", "ca"),
        ("Cost > 1 AND Cost < 10", "a"),
        ("Cost = 20", "b"),
        ("Cost BETWEEN 1.5 AND 20", "ba"),
        ("Turns = 1152921504606846976", "c"),
        ("Turns = 1152921504606846975", ""),
        ("Urgent = true", "b"),
        ("Urgent = false", ""),
        ("Due = '2026-01-02T04:04:05+01:00'", "c"),
        ("Due < '2026-01-02T03:04:05Z'", ""),
        ("ActiveStepTypes = 'Await'", "a"),
        ("ActiveStepTypes != 'Await'", "cb"),
        ("ActiveStepTypes IS NULL", "cb"),
        ("NOT (Status = 'open' OR Status = 'waiting')", "c"),
        ("FlowType = 'Session' AND (Status = 'open' OR Tags = 'vip')", "ba"),
        ("Status = 'open'' OR 1 = 1 --'", ""),
        ("ORDER BY StartTime", "abc"),
        ("ORDER BY FlowId DESC", "cba"),
        ("ORDER BY Cost", "cab"),
        ("ORDER BY Cost DESC", "bac"),
        ("FlowType = 'Session' ORDER BY Status", "ab"),
    ],
)
def test_a_query_finds(catalogue: Catalogue, query: str, found: str) -> None:
    assert catalogue.find(query) == found


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("Unknown = 'x'", "no search key is named 'Unknown'"),
        ("ORDER BY Unknown", "cannot order by 'Unknown'"),
        ("ORDER BY Tags", "cannot order by 'Tags'"),
        ("FlowType = 1", "quoted text"),
        ("StartTime = 'yesterday'", "RFC 3339"),
        ("ExecutionStatus = 'Sleeping'", "no execution status"),
        ("ExecutionStatus > 'Running'", "= , != and IN"),
        ("Cost = 'much'", "with a number"),
        ("Cost STARTS_WITH 1", "no text"),
        ("Urgent = 1", "true or false"),
        ("Due = 5", "RFC 3339"),
        ("Title = '...'", "no word"),
    ],
)
def test_a_query_that_does_not_fit_its_keys_is_refused(
    catalogue: Catalogue, query: str, problem: str
) -> None:
    with pytest.raises(ServiceError, match=problem):
        catalogue.find(query)


@pytest.mark.parametrize("order", ["", "ORDER BY Cost", "ORDER BY Cost DESC", "ORDER BY FlowType DESC"])
def test_pages_of_one_run_each_make_up_the_whole_result(catalogue: Catalogue, order: str) -> None:
    whole = catalogue.find(order)
    pages = catalogue.find(order, 1)
    for _ in whole[1:]:
        pages += catalogue.find(order, 1, catalogue.last)
    assert pages == whole
    assert catalogue.find(order, 1, catalogue.last) == ""


def test_a_changed_value_is_found_under_its_new_content_only(own_catalogue: Catalogue) -> None:
    own_catalogue.write("b", "Tags", tags("quiet"))
    assert own_catalogue.find("Tags IN ('vip', 'new')") == ""
    assert own_catalogue.find("Tags = 'quiet'") == "b"
    own_catalogue.write("b", "Tags", null())
    assert own_catalogue.find("Tags IS NOT NULL") == ""


def test_the_search_mode_decides_which_steps_are_visible(own_catalogue: Catalogue) -> None:
    assert own_catalogue.find("ActiveStepTypes = 'Work'") == ""
    own_catalogue.set_mode("b", pb.ACTIVE_STEP_SEARCH_MODE_ENABLED_FOR_ALL)
    assert own_catalogue.find("ActiveStepTypes = 'Work'") == "b"
    own_catalogue.set_mode("a", pb.ACTIVE_STEP_SEARCH_MODE_DISABLED)
    assert own_catalogue.find("ActiveStepTypes = 'Await'") == ""
