"""What an expression of Python comes to without running it: known constants, and names reached through modules."""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, product

import msgspec

#: At most so many values that one expression may have, and so many characters or items in one.
ALTERNATIVES = 16
LARGEST = 20_000


class Ref(msgspec.Struct, frozen=True):
    """A thing that is reached by name from a module or from the builtins: `os.environ`, `sys._getframe().f_back`."""

    path: str


class Known(msgspec.Struct, frozen=True):
    """A value that is known."""

    value: object


Value = Ref | Known

_METHODS = frozenset({
    "join", "replace", "decode", "encode", "lower", "upper", "strip", "lstrip", "rstrip", "format", "split", "title",
    "removeprefix", "removesuffix", "swapcase", "capitalize", "hex", "values", "keys", "items", "get",
})


def _rot13(text: object, name: object = "rot13", *_: object) -> object:
    plain = isinstance(text, str) and str(name).replace("_", "").replace("-", "") == "rot13"
    return codecs.decode(str(text), "rot13") if plain else None


def _inflated(data: object, *_: object) -> object:
    return zlib.decompressobj().decompress(data, LARGEST) if isinstance(data, bytes) else None


_PURE: dict[str, Callable[..., object]] = {
    "chr": chr, "ord": ord, "str": str, "bytes": lambda x: bytes(x) if isinstance(x, list | tuple) else None,
    "list": list, "tuple": tuple, "reversed": lambda x: list(reversed(x)), "int": int,
    "base64.b64decode": base64.b64decode, "base64.b32decode": base64.b32decode, "base64.b16decode": base64.b16decode,
    "base64.urlsafe_b64decode": base64.urlsafe_b64decode, "base64.b85decode": base64.b85decode,
    "base64.a85decode": base64.a85decode,
    "binascii.unhexlify": binascii.unhexlify, "binascii.a2b_base64": binascii.a2b_base64,
    "bytes.fromhex": bytes.fromhex, "bytearray.fromhex": bytes.fromhex, "codecs.decode": _rot13,
    "zlib.decompress": _inflated, "os.path.join": lambda *parts: "/".join(parts), "pathlib.Path": lambda x: x,
    "os.fspath": lambda x: x, "repr": repr,
}
_MODULES_BY_CALL = ("__import__", "importlib.import_module", "builtins.__import__", "importlib.__import__")


