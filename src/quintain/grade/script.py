"""Tests that are a script and write a reward: Harbor's tests/test.sh, on a frozen answer in a sandbox of its own.

Covers: the sandbox is fresh and has another user than the one where the answer was made, whose processes are gone and
from whose files only regular ones cross; rewards that lie in the image or the answer are removed first; the reward is
read when every process of the script has been killed, from a regular file of bounded size, and is believed only as a
finite number. Level L2 where artifacts are named, L1 where all files cross (`ScriptSuite.level`).
Does not cover: a script that runs the answer's code runs it as the user that writes the reward, and the answer's files
may name programs that the script starts: neither L1 nor L2 withstands an answer that means to deceive.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from quintain.grade import evidence
from quintain.grade.build import verifier_build
from quintain.grade.frozen import Frozen
from quintain.grade.shield import laid, told_of
from quintain.sandbox import Backend, Sandbox
from quintain.tasks import Blend, ScriptStep, ScriptSuite
from quintain.types import (
    MEBIBYTE,
    Evidence,
    Fault,
    FaultKind,
    Limits,
    Network,
    Outcome,
    Owner,
    Passed,
    Status,
    TaskError,
    TestResult,
    Verdict,
    content_digest,
)

MAX_REWARD_BYTES = 64 * 1024
_QUOTED = 400
_AT_ONCE = 500  # paths in one command


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a script: how it ended, what it wrote, and what is wrong with that, if anything is."""

    outcome: Outcome
    rewards: dict[str, float] = {}
    fault: Fault | None = None
    shadowing: tuple[str, ...] = ()


async def check_script(
    backend: Backend, suite: ScriptSuite, answers: Sequence[Frozen], *, image: str = "host", limits: Limits,
    network: Network = Network.NONE,
) -> Verdict:
    """What the script says of an answer: of a task in steps, one tree after each step, or the last tree alone, on which
    then every step's tests are run. `image` is one that the backend opens (see `World`). A test is a required reward:
    it has passed when it is at least 1; of a task in steps each is called STEP/REWARD.

    Raises TaskError for a script that cannot be started, HouseError when the house fails, ValueError without a tree.
    """
    if not answers:
        raise ValueError("expected at least one tree to judge, found none")
    started = time.monotonic()
    runs: list[tuple[ScriptStep | None, Ran]] = []
    below: str | None = None  # the step after which no other is asked
    for number, step in enumerate(suite.steps or (None,)):
        if below is not None:
            fault = _policy(FaultKind.MISSING_REQUIRED_TEST, f"not asked: {below} stayed below its least reward")
            runs.append((step, Ran(outcome=Outcome(status=Status.NOT_STARTED), fault=fault)))
            continue
        tree = answers[min(number, len(answers) - 1)]
        ran = await _run(backend, suite, step, tree, image=image, limits=limits, network=network)
        if _crashed(ran):
            alone = await _run(backend, suite, step, Frozen(files={}), image=image, limits=limits, network=network)
            if alone.outcome.exit_code == ran.outcome.exit_code and alone.outcome.signal == ran.outcome.signal:
                said = f"the script crashes without any answer, too: {ran.fault.message if ran.fault else ''}"
                fault = Fault(owner=Owner.HOUSE, kind=FaultKind.VERIFIER_ERROR, message=said)
                ran = msgspec.structs.replace(ran, fault=fault)
        runs.append((step, ran))
        if step and any(ran.rewards.get(name, -math.inf) < least for name, least in step.least.items()):
            below = step.name
    counted = runs[-1:] if suite.blend is Blend.FINAL else runs
    tests = tuple(result for step, ran in counted for result in _results(suite, step, ran))
    whole = next((ran.fault for _, ran in counted if ran.fault is not None), None)
    return Verdict(
        suite=content_digest(suite), level=suite.level, tests=tests, fault=whole,
        wall_seconds=time.monotonic() - started, cpu_seconds=sum(ran.outcome.cpu_seconds or 0.0 for _, ran in runs),
        evidence=tuple(_told(runs, answers)), build=verifier_build(),
    )


def _results(suite: ScriptSuite, step: ScriptStep | None, ran: Ran) -> list[TestResult]:
    found = []
    for name in suite.required:
        value = ran.rewards.get(name)
        id = name if step is None else f"{step.name}/{name}"
        if value is None:
            fault = ran.fault or _policy(FaultKind.MISSING_REQUIRED_TEST, f"the script wrote no reward {name!r}")
            found.append(TestResult(id=id, passed=Passed.MISSING, fault=fault))
        elif value >= 1.0 and ran.fault is None:
            found.append(TestResult(id=id, passed=Passed.PASSED))
        else:
            wrong = ran.fault or _policy(FaultKind.WRONG_ANSWER, f"expected the reward {name} = 1, found {value:g}")
            found.append(TestResult(id=id, passed=Passed.FAILED, fault=wrong))
    return found


