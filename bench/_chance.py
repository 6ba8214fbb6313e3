"""Which tasks draw on chance or on the clock, read from the text of their tests and programs alone. Nothing is run.

The rule, on the syntax tree of each Python file: a use of something imported from `random` that no seed governs
(`random.Random(42)`, and all of `random` in a file that calls `random.seed(x)`, are governed), of `secrets`, `uuid`,
`tempfile`, `time` (but `sleep`), `numpy.random`, `os.urandom`, `os.getrandom`, or of a `now`, `utcnow` or `today` of
`datetime`. In other text: the words of a shell for the same. An import that is never used is no use.

Not seen: names reached in other ways (`__import__`, `getattr`), and the order of sets, which the seed of hashes makes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from quintain.tasks import Exam

_MODULES = frozenset({"random", "secrets", "uuid", "tempfile", "time", "numpy.random"})
_PARTS = frozenset({"os.urandom", "os.getrandom"})
_INNOCENT = frozenset({"time.sleep", "time.struct_time", "uuid.UUID", "uuid.uuid3", "uuid.uuid5", "random.seed",
                       "numpy.random.seed"})
_SEEDED_BY_ARGUMENT = frozenset({"random.Random", "numpy.random.default_rng", "numpy.random.RandomState"})
_NOW = re.compile(r"datetime\.(datetime\.|date\.)?(now|utcnow|today)")
_SHELL = re.compile(r"\$\{?S?RANDOM\b|/dev/u?random|\bmktemp\b|\bshuf\b|\buuidgen\b|\$\{?EPOCH(SECONDS|REALTIME)\b|"
                    r"(?:^|[;&|(`]|\$\()\s*date\b|\brand\(|\bMath\.random\b|/proc/uptime", re.MULTILINE)


def chance_in(text: str, *, python: bool) -> tuple[str, ...]:
    """What unseeded the text draws on, by full name, sorted. A file that Python cannot parse runs nothing: empty."""
    if not python:
        return tuple(sorted({found.group().strip() for found in _SHELL.finditer(text)}))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    names = _imported(tree)
    uses = list(_uses(tree, names))
    seeded = {name.removesuffix(".seed") for name, call in uses
              if name in {"random.seed", "numpy.random.seed"} and _with_argument(call)}
    return tuple(sorted({name for name, call in uses if _draws(name, call, seeded)}))


def chance_of(exam: Exam) -> tuple[str, ...]:
    """What unseeded the suites, the author's answer and the null answers of a task draw on, sorted."""
    trees = [getattr(suite, "files", None) or {} for suite in (exam.hidden, exam.visible, exam.reserve)]
    trees += [exam.oracle or {}, *exam.null]
    return tuple(sorted({
        name for tree in trees for path, content in tree.items()
        for name in chance_in(content.decode("utf-8", "replace"), python=path.endswith(".py"))}))


def _draws(name: str, call: ast.Call | None, seeded: set[str]) -> bool:
    module = name.rpartition(".")[0]
    if name in _INNOCENT or (name in _SEEDED_BY_ARGUMENT and _with_argument(call)):
        return False
    if module in seeded and name not in {"random.SystemRandom", *_SEEDED_BY_ARGUMENT}:
        return False
    return module in _MODULES or name in _PARTS or _NOW.fullmatch(name) is not None


def _with_argument(call: ast.Call | None) -> bool:
    given = [*call.args, *(word.value for word in call.keywords)] if call else []
    return any(not (isinstance(one, ast.Constant) and one.value is None) for one in given)


def _imported(tree: ast.AST) -> dict[str, str]:
    """Every name that an import binds anywhere in the file, and the full name of what it means."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                names[one.asname or one.name.partition(".")[0]] = one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({m: f"{node.module}.{m}" for m in _MEMBERS.get(node.module, ())}
                         if node.names[0].name == "*" else
                         {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})
    return names


_MEMBERS = {
    "random": ("random", "randint", "choice", "choices", "shuffle", "sample", "uniform", "randrange", "gauss", "seed",
               "Random", "SystemRandom", "getrandbits"),
    "time": ("time", "monotonic", "perf_counter", "time_ns", "process_time", "localtime", "gmtime", "ctime"),
    "os": ("urandom",), "uuid": ("uuid1", "uuid4"), "secrets": ("token_hex", "token_bytes", "randbelow", "choice"),
    "datetime": ("datetime", "date"), "tempfile": ("mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile"),
}


def _uses(tree: ast.AST, names: dict[str, str]) -> Iterator[tuple[str, ast.Call | None]]:
    """Each imported thing that is used, and each part of it, by full name, with the call if it is called."""
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and (name := _full(node, names)):
            yield name, called.get(id(node))


def _full(node: ast.expr, names: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return names.get(node.id) if isinstance(node.ctx, ast.Load) else None
    if isinstance(node, ast.Attribute) and (head := _full(node.value, names)):
        return f"{head}.{node.attr}"
    return None
