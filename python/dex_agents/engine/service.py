"""The gRPC methods: translate, call, answer."""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from dex.dexpb import dex_pb2 as pb
from google.protobuf import empty_pb2
from google.protobuf.message import DecodeError

from dex_agents.engine.archive import Archive
from dex_agents.engine.attribute_match import find_match, validate_match
from dex_agents.engine.coordinator import Coordinator
from dex_agents.engine.failures import (
    ServiceError,
    build_status,
    flow_not_found,
    internal,
    invalid_argument,
    unimplemented,
)
from dex_agents.engine.flow_waits import FlowWaits
from dex_agents.engine.inspection import Inspection
from dex_agents.engine.machine import (
    apply_attribute_change,
    apply_channel_change,
    apply_config,
    apply_skip_timer,
    apply_stop,
)
from dex_agents.engine.requests import build_channel_message
from dex_agents.engine.search import search_runs
from dex_agents.engine.state import Run
from dex_agents.engine.store.reader import StreamMessageRow
from dex_agents.engine.streams import StreamKey, Streams
from dex_agents.engine.transport.calls import CallFailedError, OpenCall, UnaryCall
from dex_agents.engine.values import BlobKind, BlobNumbers, validate_flow_id, validate_value
from dex_agents.engine.worker_streams import WorkerStreams

SERVER_VERSION = "dex-agents-engine"
OLDEST_PROTOCOL_VERSION = 1
PROTOCOL_VERSION = 3

MAX_STREAM_WAIT_SECONDS = 60

_LOGGER = logging.getLogger(__name__)
_EMPTY = empty_pb2.Empty()


