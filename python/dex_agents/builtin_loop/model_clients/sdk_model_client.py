"""What the clients on the official SDKs share: one request for each call, and whose the connections are."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from dex_agents.builtin_loop.contract import ModelRequest, ModelResponse
from dex_agents.builtin_loop.model_clients.answer_stream import (
    AnswerFold,
    ClientOfEachLoop,
    EventStream,
    read_answer,
)
from dex_agents.runner.event_writer import AgentEventWriter

__all__ = ["SdkModelClient"]


class _Closable(Protocol):
    async def close(self) -> None: ...


ClientT = TypeVar("ClientT", bound=_Closable)


class SdkModelClient(ABC, Generic[ClientT]):
    """A `ModelClient` that sends what it built and reads the events as they come."""

    def __init__(self, model: str, provider: str, timeout: timedelta, sdk_client: ClientT | None) -> None:
        """Keep what every such client has.

        Args:
            model: As the provider names it.
            provider: Stored with every answer and named in errors.
            timeout: The longest silence of the server.
            sdk_client: Makes the requests; the caller's to close. `None` for one that `_build_client` makes.
        """
        self._model = model
        self._provider = provider
        self._timeout = timeout.total_seconds()
        self._given = sdk_client
        self._clients: ClientOfEachLoop[ClientT] = ClientOfEachLoop(self._build_client, _close)

    @property
    def provider(self) -> str:
        """See `ModelClient.provider`."""
        return self._provider

    @property
    def model(self) -> str:
        """The model as the provider names it."""
        return self._model

    @abstractmethod
    def build_request(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body that `generate` sends; pure.

        Args:
            request: What the loop asks.
        """

    async def generate(self, request: ModelRequest, events: AgentEventWriter) -> ModelResponse:
        """Make one request, stream its text and reasoning, and return the whole answer.

        Args:
            request: What to send.
            events: Speaks to live viewers.

        Raises:
            ModelCallRefusedError: The provider will not answer, or there is no key.
            ModelCallError: The call failed, or its stream ended before the answer did.

        Durability:
            See `ModelClient.generate`. Cancelling it closes the connection, and with it ends the answer.
        """
        client = await self._clients.get()
        import httpx2

        async def open_stream() -> EventStream:
            # Images are up to tens of megabytes to spell: too long to hold the event loop for.
            body = (
                await asyncio.to_thread(self.build_request, request)
                if request.image_data
                else self.build_request(request)
            )
            return await self._post(client, body)

        sdk_errors = (self._sdk_error(), httpx2.HTTPError, httpx2.StreamError)
        return await read_answer(self._provider, open_stream, self._build_fold(), events, sdk_errors)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        if self._given is None:
            await self._clients.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @abstractmethod
    def _build_client(self) -> ClientT:
        """Return the SDK's client, which repeats nothing; runs in a thread, where the SDK is imported."""

    @abstractmethod
    async def _post(self, client: ClientT, body: dict[str, Any]) -> EventStream:
        """Send a body as it was built, and return the events undecoded."""

    @abstractmethod
    def _build_fold(self) -> AnswerFold:
        """Return what folds the events of one answer."""

    @abstractmethod
    def _sdk_error(self) -> type[Exception]:
        """Return the root of the SDK's errors."""


async def _close(client: _Closable) -> None:
    await client.close()
