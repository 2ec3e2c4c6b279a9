"""A real HTTP server that speaks as the providers of models do, follows a script and fails on demand."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

from dex_agents.builtin_loop.json_values import is_json_object
from dex_agents.testing.model_replies import ModelApi, ModelServerError, ModelServerReply
from dex_agents.testing.model_streams import StreamEvent, build_stream, encode_event

__all__ = ["ModelServer", "ModelServerAnswer", "ModelServerRequest"]

ModelServerAnswer = ModelServerReply | ModelServerError
"""What a script may answer."""

_APIS: Final[dict[str, ModelApi]] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat_completions",
    "/v1/messages": "messages",
}
_LONGEST_HEAD: Final = 64 * 1024


@dataclass(frozen=True)
class ModelServerRequest:
    """A request as it came.

    Attributes:
        number: Which one, from 1.
        api: The API that its path names.
        headers: With names in lower case. A key that was sent is among them.
        body: The JSON object.
        hung_up: Set when the client closed the connection before the answer was over.
    """

    number: int
    api: ModelApi
    headers: Mapping[str, str]
    body: dict[str, Any]
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)


class ModelServer:
    """Answers the Responses, Chat Completions and Messages APIs, streaming, on a port of its own.

    It checks nothing that a provider would check and keeps every request, so that a test can look at what was
    sent::

        script = [ModelServerError(status=429, retry_after="2"), ModelServerReply(text="Hi")]
        async with ModelServer(script) as server:
            client = OpenAIModelClient("any", base_url=server.openai_base_url)
            ...
            assert len(server.requests) == 2
    """

    def __init__(
        self,
        script: Sequence[ModelServerAnswer]
        | Callable[[ModelServerRequest], ModelServerAnswer | Awaitable[ModelServerAnswer]],
    ) -> None:
        """Take the script; the context starts the server.

        Args:
            script: Answers in order, after which every request gets the status 400; or a function, sync or
                async, that answers each request.
        """
        self._script = script
        self._requests: list[ModelServerRequest] = []
        self._arrived = asyncio.Condition()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._address = ""

    @property
    def openai_base_url(self) -> str:
        """For clients of the `openai` SDK."""
        return f"{self._address}/v1"

    @property
    def anthropic_base_url(self) -> str:
        """For clients of the `anthropic` SDK, which adds `/v1` itself."""
        return self._address

    @property
    def requests(self) -> Sequence[ModelServerRequest]:
        """Every request so far, failed ones included."""
        return tuple(self._requests)

    async def wait_for_requests(self, count: int, *, timeout: float = 30.0) -> Sequence[ModelServerRequest]:
        """Wait until this many requests came.

        Args:
            count: How many.
            timeout: Seconds to wait.

        Raises:
            TimeoutError: They did not come in time.
        """
        async with asyncio.timeout(timeout), self._arrived:
            await self._arrived.wait_for(lambda: len(self._requests) >= count)
        return self.requests

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_LONGEST_HEAD)
        self._address = "http://{}:{}".format(*self._server.sockets[0].getsockname()[:2])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # The client is gone, or speaks no HTTP.
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path, headers, content = await _read_request(reader)
        api = _APIS.get(path)
        if api is None:
            await _send_json(writer, 404, {"error": {"message": f"nothing is served at {path}"}})
            return
        try:
            body: Any = json.loads(content)
        except ValueError:
            body = None
        if not is_json_object(body) or body.get("stream") is not True:
            error = ModelServerError(status=400, message="the body is no JSON object with stream set to true")
            await _send_json(writer, 400, error.body(api))
            return
        request = ModelServerRequest(len(self._requests) + 1, api, headers, body)
        self._requests.append(request)
        async with self._arrived:
            self._arrived.notify_all()
        await _unless_hung_up(self._reply(request, writer), reader, request.hung_up)

    async def _reply(self, request: ModelServerRequest, writer: asyncio.StreamWriter) -> None:
        match await self._ask_script(request):
            case ModelServerError() as error:
                more = {} if error.retry_after is None else {"retry-after": error.retry_after}
                await _send_json(writer, error.status, error.body(request.api), {**error.headers, **more})
            case ModelServerReply() as reply:
                await _stream(writer, reply, request)

    async def _ask_script(self, request: ModelServerRequest) -> ModelServerAnswer:
        if callable(self._script):
            answer = self._script(request)
            return await answer if inspect.isawaitable(answer) else answer
        if request.number > len(self._script):
            return ModelServerError(status=400, message="the script has no answer for this request")
        return self._script[request.number - 1]


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    _, _, rest = first.partition(" ")
    return rest.partition(" ")[0].partition("?")[0], headers, content


async def _unless_hung_up(
    replying: Awaitable[None], reader: asyncio.StreamReader, hung_up: asyncio.Event
) -> None:
    """Reply, and stop when the client closes its side: it sends nothing more in an orderly exchange."""
    reply = asyncio.ensure_future(replying)
    watch = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((reply, watch), return_when=asyncio.FIRST_COMPLETED)
        if reply.done():
            reply.result()
        else:
            hung_up.set()
    finally:
        reply.cancel()
        watch.cancel()
        await asyncio.gather(reply, watch, return_exceptions=True)


async def _send_json(
    writer: asyncio.StreamWriter, status: int, body: dict[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    content = json.dumps(body).encode()
    _write_head(
        writer,
        status,
        {"content-type": "application/json", "content-length": str(len(content)), **(headers or {})},
    )
    writer.write(content)
    await writer.drain()


async def _stream(writer: asyncio.StreamWriter, reply: ModelServerReply, request: ModelServerRequest) -> None:
    events = build_stream(request.api, reply, request.body, number=request.number)
    if reply.fault is not None:
        events = events[: reply.fault_after]
    if reply.fault == "hang_up":
        return
    _write_head(writer, 200, {"content-type": reply.content_type, "transfer-encoding": "chunked"})
    for event in (*events, *_faulty_events(reply, request.api)):
        if reply.before_event is not None:
            await reply.before_event()
        _write_chunk(writer, encode_event(event))
        await writer.drain()
    if reply.fault != "cut":
        _write_chunk(writer, b"")
    await writer.drain()


def _faulty_events(reply: ModelServerReply, api: ModelApi) -> Sequence[StreamEvent]:
    name = None if api == "chat_completions" else "message_delta"
    match reply.fault:
        case "malformed":
            return [(name, '{"type": "message_delta", "delta": {')]
        case "error":
            body = (reply.error or ModelServerError()).body(api)
            if api == "responses":
                told: dict[str, Any] = body["error"]
                code = told["code"] or told["type"]
                return [("error", {**told, "type": "error", "code": code, "sequence_number": 0})]
            return [("error" if api == "messages" else None, body)]
        case _:
            return ()


def _write_head(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str]) -> None:
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Overloaded"
    lines = [f"HTTP/1.1 {status} {phrase}", "connection: close"]
    lines += (f"{name}: {value}" for name, value in headers.items())
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))


def _write_chunk(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(content), content))