class FlowService:
    """`dex.FlowService` over a `Coordinator`.

    Every method that changes something answers after its commit, so what a caller was told survives the end
    of this process.
    """

    def __init__(
        self, coordinator: Coordinator, streams: Streams, archive: Archive, numbers: BlobNumbers
    ) -> None:
        self._coordinator = coordinator
        self._units = coordinator.units
        self._runs = coordinator.runs
        self._streams = streams
        self._archive = archive
        self._numbers = numbers
        self._large_replies = coordinator.large_values
        self._flow_waits = FlowWaits(coordinator.waits, coordinator.runs)

    # The Worker's and the client's handshake

    async def get_server_info(self, _request: empty_pb2.Empty) -> pb.ServerInfo:
        """Answer with the protocol versions that are spoken."""
        return pb.ServerInfo(
            server_version=SERVER_VERSION,
            minimum_supported_protocol_version=OLDEST_PROTOCOL_VERSION,
            current_protocol_version=PROTOCOL_VERSION,
        )

    async def health_check(self, _request: empty_pb2.Empty) -> pb.HealthInfo:
        """Answer that the engine serves."""
        return pb.HealthInfo(condition="OK", hostname=socket.gethostname())

    async def sync_attribute_indexes(
        self, request: pb.SyncAttributeIndexRequest
    ) -> pb.SyncAttributeIndexResponse:
        """Register the search keys of a Worker."""
        unit = self._coordinator.sync_index_types(
            {key: int(index_type) for key, index_type in request.attribute_indexes.items()}
        )
        await self._units.commit_durably(unit)
        return pb.SyncAttributeIndexResponse()

    async def load_blobs(self, request: pb.LoadBlobsRequest) -> pb.LoadBlobsResponse:
        """Load payloads; an ID that is unknown or of the other kind is left out."""
        wanted: dict[str, tuple[BlobKind, int]] = {}
        response = pb.LoadBlobsResponse()
        for entry in request.entries:
            value = entry.blob_value
            kind: BlobKind = (
                "string" if value.WhichOneof("kind") == "internal_blob_id_for_string_value" else "object"
            )
            blob_id = value.internal_blob_id_for_string_value or value.internal_blob_id_for_obj_value
            parsed = self._numbers.parse_id(blob_id)
            if parsed is not None and parsed[0] == kind:
                wanted[blob_id] = parsed
            elif (reply := self._large_replies.find(value)) is not None:
                response.values[blob_id].CopyFrom(reply)
        payloads = await self._archive.load_blobs(list(wanted.values()))
        for (blob_id, (kind, _)), payload in zip(wanted.items(), payloads, strict=True):
            if payload is None:
                continue
            if kind == "string":
                response.values[blob_id].string_value = payload.decode()
            else:
                response.values[blob_id].obj_value.MergeFromString(payload)
        return response

    # Flows

    async def start_flow(self, request: pb.StartFlowRequest) -> pb.StartFlowResponse:
        """Start a run."""
        validate_flow_id(request.flow_id)
        if not request.flow_type:
            raise invalid_argument("flow_type", "must not be empty")
        options = request.flow_start_options
        if options.flow_config_override.worker_target.address:
            raise invalid_argument(
                "worker_target.address",
                "the local engine serves Workers that pull; use WorkerTarget(pull=True)",
            )
        run = await self._coordinator.start_run(request)
        return pb.StartFlowResponse(run_id=run.run_id)

    async def stop_flow(self, request: pb.StopFlowRequest) -> empty_pb2.Empty:
        """Close an open run from outside."""
        run = await self._runs.find_open(request.flow_id, request.run_id)
        unit = self._units.open()
        apply_stop(run, request.stop_type, request.reason, unit, self._units.now())
        await self._units.commit_durably(unit)
        return _EMPTY

    async def wait_for_flow(self, request: pb.WaitForFlowRequest) -> pb.FlowResult:
        """Wait until a run is closed, or without a run ID the last of a retried Flow; tell how it ended."""
        run = await self._runs.find(request.flow_id, request.run_id)
        seconds = _require_wait("wait_time_seconds", request.wait_time_seconds)
        run, _ = await self._flow_waits.wait_until(
            run, lambda _run: None, seconds, is_pinned=bool(request.run_id)
        )
        return pb.FlowResult(
            flow_status=run.status,
            results=run.outputs if request.needs_results else (),
            error_type=run.error_type,
            error_message=run.error_message,
        )

    async def get_flow_summary(self, request: pb.GetFlowSummaryRequest) -> pb.GetFlowSummaryResponse:
        """Describe a run."""
        run = await self._runs.find(request.flow_id, request.run_id)
        await self._units.committer.wait_durable(run.last_sequence)
        response = pb.GetFlowSummaryResponse(
            flow_execution_id=pb.FlowExecutionID(flow_id=run.flow_id, run_id=run.run_id),
            first_run_id=run.first_run_id,
            request_id=run.request_id,
            flow_type=run.flow_type,
            flow_status=run.status,
            run_attempt=run.run_attempt,
        )
        response.start_time.FromNanoseconds(int(run.started_at * 1e9))
        if run.closed_at is not None:
            response.close_time.FromNanoseconds(int(run.closed_at * 1e9))
        return response

    async def search_flows(self, request: pb.SearchFlowsRequest) -> pb.SearchFlowsResponse:
        """Find runs; everything committed before the call is seen."""
        await self._units.committer.wait_folded()
        return await search_runs(request, self._units.index_types, self._archive)

    async def update_flow_config(self, request: pb.UpdateFlowConfigRequest) -> empty_pb2.Empty:
        """Merge fields into the configuration of an open run."""
        run = await self._runs.find_open(request.flow_id, request.run_id)
        unit = self._units.open()
        apply_config(run, request.flow_config, unit)
        await self._units.commit_durably(unit)
        return _EMPTY

    async def trigger_continue_as_new(self, request: pb.TriggerContinueAsNewRequest) -> empty_pb2.Empty:
        """Do nothing: a run has no history here that could grow too long."""
        await self._runs.find_open(request.flow_id, request.run_id)
        return _EMPTY

    async def skip_timer(self, request: pb.SkipTimerRequest) -> empty_pb2.Empty:
        """End a Timer early."""
        run = await self._runs.find_open(request.flow_id, request.run_id)
        unit = self._units.open()
        apply_skip_timer(run, request, unit, self._units.now())
        await self._units.commit_durably(unit)
        return _EMPTY

    # RPCs and waits

    async def invoke_rpc(self, request: pb.InvokeRPCRequest) -> pb.InvokeRPCResponse:
        """Let a Worker answer an RPC."""
        if not request.rpc_name:
            raise invalid_argument("rpc_name", "must not be empty")
        validate_value(request.input, "input")
        _require_wait("timeout_seconds", request.timeout_seconds)
        result = await self._coordinator.rpc_calls.invoke(request)
        response = pb.InvokeRPCResponse()
        if result.HasField("output"):
            response.output.CopyFrom(self._large_replies.wrap(result.output))
        return response

    async def wait_for_step_completion(
        self, request: pb.WaitForStepCompletionRequest
    ) -> pb.WaitForStepCompletionResponse:
        """Wait until an execution has ended, in whichever way."""
        if not request.step_execution_number.isdecimal() or int(request.step_execution_number) < 1:
            raise invalid_argument("step_execution_number", "must be a positive number")
        number = int(request.step_execution_number)
        execution_id = f"{request.step_type}-{number}"
        run = await self._runs.find(request.flow_id)
        seconds = _require_wait("request_timeout_seconds", request.request_timeout_seconds)

        def look(run: Run) -> bool | None:
            is_started = run.started_counts.get(request.step_type, 0) >= number
            return True if is_started and run.find_execution(execution_id) is None else None

        run, seen = await self._flow_waits.wait_until(run, look, seconds)
        if seen is None:
            raise flow_not_found(run.flow_id)
        return pb.WaitForStepCompletionResponse()

    async def wait_for_attribute(self, request: pb.WaitForAttributeRequest) -> pb.WaitForAttributeResponse:
        """Wait until an Attribute matches."""
        validate_match(request.match)
        run = await self._runs.find_open(request.flow_id)
        seconds = _require_wait("request_timeout_seconds", request.request_timeout_seconds)

        run, value = await self._flow_waits.wait_until(
            run, lambda run: find_match(run, request.match), seconds
        )
        if value is None:
            raise flow_not_found(run.flow_id)
        return pb.WaitForAttributeResponse(matched_value=value)

    # Attributes and Channels, for tools that are not Workers

    async def get_attributes(self, request: pb.GetAttributesRequest) -> pb.GetAttributesResponse:
        """Read Attributes."""
        run = await self._runs.find(request.flow_id, request.run_id)
        await self._units.committer.wait_durable(run.last_sequence)
        response = pb.GetAttributesResponse()
        for key in _list_keys(run) if request.all_keys else request.keys:
            attribute = run.find_attribute(key)
            if attribute is not None:
                response.attributes.add(key=key).value.CopyFrom(attribute.read_value())
        return response

    async def set_attributes(self, request: pb.SetAttributesRequest) -> empty_pb2.Empty:
        """Write Attributes."""
        run = await self._runs.find_open(request.flow_id, request.run_id)
        unit = self._units.open()
        apply_attribute_change(run, request.attributes, unit, self._units.now())
        await self._units.commit_durably(unit)
        return _EMPTY

    async def publish_to_channel(self, request: pb.PublishToChannelRequest) -> empty_pb2.Empty:
        """Publish messages."""
        run = await self._runs.find_open(request.flow_id, request.run_id)
        unit = self._units.open()
        apply_channel_change(run, request.messages, (), unit, self._units.now())
        await self._units.commit_durably(unit)
        return _EMPTY

    async def get_channel_messages(
        self, request: pb.GetChannelMessagesRequest
    ) -> pb.GetChannelMessagesResponse:
        """List the messages that wait in a Channel."""
        run = await self._runs.find(request.flow_id, request.run_id)
        await self._units.committer.wait_durable(run.last_sequence)
        waiting = run.channels.get(request.channel_name, ())
        return pb.GetChannelMessagesResponse(
            messages=[build_channel_message(request.channel_name, message) for message in waiting]
        )

    async def delete_channel_message(self, request: pb.DeleteChannelMessageRequest) -> empty_pb2.Empty:
        """Delete a waiting message."""
        run = await self._runs.find_open(request.flow_id, request.run_id)
        unit = self._units.open()
        deletion = pb.ChannelMessageDeletion(channel_name=request.channel_name, message_id=request.message_id)
        apply_channel_change(run, (), (deletion,), unit, self._units.now())
        await self._units.commit_durably(unit)
        return _EMPTY

    # Streams

    async def write_stream(self, request: pb.WriteStreamRequest) -> empty_pb2.Empty:
        """Append a message to a stream."""
        if not request.source:
            raise invalid_argument("source", "must not be empty")
        unit = self._units.open()
        self._streams.append(
            StreamKey(request.flow_type, request.stream_name, request.flow_id),
            request.value,
            unit,
            capacity=request.stream_capacity_bytes,
            source=request.source,
            now=self._units.now(),
        )
        await self._units.commit_durably(unit)
        return _EMPTY

    async def read_stream(self, request: pb.ReadStreamRequest) -> pb.ReadStreamResponse:
        """Return the next message of a stream."""
        seconds = _require_wait("wait_time_seconds", request.wait_time_seconds)
        message = await self._streams.read(
            StreamKey(request.flow_type, request.stream_name, request.flow_id),
            request.resume_token,
            min(seconds, MAX_STREAM_WAIT_SECONDS),
        )
        response = pb.ReadStreamResponse()
        _fill_stream_message(response.message, message)
        return response

    async def list_stream_messages(
        self, request: pb.ListStreamMessagesRequest
    ) -> pb.ListStreamMessagesResponse:
        """List messages of a stream, newest first."""
        page, token = await self._streams.list_before(
            StreamKey(request.flow_type, request.stream_name, request.flow_id),
            request.page_size,
            request.before_page_token,
        )
        response = pb.ListStreamMessagesResponse(next_page_token=token)
        for message in page:
            _fill_stream_message(response.messages.add(), message)
        return response


