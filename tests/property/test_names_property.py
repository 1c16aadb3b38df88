"""Portable names are legal, unique and stable, whatever servers and tools are called.

More examples: --hypothesis-profile thorough.
"""

from __future__ import annotations

import re
from random import Random

from core import World, call, result, tool
from hypothesis import assume, given
from hypothesis import strategies as st

from mcpagg_runtime.plan.names import PORTABLE_LIMIT, portable_names, prefix_of
from mcpagg_runtime.servers.lists import SETTLE_SECONDS

# Few characters, so that names clash once they are cleaned; and long ones, to be cut.
clashing = st.text("ab._- :é", max_size=8)
any_name = st.one_of(clashing, st.text(max_size=80), clashing.map(lambda text: "x" * 48 + text))
name_sets = st.lists(any_name, unique=True, max_size=30)
keys = st.text("ab._:", min_size=1, max_size=3)
tools = st.lists(st.text("ab._:", min_size=1, max_size=4), unique=True, max_size=4)


@given(name_sets)
def test_portable_names_are_legal(exposed: list[str]) -> None:
    for name in portable_names(exposed).values():
        assert re.fullmatch(f"[A-Za-z0-9_-]{{1,{PORTABLE_LIMIT}}}", name)


@given(name_sets)
def test_portable_names_are_unique(exposed: list[str]) -> None:
    names = portable_names(exposed)
    assert list(names) == exposed
    assert len(set(names.values())) == len(exposed)


@given(name_sets, st.randoms(use_true_random=False))
def test_portable_names_depend_on_no_order(exposed: list[str], random: Random) -> None:
    shuffled = list(exposed)
    random.shuffle(shuffled)
    assert portable_names(shuffled) == portable_names(exposed)


@given(name_sets, st.data())
def test_portable_names_are_unique_even_if_they_are_made_up_to_clash(
    exposed: list[str], data: st.DataObject
) -> None:
    assume(exposed)
    forged = data.draw(st.lists(st.sampled_from(sorted(portable_names(exposed).values()))))
    everything = list(dict.fromkeys([*exposed, *forged]))
    names = portable_names(everything)
    assert len(set(names.values())) == len(everything)


@given(st.lists(keys, unique=True, max_size=6), st.text("ab._:", max_size=4), st.data())
def test_a_name_with_a_servers_prefix_has_a_server(
    servers: list[str], name: str, data: st.DataObject
) -> None:
    assume(servers)
    server = data.draw(st.sampled_from(servers))
    found = prefix_of(f"{server}:{name}", servers, ":")
    assert found is not None
    assert len(found) >= len(server)


@given(
    st.dictionaries(keys, st.tuples(tools, tools), max_size=4),
    st.sampled_from(["spec", "portable"]),
)
def test_every_listed_name_is_unique_and_leads_to_its_own_tool(
    servers: dict[str, tuple[list[str], list[str]]], names: str
) -> None:
    exposed = [f"{server}:{name}" for server, (old, _) in servers.items() for name in old]
    assume(len(set(exposed)) == len(exposed))  # the compiler refuses a clash
    world = World({server: old for server, (old, _) in servers.items()}, names=names)
    client = world.client()
    for server, (_, now) in servers.items():
        child = world.up(server, now)
        world.wait(SETTLE_SECONDS)
        for asked in world.received(child):  # once more where the first list differed
            world.say(child, result(asked["id"], {"tools": [tool(entry) for entry in now]}))
    listed = world.names(client)
    reached: list[tuple[str, str]] = []
    for number, name in enumerate(listed):
        world.say(client, call(number, name))
        reached += [
            (server, message["params"]["name"])
            for server in servers
            for message in world.received(world[server])
        ]
    assert len(set(listed)) == len(set(reached)) == len(reached) == len(listed)
    assert all(original in servers[server][1] for server, original in reached)
