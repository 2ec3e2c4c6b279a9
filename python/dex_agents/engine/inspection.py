"""The gRPC methods that look into a run from outside: its history and its state.

They are for inspectors, not for Workers and clients: nothing waits for them on the commit path.
"""

from __future__ import annotations

from dex.dexpb import dex_pb2 as pb

from dex_agents.engine.archive import Archive
from dex_agents.engine.coordinator import Coordinator
from dex_agents.engine.failures import flow_not_found, invalid_argument
from dex_agents.engine.flow_state import build_flow_state
from dex_agents.engine.request_size import fit_reply
from dex_agents.engine.values import MAX_INLINE_BYTES
from dex_agents.engine.waits import MAX_WAIT_SECONDS

MAX_PAGE_EVENTS = 1000


class Inspection:
    """The part of `dex.FlowService` that shows what happened."""

    def __init__(self, coordinator: Coordinator, archive: Archive) -> None:
        self._coordinator = coordinator
        self._runs = coordinator.runs
        self._archive = archive

    async def get_history_events(self, request: pb.GetHistoryEventsRequest) -> pb.GetHistoryEventsResponse:
        """List events of a run, oldest first; everything committed before the call is seen.

        A position that is no longer kept stands for the next one that is, which the IDs of the events show.
        """
        start = _read_start(request)
        if request.estimate_page_size < 0:
            raise invalid_argument("estimate_page_size", "must not be negative")
        limit = min(request.estimate_page_size or MAX_PAGE_EVENTS, MAX_PAGE_EVENTS)
        run = await self._runs.find(request.flow_id, request.run_id)
        if request.run_attempt and request.run_attempt != run.run_attempt:
            raise flow_not_found(request.flow_id)
        await self._coordinator.units.committer.wait_durable(run.last_sequence)
        page = await self._archive.load_history(run.number, run.run_attempt, start, limit)
        response = pb.GetHistoryEventsResponse()
        size = 0
        has_more = page.has_more
        for event in page.events:
            if event.HasField("flow_closed"):
                event.flow_closed.results.extend(run.outputs)
            fit_reply(event, self._coordinator.large_values.keep)
            size += event.ByteSize()
            if response.events and size > MAX_INLINE_BYTES:
                has_more = True
                break
            response.events.append(event)
        following = response.events[-1].event_id + 1 if response.events else start
        response.next_internal_event_id = following
        if has_more:
            response.next_page_token = str(following).encode()
        return response

    async def wait_for_history_event(
        self, request: pb.WaitForHistoryEventRequest
    ) -> pb.WaitForHistoryEventResponse:
        """Wait until a run has come to an event, or is closed without one."""
        wanted = request.next_internal_event_id
        if wanted < 1:
            raise invalid_argument("next_internal_event_id", "must be positive")
        run = await self._runs.find(request.flow_id, request.run_id)

        def look() -> bool | None:
            if run.last_event >= wanted:
                return True
            return None if run.is_running else False

        is_available = await self._coordinator.waits.wait_until(run, look, MAX_WAIT_SECONDS)
        return pb.WaitForHistoryEventResponse(
            event_available=is_available,
            available_internal_event_id=wanted if is_available else 0,
            flow_status=run.status,
        )

    async def get_flow_state(self, request: pb.GetFlowStateRequest) -> pb.GetFlowStateResponse:
        """Show the state of a run, open or closed."""
        run = await self._runs.find(request.flow_id, request.run_id)
        await self._coordinator.units.committer.wait_durable(run.last_sequence)
        response = build_flow_state(run)
        secrets: list[pb.KV] = []
        for attributes in (run.plain, *run.maps.values()):
            for key, attribute in attributes.items():
                entry = pb.KV(key=key, value=attribute.read_value())
                (secrets if attribute.is_secret else response.attributes).append(entry)
        # A hard-delete value must not be kept anywhere else.
        room = MAX_INLINE_BYTES - sum(secret.ByteSize() for secret in secrets)
        fit_reply(response, self._coordinator.large_values.keep, room)
        response.attributes.extend(secrets)
        return response


def _read_start(request: pb.GetHistoryEventsRequest) -> int:
    if request.start_internal_event_id < 0:
        raise invalid_argument("start_internal_event_id", "must not be negative")
    token = request.next_page_token
    if not token:
        return max(request.start_internal_event_id, 1)
    if not token.isdigit():
        raise invalid_argument("next_page_token", "is not a token of this method")
    return int(token)
