"""Images in sessions: from a person or a tool, through the media store, to each provider."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dex_agents import (
    AgentUserMessage,
    ImageValidationError,
    InMemoryMediaStore,
    InvalidInputError,
    ToolEffect,
    texts,
)
from dex_agents.builtin_loop import FunctionToolResult, function_tool, function_tool_result
from dex_agents.testing import (
    ModelApi,
    ModelServer,
    ModelServerError,
    ModelServerReply,
    ModelServerRequest,
    ScriptedToolCall,
)
from tests.integration.session.desk import build_flow, serve
from tests.integration.session.model_servers import APIS, serve_models
from tests.sample_images import jpeg_image, png_image

each_api = pytest.mark.parametrize("api", APIS)

STORE = InMemoryMediaStore()
PHOTO, DRAWING = jpeg_image(), png_image()
ASKS = ModelServerReply(tool_calls=(ScriptedToolCall("draw", {}),))
DONE = ModelServerReply(text="done")


@function_tool(effect=ToolEffect.READ)
async def draw() -> FunctionToolResult:
    """Draw."""
    return function_tool_result("a drawing", images=[await STORE.put_image(DRAWING)])


def images_of(request: ModelServerRequest) -> list[tuple[str, str]]:
    """Return type and base64 of every image in a request, in order."""
    return list(_find_images(request.body))


def _find_images(value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case {"type": "image", "source": {"media_type": str(kind), "data": str(data)}}:
            yield kind, data
        case {"image_url": str(url)} | {"image_url": {"url": str(url)}}:
            kind, _, data = url.removeprefix("data:").partition(";base64,")
            yield kind, data
        case dict() | list():
            parts: list[Any] = [*value.values()] if isinstance(value, dict) else [*value]
            for part in parts:
                yield from _find_images(part)
        case _:
            pass


PHOTO_SENT = ("image/jpeg", b64encode(PHOTO).decode())
DRAWING_SENT = ("image/png", b64encode(DRAWING).decode())


@pytest.mark.requirement("images-are-shown")
@each_api
async def test_every_provider_is_shown_the_images_of_messages_and_of_results(
    tmp_path: Path, api: ModelApi
) -> None:
    async with (
        ModelServer([ASKS, DONE, DONE]) as server,
        serve_models(tmp_path / "db", server, [draw], first=api, media_store=STORE) as client,
    ):
        photo = await STORE.put_image(PHOTO)
        await client.start_session("s", first_message=AgentUserMessage("What is it?", images=(photo,)))
        await client.wait_for_idle("s", timeout=30)
        await client.send_user_message("s", AgentUserMessage("And now?", images=(photo, photo)))
        await client.wait_for_idle("s", timeout=30)
        snapshot = await client.get_agent_snapshot("s")

    assert images_of(server.requests[0]) == [PHOTO_SENT]
    assert images_of(server.requests[1]) == [PHOTO_SENT, DRAWING_SENT]
    assert images_of(server.requests[2]) == [PHOTO_SENT, DRAWING_SENT, PHOTO_SENT, PHOTO_SENT]
    drawing = await STORE.put_image(DRAWING)
    assert [message.images for message in snapshot.messages if message.images] == [
        (photo,),
        (drawing,),
        (photo, photo),
    ]
    assert snapshot.tool_calls[0].images == (drawing,)
    # What is stored are references: the bytes are in the media store alone.
    stored = (tmp_path / "db").read_bytes()
    assert PHOTO not in stored
    assert b64encode(PHOTO) not in stored


@pytest.mark.requirement("images-never-block")
@each_api
async def test_a_provider_that_refuses_images_is_asked_without_them(tmp_path: Path, api: ModelApi) -> None:
    refusal = ModelServerError(status=400, message="this model does not support images")
    async with (
        ModelServer([refusal, DONE]) as server,
        serve_models(tmp_path / "db", server, first=api, media_store=STORE) as client,
    ):
        photo = await STORE.put_image(PHOTO)
        await client.start_session("s", first_message=AgentUserMessage("What is it?", images=(photo,)))
        progress = await client.wait_for_idle("s", timeout=30)
    assert progress.last_turn_outcome == "completed"
    assert [len(images_of(request)) for request in server.requests] == [1, 0]
    assert texts.IMAGE_REFUSED in json.dumps(server.requests[1].body)


@pytest.mark.requirement("images-never-block")
async def test_a_refusal_that_images_have_no_part_in_is_told_as_it_was(tmp_path: Path) -> None:
    refusals = [ModelServerError(status=400, message=f"no {number}") for number in (1, 2)]
    async with (
        ModelServer(refusals) as server,
        serve_models(tmp_path / "db", server, media_store=STORE) as client,
    ):
        photo = await STORE.put_image(PHOTO)
        await client.start_session("s", first_message=AgentUserMessage("What is it?", images=(photo,)))
        await client.wait_for_idle("s", timeout=30)
        snapshot = await client.get_agent_snapshot("s")
    assert "no 1" in (snapshot.last_turn_error or "")
    assert len(server.requests) == 2


@pytest.mark.requirement("image-limits")
@pytest.mark.case("BR-081")
async def test_images_that_break_a_rule_are_refused_and_the_session_goes_on(tmp_path: Path) -> None:
    photo = await STORE.put_image(PHOTO)
    async with serve(tmp_path / "db", build_flow(media_store=STORE)) as client:
        await client.start_session("s")
        with pytest.raises(ImageValidationError, match="21 images, the limit is 20"):
            await client.send_user_message("s", AgentUserMessage("look", images=(photo,) * 21))
        assert await client.send_user_message("s", AgentUserMessage("look", images=(photo,)))
        await client.wait_for_idle("s", timeout=30)
        assert (await client.get_agent_snapshot("s")).turn_count == 1


async def test_an_agent_without_a_media_store_takes_no_images(tmp_path: Path) -> None:
    photo = await STORE.put_image(PHOTO)
    message = AgentUserMessage("look", images=(photo,))
    async with serve(tmp_path / "db", build_flow()) as client:
        with pytest.raises(InvalidInputError, match="images: this agent takes no images"):
            await client.start_session("s", first_message=message)
        await client.start_session("s")
        for send in (client.send_user_message, client.steer_user_message):
            with pytest.raises(InvalidInputError, match="images: this agent takes no images"):
                await send("s", message)


async def test_a_message_whose_agent_has_lost_its_media_store_is_answered_all_the_same(
    tmp_path: Path,
) -> None:
    photo = await STORE.put_image(PHOTO)
    async with serve(tmp_path / "db", build_flow(media_store=STORE)) as client:
        await client.start_session("s", first_message=AgentUserMessage("look", images=(photo,)))
        await client.wait_for_idle("s", timeout=30)
    async with serve(tmp_path / "db", build_flow()) as client:
        await client.send_user_message("s", "and now?")
        progress = await client.wait_for_idle("s", timeout=30)
    assert (progress.turn_count, progress.last_turn_outcome) == (2, "completed")
