"""Where control groups may be made is read from the host, whatever hierarchy it has."""

from __future__ import annotations

import os
from pathlib import Path

from quintain.sandbox import _cgroup, _slots

V1_LINE = "30 29 0:26 / {point} rw,relatime - cgroup cgroup rw,{controllers}\n"
V2_LINE = "31 29 0:27 {root} {point} rw,relatime - cgroup2 cgroup2 rw\n"


def host(tmp_path: Path, mounts: str, groups: str) -> Path:
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/mountinfo").write_text("22 1 0:20 / /proc rw - proc proc rw\n" + mounts)
    (proc / "self/cgroup").write_text(groups)
    return proc


def delegated(group: Path, controllers: str) -> Path:
    """A v2 group that is ours to divide, as far as plain files can play it."""
    group.mkdir(parents=True, exist_ok=True)
    (group / "cgroup.controllers").write_text(controllers + "\n")
    for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.events"):
        (group / name).touch()
    return group


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
    group = delegated(tmp_path / "cg/user.slice/run.scope", "cpuset cpu io memory pids")
    proc = host(tmp_path, V2_LINE.format(point=tmp_path / "cg", root="/"), "0::/user.slice/run.scope\n")
    found = _cgroup.survey(proc)
    assert [(h.kind, h.group) for h in found.usable] == [("u", group)]
    assert not found.missing


def test_inside_a_container_the_mounted_part_of_the_tree_counts(tmp_path: Path) -> None:
    group = delegated(tmp_path / "cg/inner", "cpu memory pids")
    proc = host(tmp_path, V2_LINE.format(point=tmp_path / "cg", root="/docker/abc"), "0::/docker/abc/inner\n")
    assert [h.group for h in _cgroup.survey(proc).usable] == [group]


def test_a_tree_mounted_outside_our_namespace_is_not_used(tmp_path: Path) -> None:
    """The kernel (nsdelegate) answers ENOENT to whoever would join a group there."""
    delegated(tmp_path / "cg", "cpu memory pids")
    found = _cgroup.survey(host(tmp_path, V2_LINE.format(point=tmp_path / "cg", root="/../.."), "0::/\n"))
    assert not found.usable
    assert "mount cgroup2 anew" in found.missing["memory"]


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
    group = delegated(tmp_path / "cg", "memory pids")
    found = _cgroup.survey(host(tmp_path, V2_LINE.format(point=group, root="/"), "0::/\n"))
    assert [h.controllers for h in found.usable] == [("memory", "pids")]
    assert set(found.missing) == {"cpu"}
    assert "delegate" in found.missing["cpu"]


def test_a_v2_group_without_memory_is_of_no_use(tmp_path: Path) -> None:
    group = delegated(tmp_path / "cg", "cpu pids")
    found = _cgroup.survey(host(tmp_path, V2_LINE.format(point=group, root="/"), "0::/\n"))
    assert not found.usable
    assert "does not offer memory" in found.missing["memory"]


def test_a_v2_group_is_ours_only_with_the_files_that_hand_down(tmp_path: Path) -> None:
    """A directory that we may write to is not enough: the manager must have given its control files away as well."""
    group = delegated(tmp_path / "cg", "cpu memory pids")
    (group / "cgroup.subtree_control").unlink()
    found = _cgroup.survey(host(tmp_path, V2_LINE.format(point=group, root="/"), "0::/\n"))
    assert not found.usable
    assert "Delegate=yes" in found.missing["memory"]


def test_whom_an_engine_has_moved_still_finds_the_group_that_it_divided(tmp_path: Path) -> None:
    """Else each engine of a house would dig one level deeper, and the next would not find what is left."""
    group = delegated(tmp_path / "cg/run.scope", "cpu memory pids")
    delegated(group / _cgroup.HOUSE, "cpu memory pids")
    mounts = V2_LINE.format(point=tmp_path / "cg", root="/")
    found = _cgroup.survey(host(tmp_path, mounts, f"0::/run.scope/{_cgroup.HOUSE}\n"))
    assert [h.group for h in found.usable] == [group]


def test_a_host_without_groups_says_so_for_every_controller(tmp_path: Path) -> None:
    found = _cgroup.survey(host(tmp_path, "", "0::/\n"))
    assert set(found.missing) == {"memory", "pids", "cpu", "cpuacct"}
    assert not found.usable


def test_a_mount_point_with_a_blank_is_found(tmp_path: Path) -> None:
    group = delegated(tmp_path / "odd name", "cpu memory pids")
    escaped = str(group).replace(" ", "\\040")
    found = _cgroup.survey(host(tmp_path, V2_LINE.format(point=escaped, root="/"), "0::/\n"))
    assert [h.group for h in found.usable] == [group]


def test_a_v2_group_with_processes_is_emptied_before_it_hands_controllers_down(tmp_path: Path) -> None:
    """The kernel's rule of no internal processes, as far as plain files can play it."""
    group = delegated(tmp_path / "scope", "memory pids")
    (group / "cgroup.procs").write_text("101\n102\n")
    delegated(group / "quintain-0-0", "memory pids")
    made = _cgroup.prepare(_cgroup.Hierarchy("u", ("memory", "pids"), group), "quintain-0-0")
    assert (group / _cgroup.HOUSE / "cgroup.procs").read_text() == "102"  # each written by itself, the last one stays
    assert (group / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert (made / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert not (made / _cgroup.HOUSE).exists()


def test_the_root_of_the_tree_keeps_its_processes(tmp_path: Path) -> None:
    group = delegated(tmp_path / "cg", "memory pids")
    (group / "cgroup.events").unlink()  # only the real root has none
    (group / "cgroup.procs").write_text("1\n2\n")
    delegated(group / "quintain-0-0", "memory pids")
    _cgroup.prepare(_cgroup.Hierarchy("u", ("memory", "pids"), group), "quintain-0-0")
    assert not (group / _cgroup.HOUSE).exists()


def test_a_group_that_hands_down_already_is_left_alone(tmp_path: Path) -> None:
    group = delegated(tmp_path / "scope", "memory pids")
    (group / "cgroup.subtree_control").write_text("cpuset memory pids\n")
    (group / "cgroup.procs").write_text("101\n")
    delegated(group / "quintain-0-1", "memory pids")
    _cgroup.prepare(_cgroup.Hierarchy("u", ("memory", "pids"), group), "quintain-0-1")
    assert not (group / _cgroup.HOUSE).exists()
    assert (group / "cgroup.subtree_control").read_text() == "cpuset memory pids\n"


def test_a_slot_tells_where_its_groups_are_wherever_the_next_one_stands(tmp_path: Path) -> None:
    """On a v2 host they lie in the group of the shell that started the house, and the cleaner has another shell."""
    nobody = 10 * _slots.SLOTS  # the host's own groups are looked through as well
    slot = _slots.Slot(nobody, os.open(tmp_path / "slot.lock", os.O_RDWR | os.O_CREAT))
    left = tmp_path / "run-1.scope" / slot.name
    (left / "s3").mkdir(parents=True)
    (tmp_path / "run-1.scope" / _cgroup.HOUSE).mkdir()
    other = tmp_path / "run-1.scope" / "not-ours"
    other.mkdir()
    os.write(slot.lock, f"{left}\n{other}\n".encode())
    assert _slots.sweep(slot) == 2
    assert [p.name for p in (tmp_path / "run-1.scope").iterdir()] == ["not-ours"]
    os.close(slot.lock)
