"""The real engine, behind gRPC and on a file, does what a plain model of it does."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc as pb_grpc
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dex_agents.engine import LocalEngine, check_database

FLOWS = ("f", "g")
CHANNELS = ("inbox", "map/1")
KEYS = ("name", "map/1", "map/2")
TIMEOUT = 30.0

flow_ids = st.sampled_from(FLOWS)
LARGE = "x" * 40_000


@st.composite
def values(draw: st.DrawFn) -> pb.Value:
    kind = draw(st.sampled_from(["number", "short", "large"]))
    number = draw(st.integers(-9, 9))
    if kind == "number":
        return pb.Value(int_value=number)
    return pb.Value(string_value=f"{number}" if kind == "short" else f"{number}{LARGE}")


policies = st.sampled_from(
    [
        pb.ID_REUSE_POLICY_ALLOW_IF_NO_RUNNING,
        pb.ID_REUSE_POLICY_ALLOW_TERMINATE_IF_RUNNING,
        pb.ID_REUSE_POLICY_ALLOW_IF_PREVIOUS_EXISTS_ABNORMALLY,
        pb.ID_REUSE_POLICY_DISALLOW_REUSE,
    ]
)


@dataclass
class ModelRun:
    run_id: str
    events: list[str]
    status: int = pb.FLOW_STATUS_RUNNING
    attributes: dict[str, pb.Value] = field(default_factory=dict[str, pb.Value])
    channels: dict[str, list[pb.Value]] = field(default_factory=dict[str, list[pb.Value]])


class EngineAgainstModel(RuleBasedStateMachine):
    """Commands of clients and operators, without a Worker."""

    @initialize(kept=st.sampled_from([0, 1, 100]), history_events=st.sampled_from([1, 3, 1000]))
    def begin(self, kept: int, history_events: int) -> None:
        self.history_events = history_events
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "engine.db"
        self._engine = LocalEngine(
            self._path,
            listen=f"unix:{self._folder.name}/engine.sock",
            synchronous="normal",
            runs_in_memory=kept,
            history_events=history_events,
        )
        self.runs: dict[str, list[ModelRun]] = {flow_id: [] for flow_id in FLOWS}
        self.streams: dict[str, list[pb.Value]] = {flow_id: [] for flow_id in FLOWS}
        self._start()

    def teardown(self) -> None:
        if hasattr(self, "_engine"):
            self._stop()
            assert check_database(self._path).problems == ()
            self._folder.cleanup()

    # Commands

    @rule(flow_id=flow_ids, policy=policies, name=values())
    def start(self, flow_id: str, policy: pb.IdReusePolicy, name: pb.Value) -> None:
        request = pb.StartFlowRequest(flow_id=flow_id, flow_type="Flow", request_id="")
        request.flow_start_options.id_reuse_policy = policy
        request.flow_start_options.attributes.add(key="name").value.CopyFrom(name)
        previous = self.runs[flow_id][-1] if self.runs[flow_id] else None
        if previous is not None and not self._may_start_again(previous, policy):
            assert self._refuse("StartFlow", request) is grpc.StatusCode.ALREADY_EXISTS
            return
        if previous is not None and previous.status == pb.FLOW_STATUS_RUNNING:
            previous.status = pb.FLOW_STATUS_TERMINATED
            previous.events.append("flow_closed")
        response = self._call("StartFlow", request)
        self.runs[flow_id].append(
            ModelRun(response.run_id, ["flow_started_or_continued"], attributes={"name": name})
        )

    @rule(flow_id=flow_ids, kind=st.sampled_from([pb.STOP_TYPE_CANCEL, pb.STOP_TYPE_FAIL]))
    def stop(self, flow_id: str, kind: pb.StopType) -> None:
        request = pb.StopFlowRequest(flow_id=flow_id, stop_type=kind)
        run = self._running(flow_id)
        if run is None:
            assert self._refuse("StopFlow", request) is grpc.StatusCode.NOT_FOUND
            return
        self._call("StopFlow", request)
        run.events.append("flow_closed")
        canceled = kind == pb.STOP_TYPE_CANCEL
        run.status = pb.FLOW_STATUS_CANCELED if canceled else pb.FLOW_STATUS_FAILED

    @rule(flow_id=flow_ids, key=st.sampled_from(KEYS), value=st.one_of(st.none(), values()))
    def set_attribute(self, flow_id: str, key: str, value: pb.Value | None) -> None:
        request = pb.SetAttributesRequest(flow_id=flow_id)
        written = value or pb.Value(null_value="NULL_VALUE")
        request.attributes.add(key=key).value.CopyFrom(written)
        run = self._running(flow_id)
        if run is None:
            assert self._refuse("SetAttributes", request) is grpc.StatusCode.NOT_FOUND
            return
        self._call("SetAttributes", request)
        run.events.append("rpc_execution_completed")
        if value is None:
            run.attributes.pop(key, None)
        else:
            run.attributes[key] = value

    @rule(
        flow_id=flow_ids,
        channel=st.sampled_from(CHANNELS),
        published=st.lists(values(), min_size=1, max_size=3),
    )
    def publish(self, flow_id: str, channel: str, published: Sequence[pb.Value]) -> None:
        request = pb.PublishToChannelRequest(flow_id=flow_id)
        for value in published:
            request.messages.add(channel_name=channel).value.CopyFrom(value)
        run = self._running(flow_id)
        if run is None:
            assert self._refuse("PublishToChannel", request) is grpc.StatusCode.NOT_FOUND
            return
        self._call("PublishToChannel", request)
        run.events.append("channel_external_publish")
        run.channels.setdefault(channel, []).extend(published)

    @rule(flow_id=flow_ids, channel=st.sampled_from(CHANNELS), place=st.integers(0, 3))
    def delete_message(self, flow_id: str, channel: str, place: int) -> None:
        run = self._running(flow_id)
        waiting = [] if run is None else run.channels.get(channel, [])
        request = pb.DeleteChannelMessageRequest(flow_id=flow_id, channel_name=channel, message_id="none")
        if place >= len(waiting):
            assert self._refuse("DeleteChannelMessage", request) is grpc.StatusCode.NOT_FOUND
            return
        listed = pb.GetChannelMessagesRequest(flow_id=flow_id, channel_name=channel)
        request.message_id = self._call("GetChannelMessages", listed).messages[place].message_id
        self._call("DeleteChannelMessage", request)
        del waiting[place]
        self.runs[flow_id][-1].events.append("channel_external_delete")
        assert self._refuse("DeleteChannelMessage", request) is grpc.StatusCode.NOT_FOUND

    @rule(flow_id=flow_ids, value=values())
    def write_stream(self, flow_id: str, value: pb.Value) -> None:
        request = pb.WriteStreamRequest(
            flow_id=flow_id, flow_type="Flow", stream_name="tokens", source="test", value=value
        )
        request.stream_capacity_bytes = 10_000_000
        self._call("WriteStream", request)
        self.streams[flow_id].append(value)

    @rule()
    def restart(self) -> None:
        self._stop()
        self._start()

    @rule()
    def search(self) -> None:
        """Everything committed is found; the fold that makes it so also lets idle runs leave memory."""
        found = self._call("SearchFlows", pb.SearchFlowsRequest(query="ExecutionStatus = 'Running'"))
        running = {
            run.run_id for runs in self.runs.values() for run in runs if run.status == pb.FLOW_STATUS_RUNNING
        }
        assert {entry.run_id for entry in found.flow_runs} == running

    # What must agree

    @pytest.mark.requirement("engine-model")
    @invariant()
    def every_run_looks_like_its_model(self) -> None:
        for flow_id, runs in self.runs.items():
            for run in runs:
                summary = self._call(
                    "GetFlowSummary", pb.GetFlowSummaryRequest(flow_id=flow_id, run_id=run.run_id)
                )
                assert summary.flow_status == run.status
            if runs:
                self._compare(flow_id, runs[-1])

    @pytest.mark.requirement("engine-history")
    @invariant()
    def history_is_the_last_of_what_happened(self) -> None:
        for flow_id, runs in self.runs.items():
            for run in runs:
                request = pb.GetHistoryEventsRequest(flow_id=flow_id, run_id=run.run_id)
                events = self._call("GetHistoryEvents", request).events
                assert len(events) >= min(len(run.events), self.history_events)
                first = len(run.events) - len(events) + 1
                assert [event.event_id for event in events] == list(range(first, len(run.events) + 1))
                assert [event.WhichOneof("payload") for event in events] == run.events[first - 1 :]

    @invariant()
    def every_stream_holds_what_was_written(self) -> None:
        for flow_id, written in self.streams.items():
            request = pb.ListStreamMessagesRequest(flow_id=flow_id, flow_type="Flow", stream_name="tokens")
            listed = self._call("ListStreamMessages", request).messages
            assert [message.value for message in reversed(listed)] == written

    def _compare(self, flow_id: str, run: ModelRun) -> None:
        found = self._call("GetAttributes", pb.GetAttributesRequest(flow_id=flow_id, all_keys=True))
        assert {each.key: self._resolve(flow_id, each.value) for each in found.attributes} == run.attributes
        for channel in CHANNELS:
            request = pb.GetChannelMessagesRequest(flow_id=flow_id, channel_name=channel)
            messages = self._call("GetChannelMessages", request).messages
            assert [self._resolve(flow_id, each.value) for each in messages] == run.channels.get(channel, [])

    def _resolve(self, flow_id: str, value: pb.Value) -> pb.Value:
        blob_id = value.internal_blob_id_for_string_value
        if not blob_id:
            return value
        request = pb.LoadBlobsRequest()
        entry = request.entries.add(flow_id=flow_id)
        entry.blob_value.CopyFrom(value)
        loaded: pb.Value = self._call("LoadBlobs", request).values[blob_id]
        return loaded

    def _may_start_again(self, previous: ModelRun, policy: pb.IdReusePolicy) -> bool:
        if policy == pb.ID_REUSE_POLICY_ALLOW_TERMINATE_IF_RUNNING:
            return True
        # No run of the model completes, so each that is closed ended abnormally.
        return previous.status != pb.FLOW_STATUS_RUNNING and policy != pb.ID_REUSE_POLICY_DISALLOW_REUSE

    def _running(self, flow_id: str) -> ModelRun | None:
        run = self.runs[flow_id][-1] if self.runs[flow_id] else None
        return run if run is not None and run.status == pb.FLOW_STATUS_RUNNING else None

    def _call(self, method: str, request: Any) -> Any:
        return getattr(self._stub, method)(request, timeout=TIMEOUT)

    def _refuse(self, method: str, request: Any) -> grpc.StatusCode:
        with pytest.raises(grpc.RpcError) as caught:
            self._call(method, request)
        return caught.value.code()

    def _start(self) -> None:
        asyncio.run(self._engine.start())
        self._channel = grpc.insecure_channel(self._engine.server_address)
        self._stub: Any = pb_grpc.FlowServiceStub(self._channel)

    def _stop(self) -> None:
        self._channel.close()
        asyncio.run(self._engine.stop())


TestEngine = EngineAgainstModel.TestCase
TestEngine.settings = settings(
    max_examples=max(20, settings().max_examples // 1000), stateful_step_count=20, deadline=None
)
