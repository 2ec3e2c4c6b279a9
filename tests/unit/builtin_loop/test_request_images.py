"""Which images a model request shows, and what stands for the others."""

from __future__ import annotations

import pytest

from dex_agents import AgentImageReference, ImageValidationError, InMemoryMediaStore, MediaStoreError, texts
from dex_agents.builtin_loop import (
    ModelImageLimits,
    ModelOutputItem,
    ModelRequest,
    ModelToolCall,
    ModelToolResultItem,
    ModelUserTextItem,
    ScriptedModelClient,
    ScriptedModelReply,
)
from dex_agents.builtin_loop.model_clients import AnthropicModelClient, OpenAIModelClient
from dex_agents.builtin_loop.request_images import limit_images, load_request_images
from dex_agents.limits import MAX_IMAGE_BYTES, MAX_REQUEST_IMAGE_BYTES
from tests.sample_images import jpeg_image, png_image


def image(name: str, size_bytes: int = MAX_IMAGE_BYTES) -> AgentImageReference:
    sha256 = name.encode().hex().rjust(64, "0")
    return AgentImageReference(f"memory://sha256/{sha256}", "image/png", sha256, size_bytes)


def asking(*images: AgentImageReference, drawn: tuple[AgentImageReference, ...] = ()) -> ModelRequest:
    """Return a request with a message for each image, and a result with the drawn ones behind them."""
    return ModelRequest(
        instructions="",
        items=(
            *(ModelUserTextItem(f"look {number}", (one,)) for number, one in enumerate(images)),
            ModelOutputItem("", (ModelToolCall("1", "draw", "{}"),)),
            ModelToolResultItem("1", "draw", "drawn", drawn),
        ),
    )


def shown(request: ModelRequest) -> list[AgentImageReference]:
    return [one for item in request.items if not isinstance(item, ModelOutputItem) for one in item.images]


class _Limited(ScriptedModelClient):
    def __init__(self, limits: ModelImageLimits) -> None:
        super().__init__(lambda request: ScriptedModelReply(text="ok"))
        self.image_limits = limits


SCRIPTED = ScriptedModelClient(lambda request: ScriptedModelReply(text="ok"))


@pytest.mark.requirement("request-image-limit")
def test_the_oldest_images_beyond_the_limit_are_named_and_not_sent() -> None:
    many = [image(f"{number:02}") for number in range(12)]
    drawn = (image("a"), image("b"))
    request = limit_images(asking(*many, drawn=drawn), SCRIPTED)
    fitting = MAX_REQUEST_IMAGE_BYTES // MAX_IMAGE_BYTES
    assert shown(request) == [*many, *drawn][-fitting:]
    first = request.items[0]
    assert isinstance(first, ModelUserTextItem)
    note = texts.image_not_shown("image/png", MAX_IMAGE_BYTES, texts.IMAGE_OVER_REQUEST_LIMIT)
    assert first.text == f"look 0\n{note}"


@pytest.mark.requirement("request-image-limit")
def test_a_small_old_image_does_not_slip_past_a_large_one_that_is_left_out() -> None:
    old, large, latest = image("old", 1), image("large", 60), image("new", 50)
    request = limit_images(asking(old, large, latest), _Limited(ModelImageLimits(10, 100)))
    assert shown(request) == [latest]


@pytest.mark.requirement("request-image-limit")
def test_a_result_with_more_images_than_fit_keeps_its_latest() -> None:
    drawn = tuple(image(name, 10) for name in "abc")
    request = limit_images(asking(drawn=drawn), _Limited(ModelImageLimits(2, 1000)))
    assert shown(request) == [*drawn[1:]]


def test_the_requests_of_each_provider_stay_below_its_own_limit() -> None:
    many = [image(f"{number:02}") for number in range(20)]
    anthropic = shown(limit_images(asking(*many), AnthropicModelClient("claude")))
    assert sum(one.size_bytes for one in anthropic) * 4 / 3 < 30_000_000
    openai = shown(limit_images(asking(*many), OpenAIModelClient("gpt-5")))
    assert sum(one.size_bytes for one in openai) == 10 * MAX_IMAGE_BYTES


def test_a_model_that_sees_nothing_reads_what_it_was_not_shown() -> None:
    blind = OpenAIModelClient("x", api="chat_completions", base_url="http://localhost/v1", images=False)
    request = limit_images(asking(image("a", 7)), blind)
    assert shown(request) == []
    assert texts.image_not_shown("image/png", 7, texts.IMAGES_NOT_SEEN) in str(request.items[0])


async def test_the_bytes_are_read_once_for_each_image() -> None:
    store = InMemoryMediaStore()
    photo, drawing = await store.put_image(jpeg_image()), await store.put_image(png_image())
    request = await load_request_images(asking(photo, photo, drawn=(drawing,)), store, is_last_attempt=False)
    assert shown(request) == [photo, photo, drawing]
    assert request.image_data == {photo.sha256: jpeg_image(), drawing.sha256: png_image()}


@pytest.mark.requirement("images-never-block")
async def test_an_image_that_is_gone_fails_two_attempts_and_is_named_in_the_third() -> None:
    store = InMemoryMediaStore()
    photo = await store.put_image(jpeg_image())
    gone = await InMemoryMediaStore().put_image(png_image())
    with pytest.raises(MediaStoreError):
        await load_request_images(asking(gone, photo), store, is_last_attempt=False)
    request = await load_request_images(asking(gone, photo), store, is_last_attempt=True)
    assert shown(request) == [photo]
    assert set(request.image_data) == {photo.sha256}
    assert texts.IMAGE_UNREADABLE in str(request.items[0])


@pytest.mark.requirement("images-never-block")
async def test_an_image_of_another_store_is_named_at_once() -> None:
    elsewhere = AgentImageReference("file:///other/sha256/" + "0" * 64, "image/png", "0" * 64, 5)
    with pytest.raises(ImageValidationError):
        await InMemoryMediaStore().get_image(elsewhere)
    request = await load_request_images(asking(elsewhere), InMemoryMediaStore(), is_last_attempt=False)
    assert shown(request) == []
    assert texts.IMAGE_UNREADABLE in str(request.items[0])