def _told(runs: Sequence[tuple[ScriptStep | None, Ran]], answers: Sequence[Frozen]) -> list[Evidence]:
    found: list[Evidence] = []
    for step, ran in runs:
        who = "script" if step is None else f"script of {step.name}"
        written = ", ".join(f"{name} = {value:g}" for name, value in ran.rewards.items()) or "none"
        found.append(Evidence(source="reward", text=f"{who}: {written}"))
        if ran.shadowing:
            found.append(Evidence(source="shadowing", text=told_of(ran.shadowing)))
        found += evidence.of_outcome(who, ran.outcome)
        tail = (ran.outcome.text + ran.outcome.error_text).strip()[-_QUOTED:]
        if tail:
            found.append(Evidence(source="report", text=f"{who}: {tail}"))
    if len(runs) > len(answers):
        found.append(Evidence(source="files", text="every step's tests were run on the last tree: no other was kept"))
    for answer in answers:
        found += [Evidence(source="artifact missing", text=f"{path}: nothing there") for path in answer.missing]
        if answer.left_out:
            said = "; ".join(answer.left_out[:5])
            found.append(Evidence(source="files", text=f"{len(answer.left_out)} did not cross: {said}"))
    return found


async def _run(
    backend: Backend, suite: ScriptSuite, step: ScriptStep | None, answer: Frozen, *, image: str, limits: Limits,
    network: Network,
) -> Ran:
    seconds = step.wall_seconds if step else suite.wall_seconds
    wide = msgspec.structs.replace(
        limits, wall_seconds=seconds + 60.0, cpu_seconds=max(limits.cpu_seconds, 2 * seconds),
        memory_bytes=max(limits.memory_bytes, 512 * MEBIBYTE), processes=max(limits.processes, 64),
    )
    async with backend.open(image, limits=wide, network=network) as (sandbox,):
        tests = {**suite.files, **(step.files if step else {})}
        await _make_ready(sandbox, suite, tests)
        try:
            answer, shielded, told = await laid(sandbox, suite, answer)
            await _lay(sandbox, answer.files, answer.executable)
        except OSError as error:
            what = f"{error.filename}: " if error.filename else ""
            said = f"the files do not fit into the sandbox: {what}{error.strerror or error}"
            return Ran(outcome=Outcome(status=Status.NOT_STARTED), fault=_policy(FaultKind.DISK_LIMIT, said))
        for start in range(0, len(answer.removed), _AT_ONCE):
            gone = [f"/{path}" for path in answer.removed[start:start + _AT_ONCE]]
            await sandbox.run(["rm", "-rf", "--", *gone], cwd="/")
        if answer.removed:  # the work folder may be among them: the script is started there all the same
            await sandbox.files.make_dir(suite.workdir)
        env = {**suite.answer_env, **suite.env, **(step.env if step else {}), **shielded}
        argv = step.argv if step else suite.argv
        outcome = await sandbox.run(
            argv, cwd=suite.workdir, env=env, limits=msgspec.structs.replace(wide, wall_seconds=seconds))
        if outcome.status is Status.NOT_STARTED:
            script = tests.get(PurePosixPath(argv[0]).name) if argv else None
            return Ran(outcome=outcome, fault=_not_started(suite, script, answer, outcome))
        return msgspec.structs.replace(await _judged(sandbox, suite, outcome), shadowing=told)


def _not_started(suite: ScriptSuite, script: bytes | None, answer: Frozen, outcome: Outcome) -> Fault:
    """The answer's fault where it brought or removed the interpreter of the script. Raises TaskError otherwise."""
    first = (script or b"").split(b"\n", 1)[0].removeprefix(b"#!").decode(errors="replace").split()
    interpreter = first[0].strip("/") if first else ""
    gone = any(interpreter == path or interpreter.startswith(f"{path}/") for path in answer.removed)
    said = f"the tests cannot be started: {outcome.error_text[-_QUOTED:].strip()}"
    if interpreter and (gone or interpreter in answer.files):
        return _policy(FaultKind.MISSING_REQUIRED_TEST, f"{said}: the answer changed their interpreter")
    raise TaskError(said, file=suite.argv[0] if suite.argv else None, kind=FaultKind.TASK_ENVIRONMENT)


