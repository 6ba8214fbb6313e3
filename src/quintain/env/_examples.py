"""The examples of pages: what is run of them, and whether it gave what they show. Pure.

What an example prints is told by its own process, so an example may do nothing that could reach whoever runs it: it
imports the package and a few modules without power, and touches no frames, no names with underscores, no attributes of
others. Covers: examples that rebind what they show, that skip, that leave early, that write the output of others. Does
not cover: a package whose own functions would do that.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import re
from collections.abc import Mapping, Sequence

import msgspec

from quintain.env._pages import Block

#: Tags of blocks that are examples.
PYTHON = frozenset({"python", "py", "pycon", "python3"})
SHELL = frozenset({"console", "shell-session", "bash", "sh", "shell"})
MOST = 80
_MODULES = frozenset({"collections", "datetime", "decimal", "fractions", "itertools", "json", "math", "pprint"})
_POWERS = frozenset({
    "breakpoint", "compile", "delattr", "dir", "eval", "exec", "exit", "getattr", "globals", "help", "id", "input",
    "locals", "memoryview", "open", "quit", "setattr", "vars", "__import__"})
_FRAMES = re.compile(r"_|(tb|f|gi|cr|ag|co)_")
_TRACE = "Traceback (most recent call last):"

#: Runs statements, each as if typed, and prints what each gives behind a mark that nobody knows before.
RUNNER = b'''
import json
import sys


def main():
    told = json.load(sys.stdin)
    for place, block in enumerate(told["blocks"]):
        names = {"__name__": "__main__"}
        for number, (source, mode) in enumerate(block):
            print(f"\\n{told['mark']} {place} {number}")
            try:
                exec(compile(source, "<example>", mode), names)
            except BaseException as error:
                print(told["trace"])
                print(f"{type(error).__name__}: {error}")
            sys.stdout.flush()
    print(f"\\n{told['mark']} end end")


main()
'''


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One statement as typed, or a whole program; `want` is what it shows, None where it only has to run."""

    source: str
    want: str | None


def examples_of(block: Block, *, package: str, public: Sequence[str]) -> list[Example] | str:
    """The examples of a block, or why it is none that is run."""
    if block.info.split()[1:]:
        return f"a block tagged {block.info!r}: expected `python` and nothing else"
    if ">>>" not in block.text:
        found = [Example(source=block.text, want=None)]
    else:
        try:
            parsed = doctest.DocTestParser().get_examples(block.text)
        except ValueError as error:
            return f"a session that cannot be read: {error}"
        if any(one.options for one in parsed) or "doctest:" in block.text:
            return "a session with options of doctest: expected every output as it is"
        found = [Example(source=one.source, want=_wanted(one.want)) for one in parsed]
    for one in found:
        if (why := _refused(one.source, package=package, public=public)) is not None:
            return why
    return found


def uses(block: Block, name: str) -> bool:
    """Whether a block does anything with a name, beyond importing it or printing it as text."""
    try:
        sources = [one.source for one in doctest.DocTestParser().get_examples(block.text)] or [block.text]
        trees = [ast.parse(source) for source in sources]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return any(node.id == name for node in nodes if isinstance(node, ast.Name)) or any(
        node.attr == name for node in nodes if isinstance(node, ast.Attribute))


def _wanted(want: str) -> str:
    lines = want.replace("<BLANKLINE>", "").rstrip().splitlines()
    if lines and lines[0].startswith("Traceback ("):
        return f"{_TRACE}\n{lines[-1].strip()}"
    return "\n".join(line.rstrip() for line in lines)


