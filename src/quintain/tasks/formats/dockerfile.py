"""A Dockerfile as it can be built on the host's own system, without a registry or a network. Pure.

What a registry or a mirror would bring is taken from the host: a step that does nothing but install packages is left
out where the host has them, and is an error that names what it lacks where it has not. Several stages are built one
after the other on one root; here-documents become plain commands; what a sandbox has no use for is left out.
Does not cover: versions (the host's are taken as they are), and stages that would get into each other's way.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import msgspec

_NOT_NEEDED = frozenset({"VOLUME", "HEALTHCHECK", "STOPSIGNAL", "MAINTAINER", "ONBUILD"})
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_VARIABLE = re.compile(r"\$\{?(\w+)(?::-([^}]*))?\}?")
#: A command, and what stands between two.
_PART = re.compile(r"""((?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|&(?!&)|[^;&'"\\])+)|(&&|;+)""", re.DOTALL)
_FETCHING = ("apt-get update", "apt update", "apt-get clean", "apt clean", "apt-get autoremove", "apt-get autoclean",
             "apt-get upgrade", "apt upgrade", "apt-get -y upgrade", "apt-get dist-upgrade", "pip cache purge",
             "apk update", "rm -rf /var/lib/apt/lists", "rm -rf /var/cache/apt", "rm -fr /var/lib/apt/lists")
_APT = re.compile(r"(?:sudo )?(?:apt-get|apt)(?: -\S+)* install (.*)", re.DOTALL)
_PIP = re.compile(r"(?:python3?(?:\.\d+)? -m )?(?:uv )?pip3?(?: --?\S+)* install (.*)", re.DOTALL)
_VALUED = frozenset({"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-t", "--target", "-c"})


class Instruction(msgspec.Struct, frozen=True, kw_only=True):
    """One instruction with the here-documents that follow it, and the line where it begins (from 1)."""

    word: str
    rest: str
    line: int
    documents: tuple[tuple[str, str], ...] = ()


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What the host is asked for: packages of its system, and distributions of its Python."""

    system: Callable[[str], bool]
    python: Callable[[str], bool]


class Lacking(ValueError):
    """What a step would have to fetch; `line` is where it stands."""

    def __init__(self, what: str, line: int) -> None:
        super().__init__(what)
        self.line = line


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of a Dockerfile, comments left out and continued lines joined."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        start, parts = at, list[str]()
        while at < len(lines):
            line = lines[at]
            at += 1
            if not line.strip() or line.lstrip().startswith("#"):
                if parts:
                    continue
                break
            parts.append(line.rstrip().removesuffix("\\"))
            if not line.rstrip().endswith("\\"):
                break
        whole = " ".join(part.strip() for part in parts).strip()
        if not whole:
            continue
        word, _, rest = whole.partition(" ")
        documents = []
        for found in _HEREDOC.finditer(rest) if word.upper() in ("RUN", "COPY", "ADD") else ():
            body = []
            while at < len(lines) and lines[at].strip() != found[2]:
                body.append(lines[at])
                at += 1
            at += 1
            documents.append((found[0], "".join(f"{line}\n" for line in body)))
        yield Instruction(word=word.upper(), rest=rest.strip(), line=start + 1, documents=tuple(documents))


def for_the_host(text: str, *, needs: Needs, head: str = "", context: Mapping[str, bytes] | None = None) -> str:
    """The Dockerfile to build instead. `head` are lines to put behind the first FROM; `context` are the files beside
    it, for lists of requirements. Raises Lacking for a step that would fetch what the host has not."""
    made: list[str] = []
    stages = 0
    for one in instructions(text):
        if one.word == "FROM":
            stages += 1
            made += ["WORKDIR /"] if stages > 1 else ["FROM host", *filter(None, [head])]
        elif stages == 0 or one.word in _NOT_NEEDED:
            if one.word == "ARG":  # before the first FROM: its default may be asked for again below
                continue
        elif one.word == "RUN":
            made += _run(one, needs, context or {})
        elif one.word in ("COPY", "ADD"):
            made += _copy(one)
        else:
            made.append(f"{one.word} {one.rest}")
    return "\n".join(made) + "\n"


def bases_of(text: str) -> tuple[str, ...]:
    """The images that its stages begin with, each once, names of earlier stages left out."""
    values: dict[str, str] = {}
    named: set[str] = set()
    found: list[str] = []
    for one in instructions(text):
        if one.word == "ARG":
            values |= _set(one.rest)
        elif one.word == "FROM":
            words = [word for word in one.rest.split() if not word.startswith("--")]
            base = _filled(words[0] if words else "", values)
            if base not in named and base not in found:
                found.append(base)
            if len(words) == 3 and words[1].upper() == "AS":
                named.add(words[2])
    return tuple(found)


def workdir_of(text: str) -> str | None:
    """Where the last stage of a Dockerfile ends up: its WORKDIRs one on the other, with the variables that it sets."""
    place: str | None = None
    values: dict[str, str] = {}
    for one in instructions(text):
        if one.word == "FROM":
            place = None
        elif one.word in ("ENV", "ARG"):
            values |= _set(one.rest)
        elif one.word == "WORKDIR":
            said = _filled(one.rest.strip("\"'"), values)
            place = said if said.startswith("/") else f"{(place or '').rstrip('/')}/{said.removeprefix('./')}"
    return place if place is None else place.rstrip("/") or "/"


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda m: values.get(m[1], m[2] or ""), text)


def _set(rest: str) -> dict[str, str]:
    try:
        words = shlex.split(rest)
    except ValueError:
        return {}
    if words and "=" not in words[0]:
        return {words[0]: " ".join(words[1:])} if words[1:] else {}
    return dict(word.partition("=")[::2] for word in words)


def _run(one: Instruction, needs: Needs, context: Mapping[str, bytes]) -> list[str]:
    rest = re.sub(r"^(?:--(?:mount|network|security)=\S+\s+)+", "", one.rest)
    if one.documents:
        _, body = one.documents[0]
        shell = rest.replace(one.documents[0][0], "").strip() or ("sh" if not body.startswith("#!") else "bash")
        kept = "\n".join(line for line in body.splitlines() if _kept(line.strip(), one, needs, context))
        coded = base64.b64encode(kept.encode()).decode()
        return [f"RUN printf %s {coded} | base64 -d | {shell}"] if kept.strip() else []
    if rest.startswith("["):
        return [f"RUN {rest}"]
    kept_parts: list[str] = []
    dropped, between = False, ""
    for found in _PART.finditer(rest):
        if found[2]:
            between = found[2]
        elif found[1].strip():
            if _kept(found[1].strip(), one, needs, context):
                kept_parts += [*([between] if kept_parts else []), found[1].strip()]
            else:
                dropped = True
    if not dropped:
        return [f"RUN {rest}"]
    return [f"RUN {' '.join(kept_parts)}"] if kept_parts else []


def _kept(command: str, one: Instruction, needs: Needs, context: Mapping[str, bytes]) -> bool:
    """Whether a command is still to be run. Raises Lacking."""
    plain = " ".join(command.split())
    if plain.startswith(_FETCHING) or ("astral.sh/uv" in plain and "curl" in plain):
        return False
    if (found := _APT.fullmatch(plain)) is not None:
        _ask(_wanted(found[1]), needs.system, "system packages", one.line)
        return False
    if (found := _PIP.fullmatch(plain)) is not None:
        words = found[1].split()
        listed = [name for flag, name in pairwise(words) if flag in ("-r", "--requirement")]
        wanted = [word for word in _wanted(found[1]) if word not in listed]
        for name in listed:
            inside = next((c for path, c in context.items() if path.rpartition("/")[2] == name.rpartition("/")[2]), b"")
            wanted += [line.split("#")[0].strip() for line in inside.decode("utf-8", "replace").splitlines()]
        if any(word.startswith((".", "/")) or word == "-e" for word in wanted):
            return True
        _ask([word for word in wanted if word and not word.startswith("-")], needs.python, "Python packages", one.line)
        return False
    return True


def _wanted(text: str) -> list[str]:
    try:
        words, found = iter(shlex.split(text)), list[str]()
    except ValueError:
        return []
    for word in words:
        if word in _VALUED:
            next(words, None)
        elif word.startswith((">", "2>", "&>", "|")):
            break
        elif not word.startswith("-") or word == "-e":
            found.append(word)
    return found


def _ask(wanted: list[str], has: Callable[[str], bool], what: str, line: int) -> None:
    names = [re.split(r"[=<>!~\[;@ ]", word, maxsplit=1)[0] for word in wanted]
    if lacking := sorted({name for name in names if name and not has(name)}):
        raise Lacking(f"the task needs {what} that this host has not: {', '.join(lacking)}", line)


def _copy(one: Instruction) -> list[str]:
    stage = re.search(r"--from=\S+\s*", one.rest)
    if stage is not None:
        *sources, target = re.sub(r"--\S+\s*", "", one.rest).split()
        inside = "" if not target.endswith("/") and len(sources) == 1 else f"mkdir -p {shlex.quote(target)} && "
        above = f"mkdir -p \"$(dirname {shlex.quote(target)})\" && "
        return [f"RUN {above}{inside}cp -a {' '.join(map(shlex.quote, sources))} {shlex.quote(target)}"]
    if not one.documents:
        return [f"{one.word} {one.rest}"]
    target = re.sub(r"--\S+\s*", "", one.rest).split()[-1]
    made = []
    for mark, body in one.documents:
        name = _HEREDOC.sub(r"\2", mark)
        place = f"{target}{name}" if target.endswith("/") else target
        coded = base64.b64encode(body.encode()).decode()
        quoted = shlex.quote(place)
        made.append(f"RUN mkdir -p \"$(dirname {quoted})\" && printf %s {coded} | base64 -d > {quoted}")
    return made
