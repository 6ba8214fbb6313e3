"""The work of documenting a package: pages whose links, names, examples and commands are tried out."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence

import msgspec

from quintain.env import _examples as examples
from quintain.env import _pages as pages
from quintain.env import _words
from quintain.env.base import Answer, Shown
from quintain.env.judging import Judging, command_of, result
from quintain.grade import LEVEL, Oracle, Scalar, lexicographic, verifier_build
from quintain.sandbox import Backend
from quintain.tasks import Item, PythonSuite
from quintain.types import (
    Evidence,
    Fault,
    FaultKind,
    HouseError,
    Limits,
    Message,
    Outcome,
    Owner,
    Program,
    Role,
    Status,
    Task,
    TaskError,
    Turn,
    Verdict,
    content_digest,
)

#: What is asked of pages, as the tests of a verdict.
ASKED = ("links", "names", "covered", "examples", "commands", "exercised")
LEAST_WORDS = 30  # characters below a heading
TIMES = 2  # so often examples and commands must be right, each time with another seed of hashes
_PATH = re.compile(r"(?:docs/)?[\w-]+\.md")
_KNOWN = 64
_FACTS = ("import importlib, inspect, json, sys; p = importlib.import_module(sys.argv[1]); print(json.dumps({n: "
          "[q if k.kind not in (k.VAR_POSITIONAL, k.VAR_KEYWORD) else '*' + q for q, k in "
          "inspect.signature(getattr(p, n)).parameters.items()] for n in p.__all__}))")
_HOW = """You write documentation. What is asked of the pages:

* every link leads to a page that is there, and to a heading of it where it names one; every page can be reached from
  README.md; there are no links to other places
* what stands in `code` as a call, or as a name of the package, exists and takes such arguments
* each public name of the package has a heading of its own in docs/reference.md, with words and an example below it
* examples are blocks tagged `python`: sessions with `>>>`, whose output is what the package gives, or programs that
  run. They import the package and little else, and do not change it; nothing is skipped
* blocks tagged `console` hold commands (`$ ...`), each with what it prints; one at least shows `python3 -m` with the
  package
* the examples use the package: were one of its functions gone, one of them would show it