def _refused(source: str, *, package: str, public: Sequence[str]) -> str | None:
    """Why an example is not run at all."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"an example that is no Python: {error}"
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                if any(name.split(".")[0] not in _MODULES | {package} for name in names):
                    return f"an example imports {', '.join(names)}: expected {package}, or one of {sorted(_MODULES)}"
                if any(alias.asname is not None and alias.asname in public for alias in node.names):
                    return "an example calls something else by the name of a function of the package"
            case ast.Attribute() if not isinstance(node.ctx, ast.Load) or _FRAMES.match(node.attr):
                return f"an example reaches for .{node.attr}"
            case ast.Name(ctx=ast.Load()) if node.id in _POWERS or node.id.startswith("__"):
                return f"an example uses {node.id}"
            case ast.Name() if not isinstance(node.ctx, ast.Load) and (node.id in public or hasattr(builtins, node.id)):
                return f"an example makes {node.id} something else"
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef() if node.name in public:
                return f"an example makes {node.name} something else"
            case ast.Global() | ast.Nonlocal() | ast.Lambda() | ast.Try() | ast.TryStar():
                return f"an example with a {type(node).__name__.lower()}: expected one that shows the package"
            case _:
                continue
    return None


def told_to_runner(blocks: Sequence[Sequence[Example]], *, mark: str) -> dict[str, object]:
    """What RUNNER reads."""
    return {"mark": mark, "trace": _TRACE,
            "blocks": [[(one.source, "exec" if one.want is None else "single") for one in block] for block in blocks]}


def differences(blocks: Sequence[Sequence[Example]], printed: str, *, mark: str) -> list[tuple[int, str]]:
    """Where the outputs are not those shown, by the number of the block; in a run that was ended all are wrong."""
    found: dict[str, str] = {}
    for part in f"\n{printed}".split(f"\n{mark} ")[1:]:
        key, _, text = part.partition("\n")
        found.setdefault(key, "\n".join(line.rstrip() for line in text.rstrip().splitlines()))
    wrong = list[tuple[int, str]]()
    for place, block in enumerate(blocks):
        for number, one in enumerate(block):
            got = found.get(f"{place} {number}")
            told = one.source.strip().splitlines()[-1][:80] if one.source.strip() else ""
            if got is None:
                wrong.append((place, f"{told!r}: the run ended before it"))
            elif one.want is None and _TRACE in got:
                wrong.append((place, f"a program ends with {got.splitlines()[-1]}"))
            elif one.want is not None and got != one.want:
                wrong.append((place, f"{told!r}: expected {one.want[:80]!r}, found {got[:80]!r}"))
    if "end end" not in found:
        wrong += [(place, "an example ended the run") for place in range(len(blocks))]
    return wrong


def commands_of(text: str) -> list[tuple[str, str]]:
    """The commands of a block, and what each shows that it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line.rstrip())
    return [(command, "\n".join(lines).rstrip()) for command, lines in found]


def calls_wrong(code: str, *, package: str, facts: Mapping[str, Sequence[str]], modules: Sequence[str]) -> str | None:
    """What is wrong with a piece of inline code that names the package or calls something; None where nothing is."""
    plain = code.strip()
    match = re.fullmatch(r"([A-Za-z_][\w.]*)(\(.*\))?", plain)
    if match is None:
        return None
    name, called = match[1], match[2] is not None
    parts = name.split(".")
    if parts[0] == package:
        rest = parts[1:] if not (len(parts) > 1 and parts[1] in modules) else parts[2:]
        if rest and rest[0] not in facts:
            return f"`{plain[:60]}`: {package} has no {rest[0]}"
        name = rest[0] if rest else ""
    elif len(parts) > 1 or not (called or "_" in name):
        return None
    parameters = facts.get(name)
    if parameters is None:
        known = not name or name in modules or hasattr(builtins, name) or any(name in p for p in facts.values())
        return None if known else f"`{plain[:60]}`: {package} has no {name}"
    return _arguments_wrong(plain, parameters) if called else None


def _arguments_wrong(call: str, parameters: Sequence[str]) -> str | None:
    try:
        node = ast.parse(call.replace("...", "x").replace("…", "x"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(node, ast.Call) or any(one.startswith("*") for one in parameters):
        return None
    strange = [word.arg for word in node.keywords if word.arg is not None and word.arg not in parameters]
    if strange:
        return f"`{call[:60]}`: it takes no {strange[0]}"
    if len(node.args) > len(parameters):
        return f"`{call[:60]}`: it takes {len(parameters)} arguments"
    return None
