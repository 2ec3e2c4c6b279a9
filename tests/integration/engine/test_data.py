from __future__ import annotations

import contextlib
from pathlib import Path

import dex
import grpc
import pytest
from dex.dexpb import dex_pb2 as pb
from dex.dexpb import dex_pb2_grpc as pb_grpc

from tests.integration.engine.room import BOUND, AsyncStep, open_room

note = dex.Attribute("note", str)
secret = dex.Attribute("secret", str, hard_delete_on_null=True)
pages = dex.AttributeMap("pages", str)
inbox = dex.Channel("inbox", str)
go = dex.Channel("go", str)


class Write(AsyncStep[str]):
    def get_step_options(self) -> dex.StepOptions:
        return dex.StepOptions(execute_load_attribute_map_instances=(pages.load("1"),))

    def wait_for(self, context: dex.Context, input: str) -> dex.Wait:
        context.set_step_execution_local("from wait_for", input)
        pages.set(context, "1", "page one")
        pages.set(context, "2", "page two")
        return dex.Wait.until(go.for_one())

    async def execute(self, context: dex.AsyncContext, input: str) -> dex.StepDecision:
        kept = context.get_step_execution_local("from wait_for", str)
        loaded = pages.get(context, "1")
        with pytest.raises(dex.AttributeMapNotLoadedError):
            pages.get(context, "2")
        secret.delete(context)
        return dex.graceful_complete([kept, loaded, note.get(context), go.results(context)[0]])


class Data(dex.Flow[str]):
    def get_steps(self) -> dex.StepList[str]:
        return dex.StepList[str].start_step(Write())

    def get_persistence_schema(self) -> dex.PersistenceSchema:
        return dex.PersistenceSchema.of(note, secret, pages, inbox, go)

    @dex.rpc
    def proceed(self, context: dex.Context, text: str) -> None:
        go.publish(context, text)

    @dex.rpc
    def set_note(self, context: dex.Context, text: str) -> None:
        note.set(context, text)

    @dex.rpc
    def get_note(self, context: dex.Context) -> dex.RPCResult[str]:
        return dex.RPCResult(note.get(context))

    @dex.rpc
    def get_secret(self, context: dex.Context) -> dex.RPCResult[str]:
        return dex.RPCResult(secret.get(context) or "none")

    @dex.rpc(load_attribute_maps=(pages,))
    def page_beginnings(self, context: dex.Context) -> dex.RPCResult[list[str]]:
        keys = sorted(pages.get_all_instance_keys(context))
        return dex.RPCResult([pages.get(context, key)[:3] for key in keys])

    @dex.rpc(load_attribute_maps=(pages,))
    def all_pages(self, context: dex.Context) -> dex.RPCResult[list[str]]:
        keys = sorted(pages.get_all_instance_keys(context))
        return dex.RPCResult([pages.get(context, key) for key in keys])


flow = Data()


