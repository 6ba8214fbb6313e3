"""A training from its first step to its last: checkpoints, logs, memory, losses of the house, and going on."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import quintain.train as face
from quintain.tasks import Item, open_taskset
from quintain.train import (
    Attempted,
    Board,
    Checkpoints,
    Control,
    Judged,
    Line,
    Log,
    Memory,
    Plan,
    RepairSettings,
    Row,
    demo_of,
    lines_of,
    repair_learner,
    spark_line,
    train,
    write_page,
    write_png,
)
from quintain.train.repair_problem import lead_of
from quintain.types import Passed, Task, TestResult, Verdict

torch = pytest.importorskip("torch", reason="needs torch: make torch")


def items() -> list[Item]:
    return list(open_taskset("repair-train?include=repair/sum_even/*&include=repair/largest/*"))


def exact(known: Sequence[Item]) -> Any:
    """Judges by the author's answer alone, without running anything: for tests of what a trainer does with rewards."""
    answers = {item.task.id: (item.exam.oracle or {})["solution.py"] for item in known}

    async def judge(attempts: Sequence[Attempted]) -> list[Judged]:
        found = []
        for attempt in attempts:
            right = attempt.files["solution.py"] == answers[attempt.task]
            passed = Passed.PASSED if right else Passed.FAILED
            verdict = Verdict(suite="s", level="L4", tests=(TestResult(id="test_solution.py::test_0", passed=passed),))
            found.append(Judged(reward=float(right), solved=right, verdict=verdict))
        return found

    return judge


def learner(
    memory: Memory, *, practised: Sequence[Task] = (), exams: Mapping[str, str] | None = None, **dials: Any,
) -> Any:
    known = items()
    demos = [demo_of(item.task, (item.exam.oracle or {})["solution.py"]) for item in known[:6]]
    dials = {"sft_steps": 4, "rl_steps": 6, "batch": 4, "group": 4, "width": 16, "layers": 1, **dials}
    return repair_learner(
        [i.task for i in known[:16]], [i.task for i in known[16:20]], [d for d in demos if d is not None], memory,
        RepairSettings(**dials), exams=exams, practised=practised)


def trained(folder: Path, plan: Plan | None = None, **dials: Any) -> Any:
    async def run() -> Any:
        made = learner(Memory(exact(items()), file=folder / "executed.jsonl"), **dials)
        await made.prepare()
        return made, await train(made, folder, plan or Plan(evaluate_every=3))

    folder.mkdir(exist_ok=True)
    return asyncio.run(run())


class Cut(Exception):
    pass


@pytest.mark.parametrize("staleness", [0, 1])
@pytest.mark.parametrize("after", [2, 6])
def test_a_training_that_was_cut_short_ends_bit_equal_to_one_that_was_not(
    tmp_path: Path, staleness: int, after: int,
) -> None:
    whole, _ = trained(tmp_path / "whole", staleness=staleness)

    def cut(row: Row) -> None:
        if row.step == after:
            raise Cut

    async def until_cut() -> None:
        folder = tmp_path / "cut"
        folder.mkdir()
        made = learner(Memory(exact(items()), file=folder / "executed.jsonl"), staleness=staleness)
        await made.prepare()
        await train(made, folder, Plan(evaluate_every=3), watch=cut)

    with pytest.raises(Cut):
        asyncio.run(until_cut())
    again, ended = trained(tmp_path / "cut", staleness=staleness)
    assert ended.resumed_at == after
    for name, value in whole.net.state_dict().items():
        assert torch.equal(value, again.net.state_dict()[name]), name
    logs = [Log(tmp_path / name / "metrics.jsonl").rows() for name in ("whole", "cut")]
    assert [(r.step, r.train, r.held_out) for r in logs[0]] == [(r.step, r.train, r.held_out) for r in logs[1]]


