"""`quintain admit`: decide which tasks deserve a place, and say what to do about the others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quintain.cli.exits import DONE, FAILED, Usage
from quintain.cli.options import basing, choosing, pair_of
from quintain.cli.output import plain, say_json
from quintain.cli.wire import Choice, Endpoint, default_sandboxes, open_policy, open_tasks

if TYPE_CHECKING:
    from quintain.curate import Admission, Check, Neighbours, Repair, Site, Solver
    from quintain.policy import Policy
    from quintain.sandbox import Backend
    from quintain.tasks import Item, Taskset

Files = Mapping[str, bytes]

REPORT = "report.json"
STEPS = ("schema", "static", "spec", "leaks", "duplicates", "oracle", "null", "cost", "tolerance", "strength",
         "battery", "difficulty")


@click.command("admit")
@click.argument("tasks")
@choosing
@click.option("--check", "only", multiple=True, type=click.Choice(STEPS), help="Only this step (repeatable).")
@click.option("--quick", is_flag=True, help="Fewer runs: 4 of the oracle, 30 mutants, no shared battery.")
@click.option("--sandboxes", "-n", type=click.IntRange(min=1), help="How many at once [default: 2 for each CPU].")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="A folder for what was found: a second run measures only what has changed.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page for people.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each task.")
@click.option("--against", multiple=True, metavar="TASKS", help="Held-out tasks that none may be near (repeatable).")
@basing
@click.option("--policy", metavar="NAME", help="Who tries the tasks, to see how hard they are; as for `quintain run`.")
@click.option("--judge", metavar="NAME", help="A model that looks for two readings of the text; named as a policy.")
@click.option("--base-url", metavar="URL", help="Where the model of an openai: policy or judge answers.")
@click.option("--fix", is_flag=True, help="Propose repairs, each accepted with one key; needs --out.")
@click.option("--yes", is_flag=True, help="With --fix: accept every repair.")
@click.pass_context
def command(
    ctx: click.Context, tasks: str, choice: Choice, only: tuple[str, ...], quick: bool, sandboxes: int | None,
    out: Path | None, html: Path | None, as_json: bool, against: tuple[str, ...], bases: tuple[str, ...],
    policy: str | None, judge: str | None, base_url: str | None, fix: bool, yes: bool,
) -> None:
    """Run the twelve steps of admission on TASKS, from cheap to dear, and say what their authors should do.

    TASKS is a set by name, or the path of a task (also a Harbor directory), of a folder of tasks, or of a file.

    \b
    Exit codes: 0 all were admitted, 1 one was not, 3 this host cannot run sandboxes.

    \b
    Examples:
      quintain admit humaneval --take 10
      quintain admit mytasks --out admission --html admission.html
      quintain admit my-harbor-task --base '*=host'
      quintain admit mytasks --check static --check leaks
      quintain admit mytasks --out admission --fix
    """
    if (fix or yes) and out is None:
        raise Usage("--fix writes the repaired tasks: expected --out FOLDER with it")
    if html is not None and not html.parent.is_dir():
        raise Usage(f"--html: expected a folder for the page, found none at {html.parent}")
    chosen = open_tasks(tasks, choice)
    if not chosen.ids:
        raise Usage(f"no task of {tasks} was chosen: look at --include, --exclude and --take")
    held = [(name, open_tasks(name, Choice())) for name in against]
    replaced = dict(pair_of(base) for base in bases)
    work = _Work(chosen, only=only, quick=quick, out=out, as_json=as_json, sandboxes=sandboxes or default_sandboxes(),
                 held=held, bases=replaced)
    if policy is not None:
        work.policy = open_policy(policy, chosen, Endpoint(base_url=base_url))
    if judge is not None:
        work.judge, work.judged_by = open_policy(judge, chosen, Endpoint(base_url=base_url)), judge
    admissions = asyncio.run(work.done(fix=fix or yes, yes=yes))
    from quintain.curate import Ruling, counted, page_of, summary_of

    if html is not None:
        _whole(html, page_of(admissions, title=f"Admission of {tasks}").encode())
    if out is not None:
        _write(out, admissions, tasks)
    if not as_json:
        click.echo(summary_of(admissions))
        for code, count in list(counted(admissions))[:12]:
            click.echo(f"  {count:5} {code}")
    ctx.exit(DONE if all(one.ruling is Ruling.ADMITTED for one in admissions) else FAILED)


class _Work:
    """One admission, from opening the house to the repairs."""

    def __init__(
        self, tasks: Taskset, *, only: Sequence[str], quick: bool, out: Path | None, as_json: bool, sandboxes: int,
        held: Sequence[tuple[str, Taskset]], bases: dict[str, str],
    ) -> None:
        from quintain.curate import Kept

        self._tasks = tasks
        self._only = only
        self._quick = quick
        self._out = out
        self._as_json = as_json
        self._sandboxes = sandboxes
        self._held = held
        self._bases = bases
        self._kept = Kept(out / "kept") if out is not None else None
        self.policy: Policy | None = None  # who tries the tasks, if anybody does
        self.judge: Policy | None = None  # who looks for two readings
        self.judged_by = ""

    async def done(self, *, fix: bool, yes: bool) -> list[Admission]:
        """The whole of it, with policy and judge closed behind it."""
        async with AsyncExitStack() as stack:
            for one in (self.policy, self.judge):
                if one is not None:
                    stack.push_async_callback(one.aclose)
            return await self.run(fix=fix, yes=yes)

    async def run(self, *, fix: bool, yes: bool) -> list[Admission]:
        from quintain.curate import admit, lines_of_admission

        found: list[Admission] = []
        async with open_site(sandboxes=self._sandboxes, bases=self._bases) as site:
            site.solver = None if self.policy is None else solver_of(self.policy, site.backend)
            async for admission in admit(self._tasks, site, self._checks(), kept=self._kept):
                found.append(admission)
                if self._as_json:
                    say_json(admission)
                else:
                    for line in lines_of_admission(admission, every=bool(self._only)):
                        click.echo(plain(line, limit=1000))
            if fix:
                await self._repair(found, site, yes=yes)
        order = {id: at for at, id in enumerate(self._tasks.ids)}
        return sorted(found, key=lambda admission: order[admission.task])

    def _checks(self) -> list[Check]:
        from quintain.curate import neighbours_of, standard_checks

        neighbours: Neighbours = neighbours_of(self._tasks)
        for name, tasks in self._held:
            neighbours.hold_out(tasks, name=name)
        checks = standard_checks(neighbours=neighbours, kept=self._kept, quick=self._quick, judge=self.judge,
                                 judged_by=self.judged_by)
        return [check for check in checks if not self._only or check.name in self._only]

    async def _repair(self, admissions: Sequence[Admission], site: Site, *, yes: bool) -> None:
        from quintain.curate import propose

        repaired: list[Item] = []
        for admission in admissions:
            if not admission.version:
                continue  # it could not be read
            item = self._tasks[admission.task]
            before = item.task.version
            repairs = await propose(item, admission, site, pins=versions())
            for repair in repairs:
                click.echo(f"{plain(admission.task)}: {plain(repair.text)}", err=True)
                if yes or await asyncio.to_thread(_accepted):
                    item = applied(repair, item)
            if item.task.version != before:
                repaired.append(item)
        if not repaired or self._out is None:
            click.echo("no task was repaired", err=True)
            return
        place = self._out / "repaired"
        for line in written(repaired, place):
            click.echo(f"not said in its form: {plain(line)}", err=True)
        click.echo(f"wrote {len(repaired)} repaired task(s) to {place}; try: quintain admit {place}", err=True)


def solver_of(policy: Policy, backend: Backend) -> Solver:
    """One reply of a policy to what it is told at first, as files."""
    from quintain.env import Answer, CodeEnvironment

    environment = CodeEnvironment(backend)

    async def solve(item: Item, seed: int) -> Files | None:
        turn = await policy.act(environment.opening(item.task), task=item.task.id, seed=seed)
        built = environment.build(item.task, turn, previous=None)
        return built.program.files if isinstance(built, Answer) else None

    return solve


def _accepted() -> bool:
    click.echo("  accept? [y/n] ", nl=False, err=True)
    key = click.getchar()
    click.echo(key, err=True)
    return key.lower() == "y"


def applied(repair: Repair, item: Item) -> Item:
    """The repaired task; as it was, with a word of why, where nothing is left to repair."""
    try:
        return repair.apply(item)
    except ValueError as error:
        click.echo(f"  not applied: {error}", err=True)
        return item


def written(items: Sequence[Item], place: Path) -> tuple[str, ...]:
    """Each in the form that it came in, ours where that is not known."""
    from quintain.tasks import ScriptSuite, write_taskset

    forms: dict[str, list[Item]] = {}
    for item in items:
        suite = item.exam.hidden
        package = suite.package if isinstance(suite, ScriptSuite) else None
        forms.setdefault(package.format if package else "directory", []).append(item)
    told: list[str] = []
    for form, group in forms.items():
        told += write_taskset(group, place / form if len(forms) > 1 else place, format=form)
    return tuple(told)


def versions() -> dict[str, str]:
    """The versions of what is installed here, by name: what installs are pinned to."""
    return {found.metadata["Name"]: found.version for found in distributions() if found.metadata["Name"]}


def _write(out: Path, admissions: Sequence[Admission], title: str) -> None:
    import msgspec

    from quintain.curate import page_of

    out.mkdir(parents=True, exist_ok=True)
    _whole(out / REPORT, msgspec.json.format(msgspec.json.encode(list(admissions))))
    _whole(out / "report.html", page_of(admissions, title=f"Admission of {title}").encode())


def _whole(path: Path, content: bytes) -> None:
    """Write a file that is never seen in part, whoever else writes it or dies."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@asynccontextmanager
async def open_site(*, sandboxes: int, bases: dict[str, str]) -> AsyncIterator[Site]:
    """Where answers are tried on this host. Raises HostCannot where there are no sandboxes."""
    from quintain.cli.wire import cache_folder, open_backend
    from quintain.curate import Site
    from quintain.env import TerminalWorld
    from quintain.sandbox import NativeBackend

    backend = open_backend("native")
    try:
        async with NativeBackend() as images:
            yield Site(backend, at_once=sandboxes, world=TerminalWorld(images, cache=cache_folder(), bases=bases))
    finally:
        await backend.aclose()