def build_methods(
    service: FlowService, inspection: Inspection, worker_streams: WorkerStreams
) -> dict[str, OpenCall]:
    """Return by path every method of `dex.FlowService`, those that are not served included, and the Workers'
    streams.
    """
    served: dict[str, tuple[Callable[[Any], Awaitable[Any]], Any]] = {
        "GetServerInfo": (service.get_server_info, empty_pb2.Empty),
        "HealthCheck": (service.health_check, empty_pb2.Empty),
        "SyncAttributeIndexes": (service.sync_attribute_indexes, pb.SyncAttributeIndexRequest),
        "LoadBlobs": (service.load_blobs, pb.LoadBlobsRequest),
        "StartFlow": (service.start_flow, pb.StartFlowRequest),
        "StopFlow": (service.stop_flow, pb.StopFlowRequest),
        "WaitForFlow": (service.wait_for_flow, pb.WaitForFlowRequest),
        "GetFlowSummary": (service.get_flow_summary, pb.GetFlowSummaryRequest),
        "SearchFlows": (service.search_flows, pb.SearchFlowsRequest),
        "UpdateFlowConfig": (service.update_flow_config, pb.UpdateFlowConfigRequest),
        "TriggerContinueAsNew": (service.trigger_continue_as_new, pb.TriggerContinueAsNewRequest),
        "SkipTimer": (service.skip_timer, pb.SkipTimerRequest),
        "InvokeRPC": (service.invoke_rpc, pb.InvokeRPCRequest),
        "WaitForStepCompletion": (service.wait_for_step_completion, pb.WaitForStepCompletionRequest),
        "WaitForAttribute": (service.wait_for_attribute, pb.WaitForAttributeRequest),
        "GetAttributes": (service.get_attributes, pb.GetAttributesRequest),
        "SetAttributes": (service.set_attributes, pb.SetAttributesRequest),
        "PublishToChannel": (service.publish_to_channel, pb.PublishToChannelRequest),
        "GetChannelMessages": (service.get_channel_messages, pb.GetChannelMessagesRequest),
        "DeleteChannelMessage": (service.delete_channel_message, pb.DeleteChannelMessageRequest),
        "WriteStream": (service.write_stream, pb.WriteStreamRequest),
        "ReadStream": (service.read_stream, pb.ReadStreamRequest),
        "GetHistoryEvents": (inspection.get_history_events, pb.GetHistoryEventsRequest),
        "WaitForHistoryEvent": (inspection.wait_for_history_event, pb.WaitForHistoryEventRequest),
        "GetFlowState": (inspection.get_flow_state, pb.GetFlowStateRequest),
        "ListStreamMessages": (service.list_stream_messages, pb.ListStreamMessagesRequest),
    }
    package = pb.DESCRIPTOR.package
    methods: dict[str, OpenCall] = {f"/{package}.WorkerTaskService/PollWorkerTask": worker_streams.open}
    for name in pb.DESCRIPTOR.services_by_name["FlowService"].methods_by_name:
        call, request_type = served.get(name, (_refuse(name), empty_pb2.Empty))
        methods[f"/{package}.FlowService/{name}"] = _unary(name, call, request_type)
    return methods


