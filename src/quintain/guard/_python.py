"""What a Python file says and does, as facts: imports, names, calls, assignments, strings, hidden code; by its text.

Covers: names behind aliases, `getattr` with a name put together from literals, `__import__`, `sys.modules[...]`,
`__dict__[...]`, and code in literals (plain, base64, hex, rot13, compressed) given to exec, eval or compile.
Does not cover: names that only a run computes; those show as facts of the kind "computed".
"""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Iterator
from itertools import product

from quintain.guard._facts import Fact
from quintain.guard._values import Known, Ref, Scope, Value

#: Beyond this a file is not read: no answer to a task is as long.
LARGEST_BYTES = 200_000
_DEEPEST = 3
_SHOWN = 300
_EXECUTING = frozenset({"exec", "eval", "compile", "builtins.exec", "builtins.eval", "builtins.compile"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def parsed(content: bytes | str) -> ast.Module | None:
    """The syntax tree, None for what is no Python."""
    if len(content) > LARGEST_BYTES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def python_facts(file: str, content: bytes | str, *, depth: int = 0) -> list[Fact]:
    """The facts of one file, in the order of its text."""
    tree = parsed(content)
    if tree is None:
        why = "too large" if len(content) > LARGEST_BYTES else "no Python"
        return [Fact(kind="unreadable", text=why, file=file)]
    try:
        reader = _Reader(file, depth)
        reader.read(tree)
    except RecursionError:
        return [Fact(kind="unreadable", text="nested too deeply", file=file)]
    return [*reader.facts, *_comments(file, content)]


def _comments(file: str, content: bytes | str) -> Iterator[Fact]:
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    try:
        for token in tokenize.tokenize(io.BytesIO(data).readline):
            if token.type == tokenize.COMMENT:
                yield Fact(kind="comment", text=token.string[:_SHOWN], file=file, line=token.start[0])
    except (tokenize.TokenError, SyntaxError, ValueError):
        return


def _docstrings(tree: ast.AST) -> set[int]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(id(first.value))
    return found


class _Binder(ast.NodeVisitor):
    """First pass: all values that each name is given, wherever in the file."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.scope.bind(alias.asname or alias.name.split(".")[0],
                            (Ref(alias.name if alias.asname else alias.name.split(".")[0]),))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.scope.bind(alias.asname or alias.name, (Ref(f"{node.module or '.'}.{alias.name}"),))

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._bind(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._bind(node.target, node.value)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._bind_items(node.target, node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._bind_items(node.target, node.iter)
        self.generic_visit(node)

    def visit_withitem(self, node: ast.withitem) -> None:
        if isinstance(node.optional_vars, ast.Name):
            self.scope.own.add(node.optional_vars.id)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.scope.own.add(node.name)
        self._arguments(node.args)
        self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.scope.own.add(node.name)
        self._arguments(node.args)
        self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._arguments(node.args)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.own.add(node.name)
        self.generic_visit(node)

    def _arguments(self, args: ast.arguments) -> None:
        given = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        self.scope.own.update(a.arg for a in (*given, *filter(None, (args.vararg, args.kwarg))))

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.scope.bind(target.id, self.scope.values(value))
        elif isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for part, one in zip(target.elts, value.elts, strict=True):
                    self._bind(part, one)
            else:
                self._spread(target, self.scope.values(value))

    def _bind_items(self, target: ast.expr, items: ast.expr) -> None:
        """The items of a loop, each alone; those that are written out may be names as well as constants."""
        if isinstance(items, (ast.Tuple, ast.List, ast.Set)):
            for item in items.elts:
                self._bind(target, item)
            return
        for known in self.scope.known(items):
            if isinstance(known, (list, tuple, str)):
                for one in known[:64]:
                    self._place(target, (Known(one),))
                return
        self._place(target, ())

    def _place(self, target: ast.expr, values: tuple[Value, ...]) -> None:
        if isinstance(target, ast.Name):
            self.scope.bind(target.id, values)
        else:
            self._spread(target, values)

    def _spread(self, target: ast.expr, values: tuple[Value, ...]) -> None:
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        for number, part in enumerate(parts):
            each: tuple[Value, ...] = tuple(
                Known(v.value[number]) for v in values if isinstance(v, Known)
                and isinstance(v.value, (list, tuple)) and len(v.value) == len(parts))
            self._place(part, each)


class _Reader:
    """Second pass: one fact for each thing that is said or done."""

    def __init__(self, file: str, depth: int) -> None:
        self.file = file
        self.depth = depth
        self.facts: list[Fact] = []
        self.scope = Scope()
        self._seen: set[tuple[str, str, int]] = set()

    def read(self, tree: ast.Module) -> None:
        binder = _Binder(self.scope)
        for _ in range(3):  # a name may be made of names that are bound below it
            binder.visit(tree)
        docs = _docstrings(tree)
        for node in ast.walk(tree):
            self._one(node, docs)
        for statement in tree.body:
            self._at_import(statement)

    def say(self, kind: str, text: str, node: ast.AST) -> None:
        line = getattr(node, "lineno", 0)
        text = text[:_SHOWN].replace("\n", "\\n")
        if (kind, text, line) not in self._seen:
            self._seen.add((kind, text, line))
            self.facts.append(Fact(kind=kind, text=text, file=self.file, line=line))

    def _one(self, node: ast.AST, docs: set[int]) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    self.say("import", alias.name, node)
            case ast.ImportFrom(module=module, names=names):
                self.say("import", module or ".", node)
                for alias in names:
                    self.say("use", f"{module or '.'}.{alias.name}", node)
            case ast.Constant(value=str() | bytes() as said):
                shown = said if isinstance(said, str) else said.decode("latin-1")
                self.say("comment" if id(node) in docs else "str", shown, node)
            case ast.Attribute(attr=attr):
                self.say("attr", attr, node)
                for path in self.scope.paths(node):
                    self.say("use", path, node)
            case ast.Name(ctx=ast.Load()):
                for path in self.scope.paths(node):
                    self.say("use", path, node)
            case ast.Call():
                self._call(node)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._set(target, value)
            case ast.AugAssign() | ast.AnnAssign():
                self._set(node.target, node.value)
            case ast.Delete(targets=targets):
                for target in targets:
                    self._set(target, None)
            case ast.Raise(exc=ast.expr() as exc):
                raised = exc.func if isinstance(exc, ast.Call) else exc
                for path in self.scope.paths(raised):
                    self.say("raise", path, node)
            case ast.ExceptHandler(type=kind, body=body):
                self._catch(node, kind, body)
            case ast.ClassDef():
                self._class(node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.say("def", name, node)

    def _catch(self, node: ast.AST, kind: ast.expr | None, body: list[ast.stmt]) -> None:
        if not any(isinstance(inner, ast.Raise) for statement in body for inner in ast.walk(statement)):
            for path in self.scope.paths(kind) if kind else ("everything",):
                self.say("catch", path, node)

    def _class(self, node: ast.ClassDef) -> None:
        bases = ", ".join(next(iter(self.scope.paths(base)), "?") for base in node.bases)
        self.say("class", f"{node.name}({bases})", node)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name.startswith("__"):
                self.say("method", f"{node.name}.{statement.name} = {_comes_to(statement)}", statement)
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    name = target.id if isinstance(target, ast.Name) else ""
                    if name.startswith("__") and isinstance(statement.value, ast.Lambda):
                        self.say("method", f"{node.name}.{name} = {_of_expression(statement.value.body)}", statement)

    def _set(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._set(part, None)
            return
        if not isinstance(target, (ast.Attribute, ast.Subscript)):
            return
        shown = _of_expression(value) if value is not None else "?"
        got = [repr(v) for v in self.scope.known(value)[:1]] or [shown]
        paths = self.scope.paths(target)
        for path in paths:
            self.say("set", f"{path} = {got[0]}", target)
        if not paths and isinstance(target, ast.Attribute):
            self.say("set", f"?.{target.attr} = {got[0]}", target)
        if isinstance(target, ast.Attribute) and target.attr.startswith("__"):
            self.say("method", f"?.{target.attr} = {shown}", target)

    def _call(self, node: ast.Call) -> None:
        paths = self.scope.paths(node.func)
        attr = node.func.attr if isinstance(node.func, ast.Attribute) else None
        arguments = [*node.args, *(k.value for k in node.keywords)]
        for path in paths or ([f"?.{attr}"] if attr else []):
            for shown in self._shown(arguments[:6], [k.arg or "**" for k in node.keywords], len(node.args)):
                self.say("call", f"{path}({shown})", node)
        for path in paths:
            short = path.removeprefix("builtins.")
            if short == "setattr" and len(node.args) == 3:
                for name in self.scope.known(node.args[1]) or ("?",):
                    for owner in self.scope.paths(node.args[0]) or ("?",):
                        self.say("set", f"{owner}.{name} = {_of_expression(node.args[2])}", node)
                    if str(name).startswith("__"):
                        self.say("method", f"?.{name} = {_of_expression(node.args[2])}", node)
            if short == "getattr" and len(node.args) > 1:
                for name in self.scope.known(node.args[1]):
                    self.say("attr", str(name), node)
                for made in self.scope.paths(node):
                    self.say("use", made, node)
                if not self.scope.known(node.args[1]):
                    self.say("computed", "an attribute whose name is computed", node)
            if short in ("__import__", "importlib.import_module") and node.args:
                for name in self.scope.known(node.args[0]) or ("?",):
                    self.say("import" if name != "?" else "computed", str(name), node)
            if short == "type" and len(node.args) == 3:
                self._made_class(node)
            if short in _EXECUTING and node.args:
                self._hidden(node.args[0], node)

    def _shown(self, arguments: list[ast.expr], names: list[str], plain: int) -> Iterator[str]:
        choices = [[_brief(v) for v in self.scope.known(a)] or [f"<{p}>" for p in self.scope.paths(a)[:1]] or ["?"]
                   for a in arguments]
        for number, chosen in enumerate(product(*choices)):
            if number >= 8:
                return
            yield ", ".join(text if at < plain else f"{names[at - plain]}={text}" for at, text in enumerate(chosen))

    def _made_class(self, node: ast.Call) -> None:
        self.say("class", f"?({', '.join(_base(b) for b in getattr(node.args[1], 'elts', []))})", node)
        members = node.args[2]
        if isinstance(members, ast.Dict):
            for key, value in zip(members.keys, members.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Lambda):
                    self.say("method", f"?.{key.value!s} = {_of_expression(value.body)}", value)

    def _hidden(self, argument: ast.expr, node: ast.Call) -> None:
        texts = [t for t in self.scope.known(argument) if isinstance(t, str | bytes)]
        if not texts and not (isinstance(argument, ast.Call) and "compile" in self.scope.paths(argument.func)):
            what = "eval of what is computed" if "eval" in self.scope.paths(node.func) else "code that is computed"
            self.say("computed", what, node)
        for text in texts:
            shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
            self.say("decoded", shown, node)
            if self.depth < _DEEPEST:
                for fact in python_facts(self.file, text, depth=self.depth + 1):
                    self.say(fact.kind, fact.text, node)

    def _at_import(self, statement: ast.stmt) -> None:
        """Calls that are made when the module is loaded, those in its own bodies of `if` and `for` included."""
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            return
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            return
        stack: list[ast.AST] = [statement]
        while stack:
            node = stack.pop()
            if isinstance(node, _FUNCTIONS):
                continue
            if isinstance(node, ast.Call):
                for path in self.scope.paths(node.func) or ("?",):
                    self.say("at import", path, node)
            stack += list(ast.iter_child_nodes(node))


def _brief(value: object) -> str:
    """A value as an argument is shown: long ones are cut in the middle of none of their names."""
    return value if isinstance(value, str) and len(value) < 120 and value.isprintable() else repr(value)[:120]


def _base(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else "?"


def _comes_to(function: ast.FunctionDef) -> str:
    """What a method that only returns comes to; `?` for one that computes."""
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if not body:
        return "nothing"
    first = body[0]
    if isinstance(first, ast.Raise) and first.exc is not None:
        return f"raise {ast.unparse(first.exc)[:60]}"
    if len(body) == 1 and isinstance(first, ast.Return) and first.value is not None:
        return _of_expression(first.value)
    return "pass" if isinstance(first, ast.Pass) else "?"


def _of_expression(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return repr(node.value)[:60]
    if isinstance(node, ast.Lambda):
        return f"lambda: {_of_expression(node.body)}"
    if isinstance(node, (ast.Name, ast.Attribute)):
        return ast.unparse(node)[:60]
    if isinstance(node, (ast.Tuple, ast.List, ast.Dict)) and not any(
            isinstance(n, ast.Name) for n in ast.walk(node)):
        return ast.unparse(node)[:60]
    return "?"