async def test_data_set_in_one_method_is_seen_in_the_next_and_by_rpcs(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        options = dex.StartFlowOptions().with_attribute(note, "remember")
        await room.client.start_flow(flow, "d", "local", options)
        await room.client.invoke_rpc(flow.proceed, "d", "go!")
        result = await room.client.wait_for_flow("d", BOUND)
        assert result.single_output(list[str]) == ["local", "page one", "remember", "go!"]
        assert await room.client.invoke_rpc(flow.all_pages, "d") == ["page one", "page two"]


async def test_values_above_the_blob_threshold_travel_every_way(tmp_path: Path) -> None:
    large = "ä" * 100_000
    async with open_room(tmp_path, flow) as room:
        await room.client.start_flow(flow, "d", large, dex.StartFlowOptions().with_attribute(note, large))
        await room.client.invoke_rpc(flow.proceed, "d", large)
        result = await room.client.wait_for_flow("d", BOUND)
        assert result.single_output(list[str]) == [large, "page one", large, large]


async def test_a_value_of_twenty_megabytes_does_not_hold_up_small_commits(tmp_path: Path) -> None:
    large = "x" * 20_000_000
    async with open_room(tmp_path, flow) as room:
        for number in range(20):
            await room.client.start_flow(flow, f"small-{number}", "s")
        await room.client.start_flow(flow, "large", "s", dex.StartFlowOptions().with_attribute(note, large))
        for number in range(20):
            await room.client.invoke_rpc(flow.set_note, f"small-{number}", "x")
        async with room.raw_stub() as stub:
            request = pb.GetAttributesRequest(flow_id="large", keys=["note"])
            (attribute,) = (await stub.GetAttributes(request)).attributes
            blob_id = attribute.value.internal_blob_id_for_string_value
            entry = pb.LoadBlobRequestEntry(flow_id="large", blob_value=attribute.value)
            loaded = await stub.LoadBlobs(pb.LoadBlobsRequest(entries=[entry]))
            assert loaded.values[blob_id].string_value == large


async def test_state_beyond_what_a_worker_can_receive_still_reaches_it(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room:
        await room.client.start_flow(flow, "d", "s")
        async with room.raw_stub() as stub:
            writes = [
                pb.AttributeWrite(
                    key=f"pages/{number:03}", value=pb.Value(string_value=f"{number:03}" * 9000)
                )
                for number in range(200)
            ]
            await stub.SetAttributes(pb.SetAttributesRequest(flow_id="d", attributes=writes))
        async with room.run_worker():
            beginnings = await room.client.invoke_rpc(flow.page_beginnings, "d")
            assert {f"{number:03}" for number in range(200)} <= set(beginnings)


async def test_a_blob_asked_for_as_the_other_kind_is_left_out(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        options = dex.StartFlowOptions().with_attribute(note, "x" * 50_000)
        await room.client.start_flow(flow, "d", "s", options)
        async with room.raw_stub() as stub:
            (attribute,) = (
                await stub.GetAttributes(pb.GetAttributesRequest(flow_id="d", keys=["note"]))
            ).attributes
            blob_id = attribute.value.internal_blob_id_for_string_value
            entries = [
                pb.LoadBlobRequestEntry(blob_value=pb.Value(internal_blob_id_for_obj_value=blob_id)),
                pb.LoadBlobRequestEntry(
                    blob_value=pb.Value(internal_blob_id_for_string_value="s" + "0" * 24)
                ),
                pb.LoadBlobRequestEntry(blob_value=pb.Value(internal_blob_id_for_string_value="junk")),
            ]
            assert not (await stub.LoadBlobs(pb.LoadBlobsRequest(entries=entries))).values


async def test_a_hard_deleted_value_leaves_the_files(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow) as room:
        options = dex.StartFlowOptions().with_attribute(secret, "sk-very-secret").with_attribute(note, "kept")
        await room.client.start_flow(flow, "d", "s", options)
        assert await room.client.invoke_rpc(flow.get_secret, "d") == "sk-very-secret"
        await room.client.invoke_rpc(flow.proceed, "d", "go")
        await room.client.wait_for_flow("d", BOUND)
        assert await room.client.invoke_rpc(flow.get_secret, "d") == "none"
    assert b"sk-very-secret" not in b"".join(file.read_bytes() for file in tmp_path.glob("engine.db*"))
    assert b"kept" in (tmp_path / "engine.db").read_bytes()


async def test_tools_read_and_write_without_a_worker(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room, room.raw_stub() as stub:
        await room.client.start_flow(flow, "d", "s")
        write = pb.AttributeWrite(key="note", value=pb.Value(string_value="by hand"))
        await stub.SetAttributes(pb.SetAttributesRequest(flow_id="d", attributes=[write]))
        read = await stub.GetAttributes(pb.GetAttributesRequest(flow_id="d", all_keys=True))
        assert [(each.key, each.value.string_value) for each in read.attributes] == [("note", "by hand")]
        message = pb.ChannelMessage(channel_name="inbox", value=pb.Value(string_value="hello"))
        await stub.PublishToChannel(pb.PublishToChannelRequest(flow_id="d", messages=[message, message]))
        listing = pb.GetChannelMessagesRequest(flow_id="d", channel_name="inbox")
        waiting = (await stub.GetChannelMessages(listing)).messages
        assert [each.value.string_value for each in waiting] == ["hello", "hello"]
        deletion = pb.DeleteChannelMessageRequest(
            flow_id="d", channel_name="inbox", message_id=waiting[0].message_id
        )
        await stub.DeleteChannelMessage(deletion)
        assert len((await stub.GetChannelMessages(listing)).messages) == 1
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.DeleteChannelMessage(deletion)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("method", "request_", "problem"),
    [
        ("StartFlow", pb.StartFlowRequest(flow_id="a/b", flow_type="T"), "flow_id: must not contain"),
        ("StartFlow", pb.StartFlowRequest(flow_id="", flow_type="T"), "flow_id: must not be empty"),
        ("StartFlow", pb.StartFlowRequest(flow_id="x" * 1001, flow_type="T"), "limit of 1000"),
        ("StartFlow", pb.StartFlowRequest(flow_id="a"), "flow_type: must not be empty"),
        (
            "StartFlow",
            pb.StartFlowRequest(flow_id="a", flow_type="T", start_step_type="a:b"),
            "start_step_type",
        ),
        ("StartFlow", pb.StartFlowRequest(flow_id="a", flow_type="T", flow_timeout_seconds=-1), "negative"),
        ("WriteStream", pb.WriteStreamRequest(source="", flow_id="a"), "source: must not be empty"),
        ("ReadStream", pb.ReadStreamRequest(resume_token="x"), "resume_token: is not a token"),
        ("ListStreamMessages", pb.ListStreamMessagesRequest(page_size=-1), "page_size"),
        ("SearchFlows", pb.SearchFlowsRequest(query="="), "query: a key is expected"),
        ("SearchFlows", pb.SearchFlowsRequest(next_page_token="x"), "next_page_token: is not a token"),
        ("InvokeRPC", pb.InvokeRPCRequest(flow_id="a"), "rpc_name: must not be empty"),
        ("InvokeRPC", pb.InvokeRPCRequest(flow_id="a", rpc_name="r"), "input: a value must be set"),
        ("WaitForAttribute", pb.WaitForAttributeRequest(flow_id="a"), "match.key: must not be empty"),
        (
            "WaitForStepCompletion",
            pb.WaitForStepCompletionRequest(flow_id="a", step_execution_number="0"),
            "step_execution_number: must be a positive number",
        ),
    ],
)
async def test_bad_input_is_refused_with_the_field_and_the_rule(
    tmp_path: Path, method: str, request_: object, problem: str
) -> None:
    async with open_room(tmp_path, flow, workers=0) as room, room.raw_stub() as stub:
        with pytest.raises(grpc.aio.AioRpcError, match=problem) as caught:
            await getattr(stub, method)(request_)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_method_that_is_not_served_says_so_by_name(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room, room.raw_stub() as stub:
        with pytest.raises(grpc.aio.AioRpcError, match="does not serve ResetFlow") as caught:
            await stub.ResetFlow(pb.ResetFlowRequest(flow_id="d"))
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_search_key_cannot_change_its_type(tmp_path: Path) -> None:
    async with open_room(tmp_path, flow, workers=0) as room, room.raw_stub() as stub:
        await stub.SyncAttributeIndexes(
            pb.SyncAttributeIndexRequest(attribute_indexes={"Status": pb.INDEX_TYPE_KEYWORD})
        )
        with pytest.raises(grpc.aio.AioRpcError, match="'Status' is INDEX_TYPE_KEYWORD") as caught:
            await stub.SyncAttributeIndexes(
                pb.SyncAttributeIndexRequest(attribute_indexes={"Status": pb.INDEX_TYPE_INT})
            )
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_every_method_of_the_service_is_registered() -> None:
    methods = {name for name in vars(pb_grpc.FlowServiceServicer) if not name.startswith("_")}
    assert methods == set(pb.DESCRIPTOR.services_by_name["FlowService"].methods_by_name)


@pytest.mark.requirement("engine-strangers")
@pytest.mark.parametrize("method", ["StartFlow", "InvokeRPC", "WaitForFlow", "LoadBlobs", "WriteStream"])
async def test_bytes_that_are_no_message_are_refused(tmp_path: Path, method: str) -> None:
    async with open_room(tmp_path, workers=0) as room, grpc.aio.insecure_channel(room.address) as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"/dex.FlowService/{method}"
        )
        with pytest.raises(grpc.aio.AioRpcError, match="not a message of this method") as caught:
            await call(b"\xff\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("frames", "problem"),
    [
        ([b"\xff\xff"], "the bytes are not a frame"),
        ([b""], "the first one must be a registration"),
        (
            [pb.PollWorkerTaskRequest(pong=pb.PollWorkerTaskPong()).SerializeToString()],
            "must be a registration",
        ),
        (
            [pb.PollWorkerTaskRequest(register=pb.PollWorkerTaskRegister(queue="q")).SerializeToString()],
            "queue and app_worker_id must not be empty",
        ),
        (
            [
                pb.PollWorkerTaskRequest(
                    register=pb.PollWorkerTaskRegister(queue="q", app_worker_id="w")
                ).SerializeToString(),
                b"\xff\xff",
            ],
            "the bytes are not a frame",
        ),
    ],
)
async def test_a_worker_that_sends_nonsense_is_cut_off(
    tmp_path: Path, frames: list[bytes], problem: str
) -> None:
    async with open_room(tmp_path, workers=0) as room, grpc.aio.insecure_channel(room.address) as channel:
        poll: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            "/dex.WorkerTaskService/PollWorkerTask"
        )
        call = poll()
        for frame in frames:
            await call.write(frame)
        with contextlib.suppress(grpc.aio.AioRpcError):
            # A status comes behind the messages before it.
            while await call.read():
                pass
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert problem in str(await call.details())
        assert await room.client.health_check()
