"""`quintain doctor`: what this host can do, layer by layer, and what to do about what is missing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from quintain.cli.exits import DONE, FAILED, HOST_CANNOT, HostCannot
from quintain.cli.output import console, say_json
from quintain.sandbox import Capabilities, Host, Layer, NativeBackend, Sweep, clean, examine, report
from quintain.types import HouseError, Limits

if TYPE_CHECKING:
    from rich.console import Console

REPORT_SECONDS = 60.0


class Findings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the doctor found: the host always; leftovers and a live sandbox when asked for."""

    host: Host
    cleaned: Sweep | None = None
    sandbox: tuple[Layer, ...] | None = None

    @property
    def exit_code(self) -> int:
        if not any(backend.available for backend in self.host.backends):
            return HOST_CANNOT
        return FAILED if any(not layer.ok for layer in self.sandbox or ()) else DONE


@click.command("doctor")
@click.option("--clean", "sweep", is_flag=True, help="Remove what killed runs left: processes, control groups, files.")
@click.option("--report", "look_inside", is_flag=True, help="Open one sandbox and report its isolation from inside.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a story.")
@click.pass_context
def command(ctx: click.Context, sweep: bool, look_inside: bool, as_json: bool) -> None:
    """Say what this host can isolate, and what to do about what is missing.

    Exit codes: 0 a sandbox backend works here, 1 a live sandbox lacks a layer (--report), 3 no backend works here.

    \b
    Examples:
      quintain doctor
      quintain doctor --report
      quintain doctor --clean --json
    """
    cleaned = clean() if sweep else None
    host = examine()
    layers = None
    if look_inside and any(backend.name == "native" and backend.available for backend in host.backends):
        layers = asyncio.run(_look_inside())
    findings = Findings(host=host, cleaned=cleaned, sandbox=layers)
    if as_json:
        say_json(findings)
    else:
        tell(findings, console())
    ctx.exit(findings.exit_code)


async def _look_inside() -> tuple[Layer, ...]:
    try:
        async with asyncio.timeout(REPORT_SECONDS), NativeBackend() as backend:
            return await report(backend, Limits())
    except HouseError as error:
        raise HostCannot(f"no sandbox opened: {error}") from error
    except TimeoutError as error:
        raise HostCannot(f"no sandbox reported within {REPORT_SECONDS:.0f} s") from error


def tell(findings: Findings, out: Console) -> None:
    """The findings as a story for people."""
    host = findings.host
    who = "root" if host.user == 0 else f"user {host.user} (rootless)"
    out.print(f"host: Linux {host.kernel} on {host.machine}, {host.cpus} CPUs, as {who}", markup=False)
    for backend in host.backends:
        _tell_backend(backend, out)
    out.print("\nhost settings (shown, not judged):")
    for name, value in sorted(host.settings.items()):
        out.print(f"  {name} = {value}", markup=False)
    if findings.cleaned is not None:
        swept = findings.cleaned
        out.print(f"\ncleaned: {swept.removed} leftover(s) removed, {swept.in_use} engine slot(s) still in use")
    if findings.sandbox is not None:
        out.print("\na live sandbox, seen from inside:")
        for layer in findings.sandbox:
            out.print(f"  {'ok     ' if layer.ok else 'MISSING'}  {layer.name}: {layer.found}", markup=False)


def _tell_backend(backend: Capabilities, out: Console) -> None:
    verdict = "works here" if backend.available else "does NOT work here"
    out.print(f"\nbackend {backend.name}: {verdict} (isolation: {backend.isolation})", markup=False)
    quotas = ("memory", "processes", "cpu", "disk")
    out.print("  limits: " + ", ".join(f"{name} {getattr(backend, name)}" for name in quotas), markup=False)
    out.print(f"  user of its own for each sandbox: {'yes' if backend.unique_uid else 'no'}")
    for title, entries in (("covers", backend.covers), ("does not cover", backend.does_not_cover)):
        if entries:
            out.print(f"  {title}: {'; '.join(entries)}", markup=False)
    for name, remedy in backend.missing.items():
        out.print(f"  missing {name}: {remedy}", markup=False)
