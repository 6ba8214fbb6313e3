"""A Dockerfile, step by step, into layers; without Docker.

RUN executes in a sandbox with a writable root, as user 0 without any capability and without a network. Every step
that changes files is a layer cached by what it came from: the layers below, the instruction, its environment, and the
content of what it copies. Covers: names that lead out of the context (refused) or of the image (resolved inside it).
Does not cover: owners (`--chown` and USER are recorded, every file belongs to the sandbox's one user).
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from quintain.sandbox.image.context import Chosen, add, choose, copy
from quintain.sandbox.image.dockerfile import DockerfileError, Step, expand, pairs, parse
from quintain.sandbox.image.host import host_parts
from quintain.sandbox.image.place import published
from quintain.sandbox.image.stack import Parts, Stack, split
from quintain.sandbox.image.unpack import Draft, unpack
from quintain.sandbox.image.words import Image, ImageError

ROOT = "root"  # below this name a snapshot holds what a writable root has gathered
KEEP_OUT = ("proc", "dev", "sys")
TAIL = 2000  # characters of what a failed step said


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How a RUN ended: `problem` is empty when it went well; `changes` is a snapshot's tar stream."""

    problem: str
    output: str
    changes: bytes


Run = Callable[[Image, Sequence[str], Mapping[str, str], str], Awaitable[Ran]]
Base = Callable[[str], Awaitable[Image]]


