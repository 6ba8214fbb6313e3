"""The common subset of Dockerfiles, read into steps; pure text.

Follows https://docs.docker.com/reference/dockerfile/: comments, continued lines, the `escape` directive, variables,
exec and shell forms. One stage. What is not in the subset is an error that names its line; nothing is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import msgspec

STEPS = ("FROM", "RUN", "COPY", "ADD", "ENV", "WORKDIR", "USER", "ARG", "CMD", "ENTRYPOINT", "LABEL", "EXPOSE", "SHELL")
UNKNOWN_WHY = {
    "VOLUME": "a sandbox has no volumes", "HEALTHCHECK": "a sandbox runs no service",
    "STOPSIGNAL": "a sandbox is killed", "ONBUILD": "triggers are not carried", "MAINTAINER": "use LABEL",
}
FLAGS = {"COPY": ("chown", "chmod"), "ADD": ("chown", "chmod")}
_VARIABLE = re.compile(r"\\(.)|\$(?:(\w+)|\{(\w+)(?:(:[-+])([^}]*))?\}|(.?))")


class DockerfileError(ValueError):
    """Line, what was expected, what was found."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One instruction. `words` are its arguments in exec form (`exec=True`) or split like a shell would; for a shell
    form of RUN, CMD and ENTRYPOINT there is one word, the text."""

    line: int
    name: str
    text: str
    words: tuple[str, ...]
    exec: bool = False
    flags: dict[str, str] = {}


def parse(text: str) -> tuple[Step, ...]:
    """The steps of a Dockerfile. Raises DockerfileError."""
    steps = tuple(_step(line, content) for line, content in _instructions(text))
    stages = [s for s in steps if s.name == "FROM"]
    if not stages:
        raise DockerfileError(1, "expected FROM, found none")
    if len(stages) > 1:
        raise DockerfileError(stages[1].line, "expected one stage, found a second FROM")
    first = next(s for s in steps if s.name != "ARG")
    if first.name != "FROM":
        raise DockerfileError(first.line, f"expected FROM (or ARG) first, found {first.name}")
    return steps


def _instructions(text: str) -> list[tuple[int, str]]:
    """(line number, joined text) of each instruction."""
    escape, directives, found, current, start = "\\", True, [], "", 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if directives:
            directive = re.fullmatch(r"#\s*(\w+)\s*=\s*(\S+)", stripped)
            if directive and directive[1].lower() == "escape":
                escape = directive[2]
                if escape not in ("\\", "`"):
                    raise DockerfileError(number, f"expected \\ or ` as escape, found {escape!r}")
            directives = bool(directive)
        if stripped.startswith("#") or not stripped:
            continue
        if not current:
            start = number
        if stripped.endswith(escape):
            current += line.rstrip()[: -len(escape)] if current else line.strip()[: -len(escape)]
            continue
        current += line if current else stripped
        found.append((start, current.strip()))
        current = ""
    if current.strip():
        found.append((start, current.strip()))
    return found


def _step(line: int, content: str) -> Step:
    name, _, rest = content.partition(" ") if " " in content.split("\t")[0] else content.partition("\t")
    name, rest = name.upper(), rest.strip()
    if name not in STEPS:
        why = f" ({UNKNOWN_WHY[name]})" if name in UNKNOWN_WHY else ""
        raise DockerfileError(line, f"expected one of {', '.join(STEPS)}, found {name}{why}")
    flags = {}
    while name in ("RUN", "COPY", "ADD", "FROM") and (match := re.match(r"--(\w[\w-]*)(?:=(\S+))?\s+", rest)):
        if match[1] not in FLAGS.get(name, ()) or match[2] is None:
            raise DockerfileError(line, f"expected {name} without --{match[1]}: it is not supported here")
        flags[match[1]] = match[2]
        rest = rest[match.end() :]
    if name in ("RUN", "COPY", "ADD") and re.search(r"(?:^|\s)<<-?[\"']?\w", rest):
        raise DockerfileError(line, f"expected {name} without a here-document: it is not supported here")
    if not rest:
        raise DockerfileError(line, f"expected arguments of {name}, found none")
    words, is_exec = _words(line, name, rest)
    return Step(line=line, name=name, text=rest, words=words, exec=is_exec, flags=flags)


def _words(line: int, name: str, rest: str) -> tuple[tuple[str, ...], bool]:
    if rest.startswith("[") and name in ("RUN", "CMD", "ENTRYPOINT", "COPY", "ADD", "SHELL"):
        try:
            words = json.loads(rest)
        except ValueError:
            words = None
        if isinstance(words, list) and words and all(isinstance(w, str) for w in words):
            return tuple(words), True
    if name == "SHELL":
        raise DockerfileError(line, f'expected SHELL ["program", "argument", …], found {rest!r}')
    if name in ("RUN", "CMD", "ENTRYPOINT"):
        return (rest,), False
    if name in ("ENV", "LABEL", "ARG"):
        return (rest,), False  # quoting and variables are looked at together, in `pairs`
    return tuple(rest.split()), False


def expand(text: str, values: Mapping[str, str], line: int) -> str:
    """`$NAME`, `${NAME}`, `${NAME:-word}`, `${NAME:+word}`; `\\$` is a dollar."""

    def one(match: re.Match[str]) -> str:
        escaped, plain, braced, mode, word, bad = match.groups()
        if escaped is not None:
            return escaped if escaped == "$" else f"\\{escaped}"
        if bad is not None:
            if bad == "{":
                raise DockerfileError(line, f"expected $NAME or ${{NAME}} (with :- or :+), found {text!r}")
            return match[0]
        found = values.get(plain or braced, "")
        if mode == ":-":
            return found or expand(word, values, line)
        if mode == ":+":
            return expand(word, values, line) if found else ""
        return found

    return _VARIABLE.sub(one, text)


def pairs(step: Step, values: Mapping[str, str]) -> dict[str, str]:
    """The names and values of ENV, LABEL or ARG (an ARG without a value is left out)."""
    text = step.words[0]
    first = text.split(None, 1)
    if step.name == "ENV" and "=" not in first[0]:  # the old form: the rest of the line is the value
        if len(first) != 2:
            raise DockerfileError(step.line, f"expected ENV NAME=VALUE, found {text!r}")
        return {first[0]: expand(first[1], values, step.line)}
    found = {}
    try:
        words = _split(text, values, step.line)
    except ValueError as error:
        raise DockerfileError(step.line, f"expected closed quotes in {step.name}, found {text!r} ({error})") from None
    for word in words:
        name, equals, value = word.partition("=")
        if not name or (not equals and step.name != "ARG"):
            raise DockerfileError(step.line, f"expected {step.name} NAME=VALUE, found {word!r}")
        if equals:
            found[name] = value
    return found


def _split(text: str, values: Mapping[str, str], line: int) -> list[str]:
    """Words as a shell makes them, variables replaced everywhere but between single quotes; a value stays one word."""
    words: list[str] = []
    word, started, quote, at = "", False, "", 0
    while at < len(text):
        char = text[at]
        variable = _VARIABLE.match(text, at) if char == "$" and quote != "'" else None
        if variable is not None:
            word, started, at = word + expand(variable[0], values, line), True, variable.end()
            continue
        at += 1
        if char == "\\" and quote != "'" and at < len(text):
            plain = not quote or text[at] in '"\\$'
            word, started, at = word + (text[at] if plain else "\\" + text[at]), True, at + 1
        elif char == quote:
            quote = ""
        elif char in "'\"" and not quote:
            quote, started = char, True
        elif char.isspace() and not quote:
            words, word, started = [*words, word] if started else words, "", False
        else:
            word, started = word + char, True
    if quote:
        raise ValueError(f"no closing {quote}")
    return [*words, word] if started else words
