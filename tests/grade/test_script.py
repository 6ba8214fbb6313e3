"""Scripts that judge: what crosses to them, what they may say, and whose each failure is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import Frozen, Made, World, as_frozen, check_script, freeze, read_rewards
from quintain.sandbox import NativeBackend, Snapshot
from quintain.tasks import Blend, Item, ScriptStep, ScriptSuite, open_taskset, write_taskset
from quintain.types import FaultKind, Limits, Owner, Passed, TaskError, Verdict

from ..tasks import harbors
from .ground import needs_native

LIMITS = Limits(wall_seconds=30, cpu_seconds=30)


def script(text: str, **fields: object) -> ScriptSuite:
    """A suite whose script is this one, in the places that a sandbox without a writable root has."""
    plain = {"folder": "/tmp/tests", "argv": ("sh", "/tmp/tests/test.sh"),
             "reward_files": ("/tmp/verifier/reward.json", "/tmp/verifier/reward.txt"), "root": "/work"}
    return ScriptSuite(**{"files": {"test.sh": text.encode()}, **plain, **fields})  # type: ignore[arg-type]


def verdict_of(suite: ScriptSuite, *answers: Mapping[str, bytes]) -> Verdict:
    async def judged() -> Verdict:
        async with NativeBackend() as backend:
            trees = [as_frozen(answer, suite) for answer in answers]
            return await check_script(backend, suite, trees, limits=LIMITS)

    return asyncio.run(judged())


def tried(item: Item, answers: Mapping[str, Mapping[str, bytes]], cache: Path) -> dict[str, tuple[Made, Verdict]]:
    """Each answer made in the task's own image and judged by the task's script."""

    async def all_of_them() -> dict[str, tuple[Made, Verdict]]:
        found = {}
        async with NativeBackend() as backend:
            world = World(backend, cache=cache, bases={"*": "host"})
            for name, answer in answers.items():
                made = await world.make(item, answer, oracle=name == "oracle")
                found[name] = made, await world.grade(item, made.trees)
        return found

    return asyncio.run(all_of_them())


def harbor_item(path: Path) -> Item:
    tasks = open_taskset(str(path))
    return tasks[tasks.ids[0]]


def both_ways(item: Item, cache: Path) -> tuple[Verdict, Verdict]:
    found = tried(item, {"oracle": item.exam.oracle or {}, "nop": item.exam.null[0]}, cache)
    return found["oracle"][1], found["nop"][1]


PASS_IF_42 = "[ \"$(cat answer.txt 2>/dev/null)\" = 42 ] && echo 1 > /tmp/verifier/reward.txt " \
    "|| echo 0 > /tmp/verifier/reward.txt\n"


@needs_native
def test_a_script_tells_a_right_answer_from_a_wrong_one() -> None:
    right = verdict_of(script(PASS_IF_42), {"answer.txt": b"42\n"})
    assert right.solved
    assert right.level == "L2"
    wrong = verdict_of(script(PASS_IF_42), {"answer.txt": b"41\n"})
    assert not wrong.solved
    fault = wrong.tests[0].fault
    assert fault is not None
    assert fault.kind is FaultKind.WRONG_ANSWER
    assert fault.owner is Owner.POLICY


@needs_native
def test_each_required_reward_is_a_test() -> None:
    text = "echo '{\"reward\": 1, \"style\": 0.5, \"extra\": 0}' > /tmp/verifier/reward.json\n"
    verdict = verdict_of(script(text, required=("reward", "style", "absent")), {})
    assert {test.id: test.passed for test in verdict.tests} == {
        "reward": Passed.PASSED, "style": Passed.FAILED, "absent": Passed.MISSING}
    assert "extra = 0" in verdict.evidence[0].text, "what is not required is evidence"


@needs_native
@pytest.mark.parametrize(("text", "kind"), [
    ("true\n", FaultKind.MISSING_REQUIRED_TEST),
    (": > /tmp/verifier/reward.txt\n", FaultKind.MISSING_REQUIRED_TEST),
    ("echo nan > /tmp/verifier/reward.txt\n", FaultKind.MISSING_REQUIRED_TEST),
    ("echo one > /tmp/verifier/reward.txt\n", FaultKind.MISSING_REQUIRED_TEST),
    ("mkdir /tmp/verifier/reward.txt\n", FaultKind.REPORT_FORGED),
    ("echo 1 > /tmp/one; ln -s /tmp/one /tmp/verifier/reward.txt\n", FaultKind.REPORT_FORGED),
    ("head -c 100000 /dev/zero > /tmp/verifier/reward.txt\n", FaultKind.REPORT_FORGED),
    ("echo 1 > /tmp/verifier/reward.txt; sleep 60\n", FaultKind.TIMEOUT),
], ids=["none", "empty", "nan", "word", "folder", "link", "flood", "hangs"])
def test_what_is_no_reward_is_none(text: str, kind: FaultKind) -> None:
    verdict = verdict_of(script(text, wall_seconds=2.0), {"a": b""})
    assert not verdict.solved
    assert verdict.fault is not None
    assert verdict.fault.kind is kind


@needs_native
def test_a_process_that_is_left_behind_cannot_write_the_reward() -> None:
    text = "(sleep 1; echo 1 > /tmp/verifier/reward.txt) &\necho 0 > /tmp/verifier/reward.txt\n"
    assert not verdict_of(script(text), {}).solved


@needs_native
def test_a_reward_that_the_answer_brings_along_is_not_there_when_the_script_starts() -> None:
    suite = script("true\n", root="/", artifacts=("/",))
    verdict = verdict_of(suite, {"tmp/verifier/reward.txt": b"1", "tmp/verifier/reward.json": b"1"})
    assert not verdict.solved
    assert any("never crosses" in evidence.text for evidence in verdict.evidence)


@needs_native
def test_an_answer_cannot_replace_or_block_the_tests() -> None:
    suite = script(PASS_IF_42, root="/", artifacts=("/",))
    for path in ("tmp/tests/test.sh", "tmp/tests", "tmp/verifier", "tmp", "work"):
        verdict = verdict_of(suite, {path: b"echo 1 > /tmp/verifier/reward.txt\n"})
        fault = verdict.fault or verdict.tests[0].fault
        assert fault is not None
        assert (fault.owner, fault.kind) == (Owner.POLICY, FaultKind.WRONG_ANSWER), path


@needs_native
def test_tests_that_cannot_be_started_are_the_task_s_fault() -> None:
    with pytest.raises(TaskError, match="cannot be started") as error:
        verdict_of(script("", argv=("/tmp/tests/absent",)), {})
    assert error.value.kind is FaultKind.TASK_ENVIRONMENT


@needs_native
def test_an_answer_that_removes_the_interpreter_of_the_tests_has_failed(tmp_path: Path) -> None:
    item = harbor_item(harbors.small(
        tmp_path / "task",
        environment__Dockerfile="FROM host\nWORKDIR /app\nRUN mkdir -p /opt/x && cp /bin/sh /opt/x/sh\n",
        tests__test_dot_sh="#!/opt/x/sh\necho 0 > /logs/verifier/reward.txt\n"))
    cheat = {"solve.sh": b"#!/bin/sh\nrm -r /opt/x\n"}
    _, verdict = tried(item, {"cheat": cheat}, tmp_path / "cache")["cheat"]
    assert verdict.fault is not None
    assert (verdict.fault.owner, verdict.fault.kind) == (Owner.POLICY, FaultKind.MISSING_REQUIRED_TEST)


@needs_native
def test_tests_that_need_a_writable_root_say_so() -> None:
    with pytest.raises(TaskError, match=r"does the image have a writable root"):
        verdict_of(ScriptSuite(files={"test.sh": b"#!/bin/sh\n"}), {})


@needs_native
def test_an_answer_that_does_not_fit_is_judged() -> None:
    verdict = verdict_of(script(PASS_IF_42), {f"{'d/' * 200}{'x' * 200}{n}": b"" for n in range(2)} | {
        "big": b"x" * (200 << 20)})
    assert verdict.fault is not None
    assert verdict.fault.owner is Owner.POLICY


@needs_native
def test_steps_are_graded_each_on_the_tree_after_it() -> None:
    step = {name: ScriptStep(name=name, instructions="", argv=("sh", "/tmp/tests/test.sh"), files={
        "test.sh": f"test -f {name} && echo 1 > /tmp/verifier/reward.txt || echo 0 > /tmp/verifier/reward.txt".encode()
    }) for name in ("one", "two")}
    suite = script("", steps=tuple(step.values()))
    trees = ({"one": b""}, {"two": b""})
    assert verdict_of(suite, *trees).solved
    alone = verdict_of(suite, trees[1])
    assert [test.passed for test in alone.tests] == [Passed.FAILED, Passed.PASSED]
    assert any("last tree" in evidence.text for evidence in alone.evidence)
    final = script("", steps=tuple(step.values()), blend=Blend.FINAL)
    assert verdict_of(final, trees[1]).solved


@needs_native
def test_steps_after_one_that_stays_below_its_least_are_not_asked() -> None:
    zero = {"test.sh": b"echo 0 > /tmp/verifier/reward.txt"}
    argv = ("sh", "/tmp/tests/test.sh")
    steps = (ScriptStep(name="one", instructions="", files=zero, argv=argv, least={"reward": 0.5}),
             ScriptStep(name="two", instructions="", argv=argv, files={"test.sh": PASS_IF_42.encode()}))
    verdict = verdict_of(script("", steps=steps), {"answer.txt": b"42"})
    assert [test.passed for test in verdict.tests] == [Passed.FAILED, Passed.MISSING]
    assert verdict.tests[1].fault is not None
    assert "not asked" in verdict.tests[1].fault.message


@needs_native
def test_a_harbor_oracle_solves_its_task_and_nop_does_not(tmp_path: Path) -> None:
    item = harbor_item(harbors.small(tmp_path / "task"))
    oracle, nop = both_ways(item, tmp_path / "cache")
    assert oracle.solved
    assert oracle.level == "L1"
    assert not nop.solved
    assert nop.fault is None, "a wrong answer, and no fault of the task"


@needs_native
def test_a_harbor_task_in_steps_is_made_and_judged_step_by_step(tmp_path: Path) -> None:
    item = harbor_item(harbors.in_steps(tmp_path / "task"))
    found = tried(item, {"oracle": item.exam.oracle or {}, "nop": item.exam.null[0]}, tmp_path / "cache")
    made, verdict = found["oracle"]
    assert verdict.solved
    assert "app/was_set_up.txt" in made.trees[0].files
    assert "app/one.txt" in made.trees[0].files
    assert "app/one.txt" not in made.trees[1].files
    assert not found["nop"][1].solved


@needs_native
def test_a_dockerfile_is_built_on_the_base_that_is_given_for_it(tmp_path: Path) -> None:
    item = harbor_item(harbors.small(
        tmp_path / "task", environment__Dockerfile="FROM ubuntu:24.04\nWORKDIR /app\nCOPY seed.txt /app/\n",
        environment__seed_dot_txt="seed\n",
        tests__test_dot_sh="#!/bin/bash\ngrep -q seed /app/seed.txt && [ -f answer.txt ] && r=1 || r=0\n"
                           "echo $r > /logs/verifier/reward.txt\n",
    ))
    oracle, nop = both_ways(item, tmp_path / "cache")
    assert oracle.solved
    assert not nop.solved


def test_a_registry_s_image_without_a_base_is_refused_by_name(tmp_path: Path) -> None:
    world = World(NativeBackend(), cache=tmp_path, bases={"debian:12": "host"})
    toml = harbors.SMALL["task.toml"] + 'docker_image = "ubuntu:24.04"\n'
    item = harbor_item(harbors.small(tmp_path / "task", task_dot_toml=toml))
    with pytest.raises(TaskError, match=r"the image 'ubuntu:24\.04' is a registry's: say what to take for it"):
        world.image(item)


@needs_native
def test_a_removed_file_stays_removed(tmp_path: Path) -> None:
    item = harbor_item(harbors.small(
        tmp_path / "task", environment__Dockerfile="FROM host\nWORKDIR /app\nRUN echo x > /app/old.txt\n",
        solution__solve_dot_sh="#!/bin/bash\nrm /app/old.txt\n",
        tests__test_dot_sh="#!/bin/bash\n[ ! -e /app/old.txt ] && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n",
    ))
    oracle, nop = both_ways(item, tmp_path / "cache")
    assert oracle.solved
    assert not nop.solved


@needs_native
def test_tools_that_an_answer_replaces_do_not_reach_the_judge(tmp_path: Path) -> None:
    item = harbor_item(harbors.small(tmp_path / "task"))
    shim = b"#!/bin/sh\necho 42\n"
    cheat = {"solve.sh": b"#!/bin/bash\nfor t in cat bash; do cp /solution/shim /usr/bin/$t.new && mv /usr/bin/$t.new "
                         b"/usr/bin/$t; done\nmkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.json\n",
             "shim": shim}
    made, verdict = tried(item, {"cheat": cheat}, tmp_path / "cache")["cheat"]
    assert any("usr/bin/cat: never crosses" in said for said in made.trees[0].left_out)
    assert not verdict.solved


@needs_native
def test_a_separate_verifier_sees_what_is_published_and_names_what_is_missing(tmp_path: Path) -> None:
    toml = harbors.SMALL["task.toml"] + '[verifier]\nenvironment_mode = "separate"\n'
    item = harbor_item(harbors.small(
        tmp_path / "task", task_dot_toml='artifacts = ["/app/answer.txt"]\n' + toml))
    oracle, nop = both_ways(item, tmp_path / "cache")
    assert oracle.solved
    assert oracle.level == "L2"
    assert not nop.solved
    assert [e.text for e in nop.evidence if e.source == "artifact missing"] == [
        "/logs/artifacts: nothing there", "/app/answer.txt: nothing there"]


@needs_native
def test_tasks_written_as_harbor_directories_judge_as_before(tmp_path: Path) -> None:
    tasks = open_taskset("humaneval?take=1")
    write_taskset(tasks, tmp_path / "out", format="harbor")
    oracle, nop = both_ways(harbor_item(tmp_path / "out"), tmp_path / "cache")
    assert oracle.solved
    assert not nop.solved


@needs_native
def test_variables_of_a_task_come_from_whoever_runs_it_and_never_from_the_house(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD", "of the house")
    toml = harbors.SMALL["task.toml"] + 'env = {SAID = "${WORD}", OTHER = "${NONE:-42}"}\n'
    item = harbor_item(harbors.small(
        tmp_path / "task", task_dot_toml=toml, solution__solve_dot_sh="#!/bin/bash\necho $OTHER > answer.txt\n"))

    async def made(variables: dict[str, str]) -> Verdict:
        async with NativeBackend() as backend:
            world = World(backend, cache=tmp_path, variables=variables)
            return await world.grade(item, (await world.make(item, item.exam.oracle or {})).trees)

    assert asyncio.run(made({"WORD": "given"})).solved
    with pytest.raises(TaskError, match=r"needs a value for \$\{WORD\}"):
        asyncio.run(made({}))


@pytest.mark.parametrize(("content", "expected"), [
    (b"1\n", {"reward": 1.0}), (b" 0.25 ", {"reward": 0.25}), (b"\xef\xbb\xbf1", {"reward": 1.0}),
])
def test_a_number_is_the_reward(content: bytes, expected: dict[str, float]) -> None:
    assert read_rewards(content, json_text=False) == expected


@pytest.mark.parametrize(("content", "said"), [
    (b'{"reward": 1, "reward": 0}', "each name once"), (b'{"reward": "1"}', "finite number"),
    (b'{"reward": NaN}', "finite number"), (b'{"reward": 1e309}', "finite number"), (b'{"reward": null}', "finite"),
    (b"[1]", "finite number"), (b"{", "expected JSON"), (b"", "empty file"), (b"\xff\xfe", "UTF-8"),
    (b"[" * 100_000, "expected JSON"), (b'{"reward": {"a": 1}}', "finite number"),
])
def test_anything_else_is_no_reward(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_rewards(content, json_text=True)


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_are_more_than_a_reward_or_an_error(content: bytes, json_text: bool) -> None:
    try:
        found = read_rewards(content, json_text=json_text)
    except ValueError:
        return
    assert all(isinstance(value, float) for value in found.values())


def test_a_snapshot_that_is_no_tar_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a snapshot's tar"):
        freeze(Snapshot(image="host", image_digest="host", content=b"x" * 2048), ScriptSuite(files={}))


def test_what_is_named_crosses_and_nothing_else() -> None:
    suite = ScriptSuite(files={}, artifacts=("/app", "/var/log/x.log"))
    files = {"app/a": b"#!/bin/sh", "app2/b": b"", "var/log/x.log": b"", "etc/passwd": b""}
    frozen = as_frozen(files, suite)
    assert set(frozen.files) == {"app/a", "var/log/x.log"}
    assert frozen.executable == {"app/a"}
    assert isinstance(frozen, Frozen)


@needs_native
def test_a_terminal_bench_task_is_judged_by_how_its_tests_end(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    harbors.write(tmp_path / "demo", {
        "task.yaml": "instruction: Write 42.\n", "Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n",
        "run-tests.sh": "#!/bin/bash\n[ \"$(cat /app/answer.txt)\" = 42 ] && [ -f $TEST_DIR/data.txt ]\n",
        "tests/data.txt": "data\n", "solution.sh": "#!/bin/bash\necho 42 > answer.txt\n",
    })
    oracle, nop = both_ways(harbor_item(tmp_path / "demo"), tmp_path / "cache")
    assert oracle.solved
    assert not nop.solved


@needs_native
def test_an_answer_that_removes_the_work_folder_fails_by_itself_and_not_by_the_task(tmp_path: Path) -> None:
    told = harbors.SMALL["task.toml"].replace("/app", "/work")  # a folder of the image: its removal is kept
    item = harbor_item(harbors.small(tmp_path / "task", task_dot_toml=told))
    leaving = {"solve.sh": b"#!/bin/sh\nhere=$PWD; cd /; rm -rf \"$here\"\n"}
    _, verdict = tried(item, {"gone": leaving}, tmp_path / "cache")["gone"]
    assert not verdict.solved
    fault = verdict.tests[0].fault
    assert fault is not None and fault.owner is Owner.POLICY