class Scope:
    """What names stand for, whatever the order of statements: all values that a name is ever given."""

    def __init__(self, names: Mapping[str, tuple[Value, ...]] | None = None, own: frozenset[str] = frozenset()) -> None:
        self.names: dict[str, tuple[Value, ...]] = dict(names or {})
        self.own = set(own)  # names that the answer binds to what is not known
        self._held: dict[int, tuple[Value, ...]] = {}  # what each node came to, until a name is bound again

    def bind(self, name: str, values: tuple[Value, ...]) -> None:
        self._held.clear()
        if not values:
            self.own.add(name)
            return
        held = self.names.get(name, ())
        self.names[name] = (*held, *(v for v in values if v not in held))[:ALTERNATIVES]

    def values(self, node: ast.expr | None) -> tuple[Value, ...]:
        """All that the expression may come to, as far as it is known; empty when it is not."""
        if id(node) not in self._held:
            found: list[Value] = []
            for value in islice(self._values(node), ALTERNATIVES):
                if value not in found:
                    found.append(value)
            self._held[id(node)] = tuple(found)
        return self._held[id(node)]

    def known(self, node: ast.expr | None) -> tuple[object, ...]:
        """The constants among them."""
        return tuple(v.value for v in self.values(node) if isinstance(v, Known))

    def paths(self, node: ast.expr | None) -> tuple[str, ...]:
        """The paths of the names among them."""
        return tuple(v.path for v in self.values(node) if isinstance(v, Ref))

    def _values(self, node: ast.expr | None) -> Iterator[Value]:
        match node:
            case ast.Constant(value=constant):
                yield Known(constant)
            case ast.Name(id=name):
                if name in self.names:
                    yield from self.names[name]
                elif name not in self.own:
                    yield Ref(name)
            case ast.Attribute(value=inner, attr=attr):
                for value in self.values(inner):
                    if isinstance(value, Ref):
                        yield Ref(f"{value.path}.{attr}")
            case ast.NamedExpr(value=inner) | ast.Starred(value=inner) | ast.Await(value=inner):
                yield from self.values(inner)
            case ast.Subscript():
                yield from self._subscript(node)
            case ast.Call():
                yield from self._call(node)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self.values(body)
                yield from self.values(orelse)
            case ast.BoolOp(values=parts):
                for part in parts:
                    yield from self.values(part)
            case _:
                yield from map(Known, self._constants(node))

    def _constants(self, node: ast.expr | None) -> Iterator[object]:
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if len(parts) <= LARGEST // 10:
                for chosen in islice(product(*(self.known(p) for p in parts)), ALTERNATIVES):
                    yield list(chosen) if isinstance(node, ast.List) else chosen
            case ast.Dict(keys=keys, values=values) if len(keys) <= LARGEST // 10:
                pairs = [(self.known(k), self.known(v)) for k, v in zip(keys, values, strict=True)]
                if all(k and v for k, v in pairs):
                    yield _safely(lambda: {k[0]: v[0] for k, v in pairs})
            case ast.JoinedStr(values=parts):
                texts = [self.known(p.value if isinstance(p, ast.FormattedValue) else p) for p in parts]
                for chosen in islice(product(*texts), ALTERNATIVES):
                    yield "".join(map(str, chosen))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                for value in self.known(inner):
                    if isinstance(value, int | float):
                        yield -value
            case ast.BinOp(left=left, op=op, right=right):
                for a, b in islice(product(self.known(left), self.known(right)), ALTERNATIVES):
                    yield from _calculated(a, op, b)
            case ast.ListComp() | ast.GeneratorExp():
                yield from self._comprehension(node)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> Iterator[object]:
        made = node.generators[0]
        if len(node.generators) > 1 or made.ifs or not isinstance(made.target, ast.Name):
            return
        for items in self.known(made.iter):
            if not isinstance(items, str | bytes | list | tuple) or len(items) > LARGEST // 10:
                continue
            results = []
            for item in items:
                inner = Scope({**self.names, made.target.id: (Known(item),)}, frozenset(self.own))
                results.append(inner.known(node.elt)[:1])
            if all(results):
                yield [r[0] for r in results]

    def _subscript(self, node: ast.Subscript) -> Iterator[Value]:
        keys = self.known(node.slice) if not isinstance(node.slice, ast.Slice) else (_slice(self, node.slice),)
        for value, key in islice(product(self.values(node.value), keys), ALTERNATIVES):
            if isinstance(value, Known):
                got = _safely(lambda held=value.value, at=key: held[at])  # type: ignore[misc]
                if got is not None:
                    yield Known(got)
            elif value.path == "sys.modules":
                yield Ref(str(key))
            elif value.path in ("globals()", "locals()", "vars()") and isinstance(key, str):
                yield from self._values(ast.Name(id=key))
            elif isinstance(key, str) and value.path.endswith((".__dict__", "__builtins__")):
                yield Ref(f"{value.path.removesuffix('.__dict__').removesuffix('__builtins__')}.{key}".lstrip("."))
            else:
                yield Ref(f"{value.path}[{key}]")

    def _call(self, node: ast.Call) -> Iterator[Value]:
        done = False
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            for made in self._method(node, node.func):
                done = True
                yield made
        if done:
            return
        for path in self.paths(node.func):
            short = path.removeprefix("builtins.")
            given = list(islice(product(*(self.known(a) for a in node.args)), ALTERNATIVES))
            if short == "getattr" and len(node.args) >= 2:
                for owner, name in product(self.paths(node.args[0]), self.known(node.args[1])):
                    yield Ref(f"{owner}.{name}")
            elif path in _MODULES_BY_CALL and node.args:
                yield from (Ref(str(name)) for name in self.known(node.args[0]))
            elif short == "vars" and node.args:
                yield from (Ref(f"{owner}.__dict__") for owner in self.paths(node.args[0]))
            elif short == "map" and len(node.args) == 2:
                yield from self._mapped(node)
            elif short in _PURE and given and not node.keywords:
                for args in given:
                    value = _safely(lambda f=_PURE[short], a=args: f(*a))  # type: ignore[misc]
                    if value is not None and _small(value):
                        yield Known(value)
            else:
                yield Ref(f"{path}()")

    def _mapped(self, node: ast.Call) -> Iterator[Value]:
        for path, items in product(self.paths(node.args[0]), self.known(node.args[1])):
            if path in ("chr", "str", "ord") and isinstance(items, list | tuple | bytes | str) and _small(items):
                made = _safely(lambda f=_PURE[path], all=items: [f(i) for i in all])  # type: ignore[misc]
                if made is not None:
                    yield Known(made)

    def _method(self, node: ast.Call, func: ast.Attribute) -> Iterator[Value]:
        for held in self.known(func.value):
            if isinstance(held, str | bytes | dict) and hasattr(held, func.attr) and not node.keywords:
                for args in islice(product(*(self.known(a) for a in node.args)), ALTERNATIVES):
                    if _explodes(held, func.attr, args):
                        continue
                    made = _safely(lambda h=held, a=args: getattr(h, func.attr)(*a))  # type: ignore[misc]
                    if isinstance(held, dict) and made is not None:
                        made = made if func.attr == "get" else list(made)  # type: ignore[call-overload]
                    if made is not None and _small(made):
                        yield Known(made)


