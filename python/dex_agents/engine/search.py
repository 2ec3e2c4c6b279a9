"""SearchFlows: a query in, a page of runs out."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Protocol, cast

import msgspec
from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.failures import invalid_argument
from dex_agents.engine.search_grammar import parse_query
from dex_agents.engine.store.reader import FoundRun
from dex_agents.engine.store.search_query import Parameter, SearchStatement

MAX_PAGE_SIZE = 1000
MAX_PAGE_BYTES = 3_000_000
"""Size from which a page ends early: the SDK keeps gRPC's receive limit of 4 MiB."""

_NULL_KINDS = {None, "null_value"}


class SearchArchive(Protocol):
    """Where searches run."""

    async def search(self, statement: str, arguments: tuple[Parameter, ...]) -> list[FoundRun]:
        """Run a compiled search."""
        ...


async def search_runs(
    request: pb.SearchFlowsRequest, index_types: Mapping[str, int], archive: SearchArchive
) -> pb.SearchFlowsResponse:
    """Find runs, newest first unless the query says otherwise.

    Raises:
        ServiceError: The query, page size or page token is malformed.
    """
    if request.page_size < 0:
        raise invalid_argument("page_size", "must not be negative")
    size = min(request.page_size or MAX_PAGE_SIZE, MAX_PAGE_SIZE)
    after = _parse_token(request.next_page_token, request.query) if request.next_page_token else None
    statement = SearchStatement(parse_query(request.query), index_types).limit(size + 1, after)
    found = await archive.search(statement.text, tuple(statement.parameters))
    response = pb.SearchFlowsResponse()
    used = 0
    last: FoundRun | None = None
    for run in found[:size]:
        entry = _build_entry(run)
        used += entry.ByteSize()
        if last is not None and used > MAX_PAGE_BYTES:
            break
        response.flow_runs.append(entry)
        last = run
    if last is not None and len(response.flow_runs) < len(found):
        response.next_page_token = _build_token(last, request.query)
    return response


def _build_entry(run: FoundRun) -> pb.SearchFlowsResponseEntry:
    entry = pb.SearchFlowsResponseEntry(
        flow_id=run.flow_id,
        run_id=run.run_id,
        flow_type=run.flow_type,
        flow_status=cast("pb.FlowStatus", run.status),
    )
    entry.start_time.FromNanoseconds(int(run.started_at * 1e9))
    if run.closed_at is not None:
        entry.close_time.FromNanoseconds(int(run.closed_at * 1e9))
    for key, encoded in run.indexed:
        value = pb.Value.FromString(encoded)
        if value.WhichOneof("kind") not in _NULL_KINDS:
            entry.indexed_attributes.add(key=key).value.CopyFrom(value)
    return entry


def _build_token(run: FoundRun, query: str) -> str:
    content = (_digest(query), run.position, run.number)
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(content)).decode()


def _parse_token(token: str, query: str) -> tuple[Parameter, int]:
    try:
        content = msgspec.msgpack.decode(
            base64.urlsafe_b64decode(token), type=tuple[str, str | int | float | None, int]
        )
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise invalid_argument("next_page_token", "is not a token of this search") from None
    if content[0] != _digest(query):
        raise invalid_argument("next_page_token", "belongs to another query")
    return content[1], content[2]


def _digest(query: str) -> str:
    return hashlib.sha256(query.encode()).hexdigest()[:16]
