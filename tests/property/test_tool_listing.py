"""Any listing of any sources: stable, no name twice, and nothing lost without a warning."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dex_agents.tool_sources.contract import SourceTool
from dex_agents.tool_sources.listing import build_listing
from dex_agents.tool_sources.router import ToolSourceRouter
from tests.unit.tool_sources.sources import ListedSource, build_tool, fail_to_list

NAMES = st.sampled_from(["a", "b", "c", "d", "bad name"])
TOOLS = st.builds(build_tool, NAMES, description=st.text(max_size=3))
LISTINGS = st.lists(st.none() | st.lists(TOOLS, max_size=5), max_size=4)
RESERVED = st.sets(NAMES)


def name_sources(
    listings: Sequence[Sequence[SourceTool] | None],
) -> list[tuple[str, Sequence[SourceTool] | str]]:
    return [(f"s{n}", "down" if tools is None else tools) for n, tools in enumerate(listings)]


@pytest.mark.requirement("tool-names-unique")
@given(listings=LISTINGS, reserved=RESERVED)
def test_each_name_is_offered_by_the_first_that_lists_it_and_the_rest_is_warned_about(
    listings: list[list[SourceTool] | None], reserved: set[str]
) -> None:
    listing = build_listing(name_sources(listings), reserved_names=reserved)
    every = [(f"s{n}", tool) for n, tools in enumerate(listings) if tools is not None for tool in tools]
    first = {tool.name: (source, tool) for source, tool in reversed(every)}
    expected = {name: where for name, where in first.items() if name not in reserved and name != "bad name"}
    offered = {name: (found.source_name, found.tool) for name, found in listing.tools.items()}
    assert offered == expected
    # In the order of the sources, and of each listing.
    places = [next(n for n, one in enumerate(every) if one[1] is tool) for _, tool in offered.values()]
    assert places == sorted(places)
    assert len(listing.warnings) == len(every) - len(offered) + listings.count(None)


@given(listings=LISTINGS, down=st.sets(st.integers(0, 3)))
def test_a_source_that_goes_down_changes_nothing_for_names_that_others_offer(
    listings: list[list[SourceTool] | None], down: set[int]
) -> None:
    async def list_twice() -> None:
        sources = [ListedSource(f"s{n}", tools or ()) for n, tools in enumerate(listings)]
        router = ToolSourceRouter(sources)
        before, again = await router.list_tools(), await router.list_tools()
        assert before == again
        for n in down & set(range(len(sources))):
            sources[n].lister = fail_to_list(ConnectionError("down"))
        after = await router.list_tools()
        gone = {f"s{n}" for n in down}
        kept = {name: tool for name, tool in before.tools.items() if tool.source_name not in gone}
        assert kept.items() <= after.tools.items()
        # Whatever was offered before can still be routed: to another source, or to the one that is down.
        assert set(before.tools) <= set(after.tools) | set(after.unreachable)
        assert not set(after.tools) & set(after.unreachable)

    asyncio.run(list_twice())