def _unary(name: str, call: Callable[[Any], Awaitable[Any]], request_type: Any) -> OpenCall:
    async def answer(message: bytes) -> bytes:
        try:
            response: bytes = (await call(_parse(request_type, message))).SerializeToString()
        except ServiceError as failure:
            raise CallFailedError(build_status(failure)) from None
        except Exception as error:
            _LOGGER.exception("%s failed", name)
            defect = internal(f"{name} failed inside the engine; its log says why")
            raise CallFailedError(build_status(defect)) from error
        return response

    return lambda opened: UnaryCall(opened, answer)


def _parse(request_type: Any, message: bytes) -> Any:
    try:
        return request_type.FromString(message)
    except DecodeError:
        raise invalid_argument("request", "the bytes are not a message of this method") from None


def _refuse(name: str) -> Callable[[Any], Awaitable[Any]]:
    async def refuse(_request: empty_pb2.Empty) -> empty_pb2.Empty:
        raise unimplemented(name)

    return refuse


def _require_wait(field: str, seconds: int) -> float:
    if seconds < 0:
        raise invalid_argument(field, "must not be negative")
    return float(seconds)


def _list_keys(run: Run) -> list[str]:
    return [*run.plain, *(key for instances in run.maps.values() for key in instances)]


def _fill_stream_message(message: pb.StreamMessage, row: StreamMessageRow) -> None:
    message.value.MergeFromString(row.value)
    message.resume_token = str(row.sequence)
    message.source = row.source
    message.created_time.FromNanoseconds(int(row.created_at * 1e9))