@pytest.mark.parametrize("staleness", [0, 1])
def test_what_a_killed_step_had_executed_already_changes_nothing_when_it_is_made_again(
    tmp_path: Path, staleness: int,
) -> None:
    whole, _ = trained(tmp_path / "whole", staleness=staleness)
    (tmp_path / "knows").mkdir()
    shutil.copy(tmp_path / "whole" / "executed.jsonl", tmp_path / "knows")
    again, _ = trained(tmp_path / "knows", staleness=staleness)
    assert again.memory.executed == 0
    for name, value in whole.net.state_dict().items():
        assert torch.equal(value, again.net.state_dict()[name]), name


def test_another_seed_is_another_training(tmp_path: Path) -> None:
    one, _ = trained(tmp_path / "one", seed=1)
    other, _ = trained(tmp_path / "other", seed=2)
    assert not torch.equal(one.net.query.weight, other.net.query.weight)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    trained(tmp_path / "run")
    with pytest.raises(ValueError, match="expected a checkpoint of the same settings"):
        trained(tmp_path / "run", rate=0.5)


def test_an_early_stop_and_a_budget_end_a_training(tmp_path: Path) -> None:
    _, early = trained(tmp_path / "early", Plan(evaluate_every=1, patience=2), rate=0.0, sft_rate=0.0)
    assert early.why == "early" and early.step < 10
    _, spent = trained(tmp_path / "spent", Plan(cpu_seconds=1e-9))
    assert spent.why == "budget" and spent.step == 1


def test_the_log_has_one_flat_row_for_each_step(tmp_path: Path) -> None:
    _, ended = trained(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["_step"] for row in rows] == list(range(1, 11))
    assert all(isinstance(value, int | float | str) for row in rows for value in row.values())
    assert {"train/loss", "train/reward"} <= {name for row in rows for name in row}
    assert [row["_step"] for row in rows if "held_out/pass_at_1" in row] == [3, 4, 6, 9, 10]
    assert ended.last == lines_last(rows)