def _slice(scope: Scope, node: ast.Slice) -> slice:
    parts = [next((v for v in scope.known(p) if isinstance(v, int)), None) for p in (node.lower, node.upper, node.step)]
    return slice(*parts)


def _calculated(a: object, op: ast.operator, b: object) -> Iterator[object]:
    if isinstance(op, ast.Add):
        made = _safely(lambda: a + b)  # type: ignore[operator]
    elif isinstance(op, ast.Mod) and isinstance(a, str) and "*" not in a and not any(c.isdigit() for c in a):
        made = _safely(lambda: a % b)
    elif isinstance(op, ast.Div) and isinstance(a, str) and isinstance(b, str):  # a path
        made = f"{a}/{b}"
    elif isinstance(op, ast.BitXor | ast.Sub) and isinstance(a, int) and isinstance(b, int):
        made = a ^ b if isinstance(op, ast.BitXor) else a - b
    elif isinstance(op, ast.Mult) and isinstance(a, int | float) and isinstance(b, int | float):
        made = a * b if abs(a) < 1e9 and abs(b) < 1e9 else None
    else:
        made = None
    if made is not None and _small(made):
        yield made


def _small(value: object) -> bool:
    if isinstance(value, int):
        return value.bit_length() < 4096
    return not isinstance(value, str | bytes | list | tuple | dict) or len(value) <= LARGEST


def _explodes(held: object, method: str, args: tuple[object, ...]) -> bool:
    """Whether the result might be far larger than what goes in: nothing that an answer wrote may fill our memory."""
    if method == "format":
        return not isinstance(held, str) or ":" in held
    sizes = [len(x) for x in (held, *args) if isinstance(x, str | bytes | list | tuple | dict)]
    return method in ("join", "replace") and (sizes[0] + 1) * (1 + sum(sizes[1:])) > 50 * LARGEST


def _safely(compute: Callable[[], object]) -> object:
    """What it computes, None where that cannot be."""
    try:
        return compute()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, zlib.error):
        return None
