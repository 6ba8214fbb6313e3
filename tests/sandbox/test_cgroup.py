"""Where control groups may be made is read from the host, whatever hierarchy it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from quintain.sandbox import _cgroup

V1_LINE = "30 29 0:26 / {point} rw,relatime - cgroup cgroup rw,{controllers}\n"
V2_LINE = "31 29 0:27 {root} {point} rw,relatime - cgroup2 cgroup2 rw\n"


def host(tmp_path: Path, mounts: str, groups: str) -> Path:
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/mountinfo").write_text("22 1 0:20 / /proc rw - proc proc rw\n" + mounts)
    (proc / "self/cgroup").write_text(groups)
    return proc


def test_a_v1_host_offers_each_controller_in_our_own_group(tmp_path: Path) -> None:
    for name in ("memory", "pids", "cpu,cpuacct"):
        (tmp_path / name / "user/me").mkdir(parents=True)
    mounts = "".join(
        V1_LINE.format(point=tmp_path / name, controllers=name) for name in ("memory", "pids", "cpu,cpuacct")
    )
    groups = "4:memory:/user/me\n3:pids:/user/me\n2:cpu,cpuacct:/user/me\n"
    found = _cgroup.survey(host(tmp_path, mounts, groups))
    assert {h.kind: h.group for h in found.usable} == {
        "m": tmp_path / "memory/user/me", "p": tmp_path / "pids/user/me", "c": tmp_path / "cpu,cpuacct/user/me",
        "a": tmp_path / "cpu,cpuacct/user/me",
    }
    assert not found.missing


def test_a_v2_host_offers_one_tree(tmp_path: Path) -> None:
    group = tmp_path / "cg/user.slice/run.scope"
    group.mkdir(parents=True)
    (group / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    proc = host(tmp_path, V2_LINE.format(point=tmp_path / "cg", root="/"), "0::/user.slice/run.scope\n")
    found = _cgroup.survey(proc)
    assert [(h.kind, h.group) for h in found.usable] == [("u", group)]
    assert not found.missing


def test_inside_a_container_the_mounted_part_of_the_tree_counts(tmp_path: Path) -> None:
    group = tmp_path / "cg/inner"
    group.mkdir(parents=True)
    (group / "cgroup.controllers").write_text("cpu memory pids\n")
    proc = host(tmp_path, V2_LINE.format(point=tmp_path / "cg", root="/docker/abc"), "0::/docker/abc/inner\n")
    assert [h.group for h in _cgroup.survey(proc).usable] == [group]


def test_a_hybrid_host_uses_v1_and_ignores_the_empty_unified_tree(tmp_path: Path) -> None:
    for name in ("memory", "pids", "cpu", "cpuacct", "unified"):
        (tmp_path / name).mkdir()
    (tmp_path / "unified/cgroup.controllers").write_text("\n")
    mounts = "".join(V1_LINE.format(point=tmp_path / n, controllers=n) for n in ("memory", "pids", "cpu", "cpuacct"))
    groups = "4:memory:/\n3:pids:/\n2:cpu:/\n1:cpuacct:/\n0::/\n"
    found = _cgroup.survey(host(tmp_path, mounts + V2_LINE.format(point=tmp_path / "unified", root="/"), groups))
    assert sorted(h.kind for h in found.usable) == ["a", "c", "m", "p"]
    assert not found.missing


def test_a_missing_controller_comes_with_its_remedy(tmp_path: Path) -> None:
    group = tmp_path / "cg"
    group.mkdir()
    (group / "cgroup.controllers").write_text("memory pids\n")
    found = _cgroup.survey(host(tmp_path, V2_LINE.format(point=group, root="/"), "0::/\n"))
    assert not found.usable
    assert "delegate" in found.missing["cpu"]


def test_a_host_without_groups_says_so_for_every_controller(tmp_path: Path) -> None:
    found = _cgroup.survey(host(tmp_path, "", "0::/\n"))
    assert set(found.missing) == {"memory", "pids", "cpu", "cpuacct"}
    assert not found.usable


def test_a_mount_point_with_a_blank_is_found(tmp_path: Path) -> None:
    group = tmp_path / "odd name"
    group.mkdir()
    (group / "cgroup.controllers").write_text("cpu memory pids\n")
    escaped = str(group).replace(" ", "\\040")
    found = _cgroup.survey(host(tmp_path, V2_LINE.format(point=escaped, root="/"), "0::/\n"))
    assert [h.group for h in found.usable] == [group]


def test_a_v2_group_with_processes_is_emptied_before_it_hands_controllers_down(tmp_path: Path) -> None:
    """The kernel's rule of no internal processes, played by a file that refuses until the group is empty."""
    group = tmp_path / "scope"
    group.mkdir()
    (group / "cgroup.procs").write_text("101\n102\n")
    control = group / "cgroup.subtree_control"
    control.mkdir()  # writing to it fails, as the kernel's EBUSY does
    with pytest.raises(OSError, match="directory"):
        _cgroup.prepare(_cgroup.Hierarchy("u", ("cpu", "memory", "pids"), group), "quintain-0-0")
    assert (group / "quintain-house/cgroup.procs").read_text() == "102"  # each written by itself, the last one stays


def test_a_gauge_counts_only_new_memory_kills(tmp_path: Path) -> None:
    group = tmp_path / "memory/s1"
    group.mkdir(parents=True)
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (group / "memory.max_usage_in_bytes").write_text("4096\n")
    gauge = _cgroup.Gauge({"m": tmp_path / "memory"}, "s1")
    gauge.begin()
    assert gauge.read().oom_kills == 2
    assert gauge.read().oom_kills == 0
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    reading = gauge.read()
    assert (reading.oom_kills, reading.peak_memory_bytes, reading.peak_processes) == (1, 4096, None)
