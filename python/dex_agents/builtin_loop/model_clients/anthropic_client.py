"""`AnthropicModelClient`: the models of Anthropic."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from dex_agents.builtin_loop.contract import ModelRequest, ModelResponse
from dex_agents.builtin_loop.model_clients.answer_stream import (
    ClientOfEachLoop,
    EventStream,
    read_answer,
    require_sdk,
)
from dex_agents.builtin_loop.model_clients.anthropic_messages import MessagesFold, build_messages_request
from dex_agents.builtin_loop.model_clients.client_settings import (
    CONNECT_SECONDS,
    DEFAULT_TIMEOUT,
    NO_KEY,
    require_client_settings,
)
from dex_agents.errors import ModelCallRefusedError
from dex_agents.runner.event_writer import AgentEventWriter

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["AnthropicModelClient"]

_DEFAULT_OUTPUT_TOKENS: Final = 16_384
"""Every model since Claude 4 takes it; the API has no default of its own."""


class AnthropicModelClient:
    """A `ModelClient` on the official `anthropic` SDK (extra `anthropic`).

    One attempt of the Step is one request: the SDK repeats nothing. The blocks of an answer, thinking and its
    signatures included, are stored with the session and sent back unchanged.

    Example::

        AnthropicModelClient("claude-sonnet-4-5", thinking={"type": "enabled", "budget_tokens": 4096})
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str = "anthropic",
        max_output_tokens: int = _DEFAULT_OUTPUT_TOKENS,
        thinking: Mapping[str, Any] | None = None,
        prompt_caching: bool = True,
        request_fields: Mapping[str, Any] | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
        sdk_client: AsyncAnthropic | None = None,
    ) -> None:
        """Name the model; the SDK is imported by the first call.

        Args:
            model: As the provider names it.
            base_url: Another server, without `/v1`. By default Anthropic, or what `ANTHROPIC_BASE_URL` says.
            api_key: By default what the SDK finds in the environment, which is never sent to a `base_url`
                that is given here.
            provider: Stored with every answer and named in errors: native output goes back to the same one
                only.
            max_output_tokens: The longest answer, thinking included.
            thinking: The API's own `thinking` field, `{"type": "adaptive"}` say; `None` sends none. It is
                left out of the requests in which the API would refuse it.
            prompt_caching: Whether to mark what the next request will begin with, so that it is read from the
                provider's cache.
            request_fields: More fields of each request. Not `stream`, nor what the session decides.
            timeout: The longest silence of the server; an answer as a whole has the session's
                `model_call_timeout`.
            sdk_client: Makes the requests instead of one made here, for Bedrock say. It is yours to close,
                and belongs to the event loop that first uses it.

        Raises:
            InvalidInputError: An argument breaks a rule; the text names it.
            ImportError: The extra `anthropic` is not installed.
        """
        require_client_settings(model, max_output_tokens, timeout, request_fields)
        require_sdk("anthropic")
        self._model = model
        self._provider = provider
        self._base_url = base_url
        self._api_key = api_key
        self._max_output_tokens = max_output_tokens
        self._thinking = None if thinking is None else dict(thinking)
        self._prompt_caching = prompt_caching
        self._request_fields = dict(request_fields or {})
        self._timeout = timeout.total_seconds()
        self._given = sdk_client
        self._clients = ClientOfEachLoop(self._build_client, _close_client)

    @property
    def provider(self) -> str:
        """See `ModelClient.provider`."""
        return self._provider

    @property
    def api(self) -> str:
        """See `ModelClient.api`."""
        return "messages"

    @property
    def model(self) -> str:
        """The model as the provider names it."""
        return self._model

    def build_request(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body that `generate` sends; pure.

        Args:
            request: What the loop asks.
        """
        return build_messages_request(
            request,
            model=self._model,
            max_output_tokens=self._max_output_tokens,
            thinking=self._thinking,
            prompt_caching=self._prompt_caching,
            request_fields=self._request_fields,
        )

    async def generate(self, request: ModelRequest, events: AgentEventWriter) -> ModelResponse:
        """Make one request, stream its text and thinking, and return the whole answer.

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
        from anthropic import AnthropicError, AsyncStream

        async def open_stream() -> EventStream:
            # Not `messages.create`: a body that is sent as it was built, and events as they came.
            return await client.post(
                "/v1/messages",
                body=self.build_request(request),
                cast_to=object,
                stream=True,
                stream_cls=AsyncStream[object],
            )

        return await read_answer(
            self._provider,
            open_stream,
            MessagesFold(self._provider, self._model),
            events,
            (AnthropicError, httpx2.HTTPError, httpx2.StreamError),
        )

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

    def _build_client(self) -> AsyncAnthropic:
        import anthropic

        if self._given is not None:
            return self._given.with_options(max_retries=0)
        problem = "there is no API key: set ANTHROPIC_API_KEY or give api_key"
        try:
            client = anthropic.AsyncAnthropic(
                api_key=NO_KEY if self._api_key is None and self._base_url is not None else self._api_key,
                base_url=self._base_url,
                max_retries=0,
                timeout=anthropic.Timeout(self._timeout, connect=min(CONNECT_SECONDS, self._timeout)),
            )
        except anthropic.AnthropicError as error:
            raise ModelCallRefusedError(self._provider, problem) from error
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise ModelCallRefusedError(self._provider, problem)
        return client


async def _close_client(client: AsyncAnthropic) -> None:
    await client.close()