def lines_last(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {name.removeprefix("held_out/"): value for name, value in rows[-1].items() if name.startswith("held_out/")}


def test_old_checkpoints_go_and_the_best_stays(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2, every=4)
    for step in range(1, 8):
        checkpoints.save(step, {"n": torch.tensor(step)}, best=step == 2, sync=False)
    assert checkpoints.steps() == [2, 4, 6, 7]
    assert checkpoints.best == 2


def test_a_torn_checkpoint_is_passed_over(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"n": 1})
    whole = checkpoints.save(2, {"n": 2}).read_bytes()
    checkpoints.path(2).write_bytes(whole[: len(whole) // 2])
    assert checkpoints.newest() == (1, {"n": 1})


def test_a_memory_executes_each_content_once_and_never_a_failure_of_the_house(tmp_path: Path) -> None:
    asked: list[str] = []

    async def judge(attempts: Sequence[Attempted]) -> list[Judged]:
        asked.extend(attempt.task for attempt in attempts)
        return [Judged(reward=None if attempt.task == "lost" else 1.0, solved=True) for attempt in attempts]

    def attempt(task: str, content: bytes = b"x") -> Attempted:
        return Attempted(task=task, exam=task, files={"solution.py": content})

    async def twice() -> None:
        memory = Memory(judge, file=tmp_path / "executed.jsonl")
        first = await memory.judge([attempt("a"), attempt("lost"), attempt("a"), attempt("a", b"y")])
        assert [one.reward for one in first] == [1.0, None, 1.0, 1.0]
        await memory.judge([attempt("a"), attempt("lost")])
        assert (memory.requested, memory.executed, memory.executed_share) == (6, 4, 4 / 6)
        with (tmp_path / "executed.jsonl").open("ab") as torn:
            torn.write(b'{"digest":')
        later = Memory(judge, file=tmp_path / "executed.jsonl")
        await later.judge([attempt("a"), attempt("a", b"z")])
        assert (later.requested, later.executed) == (2, 1)

    asyncio.run(twice())
    assert asked == ["a", "lost", "a", "lost", "a"]
    assert (tmp_path / "executed.jsonl").read_bytes().count(b"\n") == 3


def test_lost_rewards_are_in_no_baseline_and_naive_ones_are_zero(tmp_path: Path) -> None:
    def unmeasured(folder: str, **dials: Any) -> float:
        trained(tmp_path / folder, fresh=4, often=1, sft_steps=1, rl_steps=8, **dials)
        rows = Log(tmp_path / folder / "metrics.jsonl").rows()
        return sum(row.train.get("unmeasured", 0.0) for row in rows) / 8

    assert unmeasured("well") == 0.0
    assert 0.15 < unmeasured("lost", house_failures=0.3) < 0.45
    assert unmeasured("naive", house_failures=0.3, naive=True) == 0.0


def test_a_group_beyond_its_fresh_programs_is_not_measured(tmp_path: Path) -> None:
    made, _ = trained(tmp_path, fresh=1, group=8)
    rows = Log(tmp_path / "metrics.jsonl").rows()
    assert any(row.train.get("unmeasured", 0.0) > 0 for row in rows)
    assert made.memory.executed < made.memory.requested


@pytest.mark.parametrize("staleness", [0, 1])
def test_a_batch_asks_for_one_new_program_of_each_group_drawn_ahead_or_not(staleness: int) -> None:
    sizes: list[int] = []

    async def judge(attempts: Sequence[Attempted]) -> list[Judged]:
        sizes.append(len(attempts))
        found: list[Judged] = await exact(items())(attempts)
        return found

    async def run() -> Any:
        made = learner(Memory(judge), staleness=staleness, rl_steps=12, group=8)
        await made.prepare()
        while made.stage == "sft":
            await made.update()
        sizes.clear()
        while not made.done:
            await made.update()
        return made

    made = asyncio.run(run())
    assert 0 < max(sizes) <= 4 and sum(sizes) <= 12 * 4
    assert made.memory.requested <= 12 * 4 * 8 + 40  # each draw is asked for once


def test_where_a_group_can_be_compared_already_only_what_is_drawn_often_is_executed() -> None:
    async def run() -> Any:
        made = learner(Memory(exact(items())), often=3, fresh=2)
        await made.prepare()
        return made

    made = asyncio.run(run())
    known = {id: problem.outcomes(made._outcomes.get) for id, problem in made.problems.items()}
    task, outcomes = next((id, found) for id, found in known.items() if len(set(found.values())) == 2)
    right, wrong = (min(pick for pick, solves in outcomes.items() if solves is kind) for kind in (True, False))
    new = [pick for pick in range(len(made.problems[task].case.code.edits)) if pick not in outcomes]
    assert made._to_measure(outcomes, [right, wrong, new[0], new[0]]) == {right, wrong}
    assert made._to_measure(outcomes, [right, wrong, *[new[0]] * 3, new[1]]) == {right, wrong, new[0]}
    assert made._to_measure(outcomes, [wrong, new[0], new[1], new[1], new[2]]) == {wrong, new[0], new[1]}


def test_a_group_is_led_to_what_solved_the_task_then_to_what_is_likeliest_and_untried() -> None:
    assert lead_of({0: False, 1: True, 3: True}, (), [0.5, 0.1, 0.2, 0.2]) == 3
    assert lead_of({0: False}, (2,), [0.5, 0.1, 0.3, 0.2]) == 3
    assert lead_of({0: False}, (1,), [0.5, 0.5]) is None


def test_a_program_that_was_executed_for_a_sibling_is_known_for_each_fault_that_leads_to_it() -> None:
    async def run() -> Any:
        exams = {item.task.id: str(item.task.entry.name) for item in items()}
        made = learner(Memory(exact(items())), exams=exams)
        await made.prepare()
        return made

    made = asyncio.run(run())
    shown = {demo.task for demo in made._demos}
    led = {id: lead_of(problem.outcomes(made._outcomes.get), (), [0.0] * 200)
           for id, problem in made.problems.items() if id not in shown}
    answers = {item.task.id: (item.exam.oracle or {})["solution.py"] for item in items()}
    right = {id for id, pick in led.items() if made.problems[id].attempted(pick).files["solution.py"] == answers[id]}
    siblings = {id for id in led if any(id.split("/")[1] in task for task in shown)}
    assert siblings and siblings <= right


def test_what_is_practised_is_evaluated_where_everything_is(tmp_path: Path) -> None:
    known = items()
    made = learner(Memory(exact(known)), practised=[item.task for item in known[20:23]])
    told = asyncio.run(made.evaluate())
    assert (told["tasks"], told["practised_tasks"]) == (4.0, 3.0)
    assert 0.0 <= told["practised_pass_at_1"] <= told["practised_within_3"] <= 1.0
    assert "practised_tasks" not in asyncio.run(made.evaluate(2))


def test_what_is_evaluated_is_the_mean_of_the_parameters_over_the_updates(tmp_path: Path) -> None:
    slow, _ = trained(tmp_path / "slow", average=0.9)
    assert not torch.equal(slow.mean.query.weight, slow.net.query.weight)
    quick, _ = trained(tmp_path / "quick", average=0.0)
    assert torch.equal(quick.mean.query.weight, quick.net.query.weight)


@pytest.mark.parametrize("control", ["random", "constant", "shuffled"])
def test_a_control_changes_what_is_learnt_and_not_what_is_measured(tmp_path: Path, control: str) -> None:
    plain, _ = trained(tmp_path / "plain")
    other, ended = trained(tmp_path / "other", control=Control(control))
    assert not torch.equal(plain.net.query.weight, other.net.query.weight)
    assert 0.0 <= ended.last["pass_at_1"] <= 1.0


def test_a_curve_is_drawn(tmp_path: Path) -> None:
    trained(tmp_path)
    lines = lines_of(Log(tmp_path / "metrics.jsonl").rows())
    assert [line.name for line in lines] == ["held out, first attempt", "held out, within three", "reward in training"]
    write_page(tmp_path / "curve.html", lines, title="a <title>", facts={"seed": "0"})
    page = (tmp_path / "curve.html").read_text()
    assert "<svg" in page and "a &lt;title&gt;" in page and page.count("<path") >= 3
    assert spark_line([0.0, 0.5, 1.0]) == " ▄█"
    assert len(spark_line([0.1] * 100)) == 40


def test_a_curve_is_a_picture_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="a PNG needs matplotlib: pip install quintain[curves]")
    write_png(tmp_path / "curve.png", [Line(name="held out", points=((0, 0.2), (10, 0.5)))], title="a title")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_tensorboard_reads_what_a_training_told_and_a_resumed_one_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="event files need tensorboardX: pip install quintain[curves]")
    from tensorboardX.proto import event_pb2

    rows = [Row(step=n, stage="rl", train={"reward": n / 10}, held_out={"pass_at_1": 0.5}, unix_seconds=1.0)
            for n in range(3)]
    for part in (rows[:2], rows[2:]):
        board = Board(tmp_path)
        for row in part:
            board.show(row)
        board.close()
    found = []
    for file in sorted(tmp_path.glob("events*")):
        content = file.read_bytes()
        while content:  # length, its checksum, the event, its checksum (TFRecord)
            size = int.from_bytes(content[:8], "little")
            event = event_pb2.Event.FromString(content[12: 12 + size])
            found += [(event.step, value.tag, round(value.simple_value, 4)) for value in event.summary.value]
            content = content[16 + size:]
    wanted = [(n, "train/reward", n / 10) for n in range(3)] + [(n, "held_out/pass_at_1", 0.5) for n in range(3)]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("wrong", [{"group": 1}, {"again": 1.0}, {"staleness": 2}, {"fresh": 0}])
def test_settings_that_cannot_be_are_refused(wrong: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        RepairSettings(**wrong)


def test_a_second_learner_can_be_made_after_the_first() -> None:
    learner(Memory(exact(items())))
    assert callable(face.repair_learner) and callable(face.lm_learner)