def _crashed(ran: Ran) -> bool:
    """Whether a script ended by a signal, or says so in the way of shells, and left no reward."""
    code = ran.outcome.exit_code
    return not ran.rewards and ran.outcome.status in (Status.FAILED, Status.SIGNALLED) and (code is None or code > 128)


async def _make_ready(sandbox: Sandbox, suite: ScriptSuite, tests: Mapping[str, bytes]) -> None:
    """The tests are in place and no reward is there yet. Raises TaskError where they cannot be laid."""
    try:
        await sandbox.run(["rm", "-rf", "--", *suite.reward_files], cwd="/")
        for folder in {suite.workdir, suite.folder, *(str(PurePosixPath(p).parent) for p in suite.reward_files)}:
            await sandbox.files.make_dir(folder)
        marked = suite.package.executable if suite.package else ()
        scripts = {path for path in tests if f"tests/{path}" in marked or tests[path].startswith(b"#!")}
        base = suite.folder.strip("/")
        await _lay(sandbox, {f"{base}/{path}": content for path, content in tests.items()},
                   frozenset(f"{base}/{path}" for path in scripts))
    except OSError as error:
        raise TaskError(f"the tests cannot be laid below {suite.folder}: {error.strerror or error}; does the image "
                        "have a writable root (`+rw`)?", kind=FaultKind.TASK_ENVIRONMENT) from error


async def _lay(sandbox: Sandbox, files: Mapping[str, bytes], executable: frozenset[str]) -> None:
    await sandbox.files.write_many({f"/{path}": content for path, content in files.items() if path not in executable})
    for path in sorted(executable):
        await sandbox.files.write(f"/{path}", files[path], mode=0o755)


async def _judged(sandbox: Sandbox, suite: ScriptSuite, outcome: Outcome) -> Ran:
    """What a script that has ended left behind. How it ended is told by the backend, and no process of it lives."""
    limits = {Status.TIMED_OUT: FaultKind.TIMEOUT, Status.CPU_LIMIT: FaultKind.CPU_LIMIT,
              Status.OUT_OF_MEMORY: FaultKind.OOM_KILL}
    if outcome.status in limits:
        said = f"the tests did not end by themselves ({outcome.status.value}) on this answer"
        return Ran(outcome=outcome, fault=_policy(limits[outcome.status], said))
    for path in suite.reward_files:
        place = PurePosixPath(path)
        try:
            entries = {entry.path: entry for entry in await sandbox.files.list(str(place.parent))}
        except OSError:
            continue
        entry = entries.get(path)
        if entry is None:
            continue
        if entry.kind != "file" or entry.size_bytes > MAX_REWARD_BYTES:
            said = f"expected a file of at most {MAX_REWARD_BYTES} bytes at {path}, found {entry.kind}"
            return Ran(outcome=outcome, fault=_policy(FaultKind.REPORT_FORGED, said))
        try:
            content = await sandbox.files.read(path, max_bytes=MAX_REWARD_BYTES)
            rewards = read_rewards(content, json_text=path.endswith(".json"))
        except ValueError as error:
            return Ran(outcome=outcome, fault=_policy(FaultKind.MISSING_REQUIRED_TEST, f"{path}: {error}"))
        return Ran(outcome=outcome, rewards=rewards)
    how = f"exit code {outcome.exit_code}" if outcome.signal is None else f"signal {outcome.signal}"
    said = f"the script wrote no reward ({how}): {outcome.error_text.strip()[-_QUOTED:]}"
    return Ran(outcome=outcome, fault=_policy(FaultKind.MISSING_REQUIRED_TEST, said))


def read_rewards(content: bytes, *, json_text: bool) -> dict[str, float]:
    """The rewards in a file: one number, or a JSON object of numbers by name. Raises ValueError for anything else, an
    empty file, a name that comes twice, and a number that is not finite."""
    try:
        text = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise ValueError("expected UTF-8, found something else") from None
    if not text:
        raise ValueError("expected a reward, found an empty file")
    if not json_text:
        return {"reward": _number(_parsed_float(text), "reward")}
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"expected JSON: {error}") from None
    if not isinstance(found, dict):
        return {"reward": _number(found, "reward")}
    return {name: _number(value, name) for name, value in found.items()}


def _parsed_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"expected one number, found {text[:80]!r}") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"expected each name once, found {twice[0]!r} again")
    return dict(pairs)


def _number(value: object, name: str) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"expected a finite number for {name!r}, found {value!r}"[:200])
    return float(value)


def _policy(kind: FaultKind, message: str) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message)
