"""Whether what was handed in can be built: said from its text, without running it."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from quintain.program.languages import language, language_of_path
from quintain.program.oddities import hint
from quintain.types import Entry, Fault, FaultKind, Owner

MAX_SOURCE_BYTES = 1024 * 1024  # a larger source is refused
MAX_CHECKED_BYTES = 256 * 1024  # a larger one is left to the sandbox: CPython's compiler is quadratic on some texts

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN_CODECS = {
    "utf-8": "utf-8", "utf8": "utf-8", "ascii": "ascii", "us-ascii": "ascii", "latin-1": "latin-1",
    "iso-8859-1": "latin-1", "iso-latin-1": "latin-1", "utf-8-sig": "utf-8",
}
_HTML_NAMES = frozenset({"lt", "gt", "amp", "quot", "apos", "nbsp"})
_DYNAMIC = frozenset({"exec", "globals", "vars", "locals", "setattr", "__getattr__", "__builtins__", "modules"})


def check_source(path: str, content: bytes, *, entry: Entry | None = None) -> Fault | None:
    """The policy's fault that the text of one file shows: `syntax_error`, `missing_entry_point`, or `None`.

    Python is compiled, never executed, in our own process; other languages are checked in the sandbox with
    `Language.check_for`, here only for NUL bytes and size. With `entry` of the same path, the name that it needs must
    be bound at top level (a star import or `exec`, `globals` and the like count as binding anything). Line numbers
    count from 1; a NUL byte is a `syntax_error` on every Python version.

    Covers: size (over 1 MiB refused, over 256 KiB not compiled), nesting (RecursionError, MemoryError), codecs (only
    UTF-8, ASCII and Latin-1 are decoded; others are left to the sandbox). Does not cover: names bound at run time.
    The grammar is that of the Python which runs Quintain.
    """
    row = language_of_path(path) or (language(entry.language) if entry is not None and entry.path == path else None)
    if len(content) > MAX_SOURCE_BYTES:
        return _syntax(path, 1, f"expected at most {MAX_SOURCE_BYTES} bytes of source, found {len(content)}",
                       kind=FaultKind.BUILD_ERROR)
    nul = content.find(b"\0")
    if nul >= 0 and row is not None:
        line = content.count(b"\n", 0, nul) + 1
        return _syntax(path, line, f"expected text, found a NUL byte at line {line}")
    if row is None or row.name != "python":
        return None
    return _check_python(path, content, entry)


def _check_python(path: str, content: bytes, entry: Entry | None) -> Fault | None:
    source = _decoded(path, content)
    if source is None or isinstance(source, Fault) or len(content) > MAX_CHECKED_BYTES:
        return source if isinstance(source, Fault) else None
    tree = compiled(path, source)
    if isinstance(tree, Fault):
        return tree
    escaped = _html_escape(tree, source)
    if escaped is not None:
        line, text = escaped
        return _syntax(path, line, f"expected code, found the HTML escape {text!r}{hint(source, near_line=line)}")
    if entry is None or entry.name is None or entry.path != path:
        return None
    return _missing_entry(path, tree, entry.name, source)


def _decoded(path: str, content: bytes) -> str | Fault | None:
    """The source as text; `None` when its codec is not one that we decode ourselves."""
    codec = "utf-8"
    for line in content.split(b"\n", 2)[:2]:
        if (cookie := _COOKIE.match(line)) is not None:
            name = cookie[1].decode("latin-1").lower().replace("_", "-")
            if name not in _PLAIN_CODECS:
                return None
            codec = _PLAIN_CODECS[name]
            break
    try:
        return content.removeprefix(b"\xef\xbb\xbf").decode(codec)
    except UnicodeDecodeError as error:
        line_number = content.count(b"\n", 0, error.start) + 1
        return _syntax(path, line_number, f"expected {codec} text, found byte 0x{content[error.start]:02x}")


def compiled(path: str, source: str) -> ast.Module | Fault:
    """The syntax tree of a Python source that compiles, or the fault that says why it does not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, path)
            compile(tree, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        line = error.lineno or 1
        message = f"{error.msg or 'invalid syntax'} at line {line}"
        return _syntax(path, line, message + hint(source, near_line=line), exception=type(error).__name__)
    except (RecursionError, MemoryError):
        return _syntax(path, 1, "it is nested too deeply to be compiled")
    except (ValueError, OverflowError, UnicodeError) as error:
        return _syntax(path, 1, f"it cannot be compiled: {str(error)[:200]}")
    return tree


def _html_escape(tree: ast.Module, source: str) -> tuple[int, str] | None:
    """`a &lt; b` compiles, as `(a & lt); b`: an escape all the same, where nothing binds the name."""
    if "&" not in source or ";" not in source:
        return None
    lines = source.split("\n")
    bound: set[str] = set()
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _HTML_NAMES:
            if not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
                continue
            line = lines[node.lineno - 1].encode("utf-8", "surrogatepass") if node.lineno <= len(lines) else b""
            text = line[max(0, node.col_offset - 1):(node.end_col_offset or 0) + 1]
            if text == f"&{node.id};".encode():
                found.append((node.lineno, text.decode()))
        bound.update(_other_bindings(node))
    return next((place for place in found if place[1][1:-1] not in bound), None)


def _other_bindings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield (alias.asname or alias.name).split(".", 1)[0]


def _missing_entry(path: str, tree: ast.Module, name: str, source: str) -> Fault | None:
    first, _, rest = name.partition(".")
    bound = set(_top_level(tree.body))
    if "*" in bound or any(_is_dynamic(node) for node in ast.walk(tree)):
        return None
    if first not in bound:
        return _no_entry(path, name, sorted(bound), source)
    owner = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == first), None)
    if rest and owner is not None and not owner.bases and not owner.decorator_list and not owner.keywords:
        members = set(_top_level(owner.body))
        if rest.split(".", 1)[0] not in members:
            return _no_entry(path, name, sorted(members), source)
    return None


def _is_dynamic(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _DYNAMIC
    if isinstance(node, ast.Attribute):
        return node.attr in _DYNAMIC
    if isinstance(node, ast.Global):  # a function may bind a name of the module
        return True
    return isinstance(node, ast.FunctionDef) and node.name in _DYNAMIC


def _top_level(body: list[ast.stmt]) -> Iterator[str]:
    """The names that the statements of a module or class bind, those in if, try, with, for and while included."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        yield from _other_bindings(node)
        pending.extend(ast.iter_child_nodes(node))


def _no_entry(path: str, name: str, found: list[str], source: str) -> Fault:
    has = ", ".join(found[:8]) or "nothing"
    return Fault(
        owner=Owner.POLICY, kind=FaultKind.MISSING_ENTRY_POINT, file=path,
        message=f"expected {path} to define {name!r} at top level; found {has}{hint(source)}",
    )


def _syntax(
    path: str, line: int, message: str, *, exception: str | None = None, kind: FaultKind = FaultKind.SYNTAX_ERROR,
) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message, file=path, line=line, exception=exception)