Reply with each page that you write or change as a fenced block tagged `markdown`, with its path
(```markdown title="README.md"), the fence longer than any inside. Pages that you do not send stay as they are. You are
told what was wrong with them and may answer again.
"""


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, by what is asked; and the share of functions that the examples use, halved where no command does
    what it shows."""

    wrong: dict[str, list[str]]
    exercised: float

    @property
    def worth(self) -> float:
        good = sum(not self.wrong[name] for name in ASKED[:-1])
        return self.exercised * good / (len(ASKED) - 1)


class DocsEnvironment(Judging):
    """Tasks of the kind `docs`: a package that is given, and pages that are the answer; the exam says which package and
    which pages (`asked.json`). Links and names are read here; what the package has is asked of it in a sandbox;
    examples and commands run in fresh sandboxes with the package as given. Then, for each public function, the examples
    run with a package in which it does nothing, and the commands with one whose `__main__` does nothing: whoever is not
    noticed missing was not shown. Solved is all of ASKED; else the worth is the share of functions that the examples
    use times the share of what else is right, beyond that of the pages as given.

    Covers: pages without examples, blocks tagged as something that nobody runs, options that skip, outputs that are
    printed rather than computed, examples that rebind names or reach for the runner, a package that is changed with the
    pages. Does not cover: whether the words are true or good; examples that look at the text of the package.
    """

    def __init__(self, backend: Backend, *, oracle: Oracle | None = None, scalar: Scalar = lexicographic) -> None:
        super().__init__(backend, kind="docs", asked=ASKED, oracle=oracle, scalar=scalar)
        self._facts: dict[str, dict[str, list[str]]] = {}
        self._given: dict[str, float] = {}

    def opening(self, task: Task) -> tuple[Message, ...]:
        asked = "\n\n".join([task.instructions.rstrip("\n"), *_words.shown_files(task)])
        return (Message(role=Role.SYSTEM, text=_HOW), Message(role=Role.USER, text=asked))

    def build(self, task: Task, turn: Turn, *, previous: Program | None) -> Answer | Fault:
        """The program is the package with the pages laid over the latest ones."""
        sent = pages.pages_in(turn.text, entry=task.entry.path)
        if not sent:
            return _fault(FaultKind.NO_CODE, "expected pages in fenced blocks tagged `markdown`, found none")
        for path, text in sent.items():
            if _PATH.fullmatch(path) is None:
                return _fault(FaultKind.FORBIDDEN_PATH, f"expected README.md or docs/NAME.md, found {path!r}")
            if len(text.encode("utf-8", "replace")) > pages.MAX_BYTES:
                return _fault(FaultKind.FORMAT_ERROR, f"expected at most {pages.MAX_BYTES} bytes a page: {path}")
        files = {**task.files, **(previous.files if previous is not None else {})}
        return Answer(program=Program(files={**files, **{p: t.encode("utf-8", "replace") for p, t in sent.items()}}))

    def shows(self, item: Item) -> bool:
        return True

    async def run(self, item: Item, program: Program, *, episode: str, limits: Limits) -> Shown:
        """All that is asked may be known: nothing of it is a secret."""
        return Shown(verdict=(await self._judged(item, program))[0])

    async def _judged(self, item: Item, program: Program) -> tuple[Verdict, float, str]:
        asked = _asked_of(item)
        key = item.task.version
        if key not in self._given:
            while len(self._given) >= _KNOWN:
                self._facts.pop(next(iter(self._given)), None)
                self._given.pop(next(iter(self._given)))
            self._facts[key] = await self._facts_of(item, asked.package)
            self._given[key] = (await self._looked_at(item, asked, item.task.files)).worth
        found = await self._looked_at(item, asked, program.files)
        tests = tuple(result(name, not found.wrong[name], "; ".join(found.wrong[name][:4])[:600]) for name in ASKED)
        told = "; ".join(f"{name}: {len(wrong)} wrong" for name, wrong in found.wrong.items() if wrong) or "all right"
        verdict = Verdict(suite=content_digest(item.exam.hidden), level=LEVEL, tests=tests, build=verifier_build(),
                          evidence=(Evidence(source="report", text=told),))
        base = self._given[key]
        return verdict, max(0.0, (found.worth - base) / (1.0 - base)) if base < 1.0 else 0.0, told

    async def _looked_at(self, item: Item, asked: _Asked, files: Mapping[str, bytes]) -> _Found:
        """What is wrong with the pages among these files; the package is the one that was given."""
        package = {path: content for path, content in item.task.files.items() if not path.endswith(".md")}
        read = {path: pages.page_of(content[: pages.MAX_BYTES].decode("utf-8", "replace"))
                for path, content in files.items() if _PATH.fullmatch(path)}
        facts = self._facts[item.task.version]
        modules = [path.rpartition("/")[2].removesuffix(".py") for path in package]
        wrong: dict[str, list[str]] = {name: [] for name in ASKED}
        wrong["links"] = pages.broken_links(read, start=asked.pages[0])
        wrong["links"] += [f"there is no page {path}" for path in asked.pages if path not in read]
        for page in read.values():
            said = (examples.calls_wrong(code, package=asked.package, facts=facts, modules=modules)
                    for code in page.code)
            wrong["names"] += [why for why in said if why is not None]
        wrong["covered"] = _uncovered(read.get(asked.pages[-1]), facts)
        blocks: list[list[examples.Example]] = []
        commands: list[tuple[str, str]] = []
        for block in (block for page in read.values() for block in page.blocks):
            if block.tag in examples.PYTHON:
                made = examples.examples_of(block, package=asked.package, public=list(facts))
                (wrong["examples"].append(made) if isinstance(made, str) else blocks.append(made))
            elif block.tag in examples.SHELL:
                commands += examples.commands_of(block.text)
        if len(blocks) > examples.MOST or len(commands) > examples.MOST:
            wrong["examples"].append(f"expected at most {examples.MOST} examples, and as many commands")
            blocks, commands = blocks[: examples.MOST], commands[: examples.MOST]
        if not blocks:
            wrong["examples"].append("there is no example that runs")
        if not any(f"python3 -m {asked.package}" in command for command, _ in commands):
            wrong["commands"].append(f"no command shows `python3 -m {asked.package}`")
        differ = [one for _ in range(TIMES) for one in await self._run_examples(item, package, blocks)]
        other = [one for _ in range(TIMES) for one in await self._run_commands(item, package, commands)]
        wrong["examples"] += dict.fromkeys(why for _, why in differ)
        wrong["commands"] += dict.fromkeys(why for _, why in other)
        right = [block for place, block in enumerate(blocks) if place not in {at for at, _ in differ}]
        unused = await self._unused(item, asked.package, package, facts, right, [
            command for place, command in enumerate(commands) if place not in {at for at, _ in other}])
        wrong["exercised"] = [f"no example needs {name}" for name in unused]
        share = sum(name not in unused for name in facts) / max(1, len(facts))
        return _Found(wrong=wrong, exercised=share if f"python3 -m {asked.package}" not in unused else share / 2)

    async def _unused(
        self, item: Item, name: str, package: Mapping[str, bytes], facts: Mapping[str, Sequence[str]],
        blocks: Sequence[Sequence[examples.Example]], commands: Sequence[tuple[str, str]],
    ) -> list[str]:
        """The functions, and `python3 -m`, without which everything that is right is still as it is shown."""
        found = []
        for public in facts:
            without = {path: content + b"\n\ndef %s(*arguments, **named):\n    return None\n" % public.encode()
                       if b"def %s(" % public.encode() in content else content for path, content in package.items()}
            if not blocks or not await self._run_examples(item, without, blocks):
                found.append(public)
        without = {**package, f"{name}/__main__.py": b"raise SystemExit(1)\n"}
        if not commands or not await self._run_commands(item, without, commands):
            found.append(f"python3 -m {name}")
        return found

    async def _run_examples(
        self, item: Item, package: Mapping[str, bytes], blocks: Sequence[Sequence[examples.Example]],
    ) -> list[tuple[int, str]]:
        if not blocks:
            return []
        mark = secrets.token_hex(16)
        told = json.dumps(examples.told_to_runner(blocks, mark=mark)).encode()
        outcome = await self._run(item, {**package, "quintain_examples.py": examples.RUNNER},
                                  ["python3", "-B", "quintain_examples.py"], stdin=told)
        return examples.differences(blocks, outcome.text, mark=mark)

    async def _run_commands(
        self, item: Item, package: Mapping[str, bytes], commands: Sequence[tuple[str, str]],
    ) -> list[tuple[int, str]]:
        wrong = []
        for place, (command, want) in enumerate(commands):
            outcome = await self._run(item, package, ["bash", "-c", command])
            got = "\n".join(line.rstrip() for line in outcome.text.rstrip().splitlines())
            if outcome.status is not Status.OK or got != want:
                told = f"$ {command[:80]}: expected {want[:80]!r}, found {got[:80]!r} ({outcome.status.value})"
                wrong.append((place, told))
        return wrong

    async def _run(
        self, item: Item, files: Mapping[str, bytes], argv: Sequence[str], *, stdin: bytes = b"",
    ) -> Outcome:
        async with self._backend.open(item.task.image, limits=command_of(item)) as (sandbox,):
            await sandbox.files.write_many(files)
            return await sandbox.run(argv, stdin=stdin, cwd="/work", env={"PYTHONDONTWRITEBYTECODE": "1"})

    async def _facts_of(self, item: Item, package: str) -> dict[str, list[str]]:
        """The public functions and their parameters, as the package itself has them. Raises TaskError."""
        outcome = await self._run(item, {p: c for p, c in item.task.files.items() if not p.endswith(".md")},
                                  ["python3", "-B", "-c", _FACTS, package])
        if outcome.status is not Status.OK:
            if outcome.status is Status.FAILED:
                raise TaskError(f"task {item.task.id}: its package cannot be asked: {outcome.error_text[-300:]}")
            raise HouseError(FaultKind.VERIFIER_ERROR, f"a package could not be asked: {outcome.status.value}")
        return msgspec.json.decode(outcome.stdout, type=dict[str, list[str]])


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    package: str
    pages: list[str]


def _asked_of(item: Item) -> _Asked:
    suite = item.exam.hidden
    if not isinstance(suite, PythonSuite) or "asked.json" not in suite.files or suite.required != ASKED:
        raise TaskError(f"task {item.task.id}: expected asked.json and the tests {', '.join(ASKED)} for kind = 'docs'")
    return msgspec.json.decode(suite.files["asked.json"], type=_Asked)


def _uncovered(page: pages.Page | None, facts: Mapping[str, Sequence[str]]) -> list[str]:
    """Public functions without a section, or with one that says or shows nothing."""
    wrong = []
    for name in facts:
        own = [one for one in (page.sections if page else ()) if re.split(r"\W+", one.heading.strip("` "))[0] == name]
        if not own:
            wrong.append(f"{name} has no heading")
        elif sum(len(line) for line in re.sub(r"`[^`\n]*`", "", own[0].words).splitlines()) < LEAST_WORDS:
            wrong.append(f"{name} is not described")
        elif not any(block.tag in examples.PYTHON and examples.uses(block, name) for block in own[0].blocks):
            wrong.append(f"{name} has no example that uses it")
    return wrong


def _fault(kind: FaultKind, message: str) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message)
