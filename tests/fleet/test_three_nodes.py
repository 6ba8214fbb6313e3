"""Three nodes, of which some are cut off or die in the middle: everything arrives, once, and nobody waits for it.

Each node is a network namespace; `plain` has a host process on each, `ray` a real Ray cluster that places them (where
ray is installed). The same work, the same disturbance, the same bars.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.fleet.nodes import (
    EPISODES,
    NODES,
    ROOT,
    TURN_SECONDS,
    TURNS,
    WIDTH,
    Nodes,
    command,
    obstacle,
    post,
    ray_cluster,
    serving,
    three_nodes,
)

pytestmark = [pytest.mark.alone, pytest.mark.three_nodes, pytest.mark.root]
BEFORE_SECONDS = 4.0
PATIENCE_SECONDS = 100.0
SLOWER = 1.3  # than with perfect knowledge of what is lost

#: What happens to which node, one after another.
Disturbance = tuple[tuple[Callable[[Nodes, int], None], int], ...]
CUT, KILL = Nodes.pull_cable, Nodes.kill
CASES: list[tuple[str, str, Disturbance]] = [
    ("plain", "cable cut", ((CUT, 3),)), ("plain", "node killed", ((KILL, 3),)),
    ("ray", "cable cut, then a node killed", ((CUT, 3), (KILL, 2))),  # in one run: a cluster takes longer than that
]


@contextmanager
def hosted(nodes: Nodes, folder: Path, env: dict[str, str]) -> Iterator[None]:
    """A host on each node, without an engine."""
    started = [
        subprocess.Popen([*nodes.inside(node), *command("host", f"node-{node}")], env=env, cwd=ROOT)
        for node in NODES
    ]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait(20)


@pytest.mark.parametrize(("form", "what", "disturbance"), [
    pytest.param(*case, id="-".join(case[:2]), marks=[pytest.mark.whole] if case is CASES[1] else []) for case in CASES
])
def test_when_nodes_are_lost_in_the_middle_everything_arrives_once_and_in_time(
    form: str, what: str, disturbance: Disturbance, tmp_path: Path,
) -> None:
    if why := obstacle():
        pytest.skip(why)
    if form == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("needs the package ray (the extra ray)")
    with ExitStack() as stack:
        nodes = stack.enter_context(three_nodes())
        where = stack.enter_context(serving(nodes, tmp_path))
        sent = msgspec.json.encode(post(tmp_path, where)).decode()
        env = {**os.environ, **where, "QUINTAIN_POST": sent, "TMPDIR": str(tmp_path)}
        if form == "ray":
            env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
        stack.enter_context(ray_cluster(nodes, tmp_path) if form == "ray" else hosted(nodes, tmp_path, env))
        lead = subprocess.Popen([*nodes.inside(1), *command("lead", str(tmp_path), form)], env=env, cwd=ROOT,
                                stdout=subprocess.PIPE, text=True)
        stack.callback(lead.kill)
        assert lead.stdout is not None
        assert lead.stdout.readline() == "begun\n"
        lost_at = []
        for happens, node in disturbance:
            time.sleep(BEFORE_SECONDS)
            happens(nodes, node)
            lost_at.append(time.time())
        out, _ = lead.communicate(timeout=PATIENCE_SECONDS)
    found = json.loads(out.splitlines()[-1])
    assert found["settled"] == EPISODES
    assert found["accepted"] == [1] * EPISODES, "each counts once"
    assert found["logs"] == EPISODES, "and its log came with it"
    assert len(found["nodes"]) == len(NODES)
    assert found["lost"] >= 1, "what the lost node had was begun again"
    by_then = sum(closed <= lost_at[-1] for closed in found["closed"])
    rest = (EPISODES - by_then) * TURNS * TURN_SECONDS / (WIDTH * (len(NODES) - len(lost_at)))
    ideal = lost_at[-1] - found["began"] + rest
    print(f"\n{form}, {what}: {found['wall_seconds']:.1f} s, ideal {ideal:.1f} s, {found['lost']} begun again")
    assert found["wall_seconds"] <= SLOWER * ideal