class Build:
    """One build of one context. `base` finds the image of FROM, `run` executes in a sandbox of an image so far."""

    def __init__(self, context: Path, dockerfile: Path, cache: Path, *, base: Base, run: Run) -> None:
        self._context, self._dockerfile, self._cache = context, dockerfile, cache
        self._base, self._run = base, run
        self._image = Image(name=f"build:{context}")
        self._shell: tuple[str, ...] = ("/bin/sh", "-c")
        self._started = False
        self._arguments: dict[str, str] = {}
        self._global: dict[str, str] = {}

    async def image(self) -> Image:
        """Raises ImageError naming the Dockerfile, the line, what was expected and what was found."""
        line = 1
        try:
            for step in self._steps():
                line = step.line
                await self._take(step)
        except DockerfileError as error:
            raise ImageError(error.message, file=str(self._dockerfile), line=error.line) from None
        except ImageError as error:
            raise ImageError(error.message, file=str(self._dockerfile), line=line) from None
        except FileNotFoundError as error:
            raise ImageError(f"expected a Dockerfile, found none ({error})", file=str(self._dockerfile)) from None
        except UnicodeDecodeError as error:
            raise ImageError(f"expected UTF-8, found {error}", file=str(self._dockerfile), line=1) from None
        if not self._image.layers:
            raise ImageError("expected a step that makes files, found none", file=str(self._dockerfile), line=line)
        digest = hashlib.sha256(msgspec.json.encode(self._image, order="sorted")).hexdigest()
        return msgspec.structs.replace(self._image, digest=f"sha256:{digest}")

    def _steps(self) -> Sequence[Step]:
        return parse(self._dockerfile.read_text("utf-8"))

    async def _take(self, step: Step) -> None:
        match step.name:
            case "FROM":
                await self._from(step)
            case "ARG":
                self._arg(step)
            case "RUN":
                await self._execute(step)
            case "COPY" | "ADD":
                await self._bring(step)
            case "WORKDIR":
                await self._enter(step)
            case _:
                self._record(step)

    def _change(self, **fields: object) -> None:
        self._image = msgspec.structs.replace(self._image, **fields)

    @property
    def _host(self) -> list[Parts]:
        return [split(part) for part in host_parts()] if self._image.host else []

    @property
    def _values(self) -> dict[str, str]:
        return {**self._arguments, **self._image.env}

    async def _from(self, step: Step) -> None:
        words = [expand(w, self._global, step.line) for w in step.words]
        if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
            raise DockerfileError(step.line, f"expected FROM IMAGE [AS NAME], found {step.text!r}")
        self._arguments = {}
        self._started = True
        if words[0] != "scratch":
            found = await self._base(words[0])
            self._image = msgspec.structs.replace(found, name=self._image.name, digest="")

    def _arg(self, step: Step) -> None:
        given = pairs(step, self._values)
        for word in shlex.split(step.words[0]):
            name = word.partition("=")[0]
            if name in given:
                self._arguments[name] = given[name]
            elif name in self._global:
                self._arguments[name] = self._global[name]
        if not self._started:
            self._global = {**self._global, **given}

    def _record(self, step: Step) -> None:
        words = tuple(expand(w, self._values, step.line) for w in step.words)
        match step.name:
            case "ENV":
                self._change(env={**self._image.env, **pairs(step, self._values)})
            case "LABEL":
                self._change(labels={**self._image.labels, **pairs(step, self._values)})
            case "USER":
                self._change(user=words[0])
            case "EXPOSE":
                self._change(ports=(*self._image.ports, *words))
            case "SHELL":
                self._shell = step.words
            case "CMD" | "ENTRYPOINT":
                command = step.words if step.exec else (*self._shell, step.words[0])
                self._change(**{"command" if step.name == "CMD" else "entrypoint": command})

    async def _enter(self, step: Step) -> None:
        where = "/".join(("", *self._place(expand(step.text, self._values, step.line), step.line)))
        self._change(workdir=where)
        if Stack(self._image.layers, self._host).find(split(where)) is None:
            await self._layer(["WORKDIR", where], lambda draft: _make(draft, split(where)))

    def _place(self, name: str, line: int) -> Parts:
        """A name in the image, relative to WORKDIR."""
        parts = split(name if name.startswith("/") else f"{self._image.workdir}/{name}")
        if parts and parts[0] in KEEP_OUT:
            raise DockerfileError(line, f"expected a place outside /proc, /dev and /sys, found /{'/'.join(parts)}")
        return parts

    async def _execute(self, step: Step) -> None:
        argv = step.words if step.exec else (*self._shell, step.words[0])
        env = self._values
        where = self._image.workdir or "/"
        place = self._at(["RUN", argv, env, where])
        if not place.is_dir():
            ran = await self._run(msgspec.structs.replace(self._image, writable=True), argv, env, where)
            if ran.problem:
                said = ran.output[-TAIL:].strip()
                raise DockerfileError(step.line, f"expected RUN to succeed, {ran.problem}: {said}")
            await asyncio.to_thread(self._publish, place, lambda draft: _changes(ran.changes, draft))
        self._change(layers=(*self._image.layers, str(place)))

    async def _bring(self, step: Step) -> None:
        words = [expand(w, self._values, step.line) for w in step.words]
        if len(words) < 2:
            raise DockerfileError(step.line, f"expected {step.name} SOURCE… DESTINATION, found {step.text!r}")
        *sources, target = words
        mode = step.flags.get("chmod")
        if mode is not None and (not mode or set(mode) - set("01234567")):
            raise DockerfileError(step.line, f"expected --chmod=OCTAL, found {mode!r}")
        chosen = await asyncio.to_thread(choose, self._context, sources, archives=step.name == "ADD")
        into = target.endswith("/") or target in (".", "..") or len(chosen) > 1
        place = self._place(target, step.line)
        key = [step.name, place, into, mode, [(c.name, c.digest) for c in chosen]]
        bring = add if step.name == "ADD" else copy
        octal = None if mode is None else int(mode, 8)
        await self._layer(key, lambda draft: _bring(bring, draft, chosen, place, into=into, mode=octal))

    def _at(self, key: object) -> Path:
        whole = msgspec.json.encode((self._image.host, self._image.layers, key), order="sorted")
        return self._cache / "layers" / f"step-{hashlib.sha256(whole).hexdigest()[:32]}"

    async def _layer(self, key: object, fill: Callable[[Draft], None]) -> None:
        place = self._at(key)
        await asyncio.to_thread(self._publish, place, fill)
        self._change(layers=(*self._image.layers, str(place)))

    def _publish(self, place: Path, fill: Callable[[Draft], None]) -> None:
        with published(place) as draft:
            if draft is not None:
                layer = Draft(draft, self._image.layers, self._host)
                fill(layer)
                layer.finish()


def _make(draft: Draft, parts: Parts) -> None:
    draft.directory(parts)


def _bring(
    bring: Callable[..., None], draft: Draft, chosen: Sequence[Chosen], place: Parts, *, into: bool, mode: int | None
) -> None:
    for item in chosen:
        bring(draft, item, place, into=into, mode=mode)


def _changes(tar: bytes, draft: Draft) -> None:
    def rename(name: str) -> str | None:
        head, _, rest = name.partition("/")
        return rest if head == ROOT else None

    unpack(io.BytesIO(tar), draft, rename=rename)
