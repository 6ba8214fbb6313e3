"""What a compose file says of the one container that a task works in: its variables and its work folder.

Covers: `environment` as a table or a list, `working_dir`. Without effect here: ports (tests are inside), volumes,
commands; other containers are told by `others`. Needs the extra `terminal-bench` (PyYAML).
"""

from __future__ import annotations

import importlib
import re
from typing import Any

import msgspec

from quintain.tasks.formats.tree import Tree
from quintain.types import FaultKind, TaskError


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """`env` without what Terminal-Bench itself fills in; `workdir` is '' where nothing is said; `others` are the names
    of the services beside it."""

    env: dict[str, str] = {}
    workdir: str = ""
    others: tuple[str, ...] = ()


def container_of(tree: Tree, file: str, *, name: str | None = None) -> Container:
    """The service of that name, or the first; an empty one where there is no file. Raises TaskError for what is no
    YAML, and without PyYAML."""
    if file not in tree.files:
        return Container()
    services = read_yaml(tree, file).get("services")
    services = services if isinstance(services, dict) else {}
    own = next(iter(services), None) if name is None else name
    service = services.get(own)
    service = service if isinstance(service, dict) else {}
    workdir = service.get("working_dir")
    return Container(env=_variables(service.get("environment")), workdir=workdir if isinstance(workdir, str) else "",
                     others=tuple(str(one) for one in services if one != own))


def _variables(given: object) -> dict[str, str]:
    """Of a list, those lines that give a value; a table's are its own."""
    if isinstance(given, list):
        given = {name: value for name, found, value in (str(line).partition("=") for line in given) if found}
    pairs = given.items() if isinstance(given, dict) else ()
    env = {str(key): "" if value is None else _said(value) for key, value in pairs}
    return {key: value for key, value in env.items() if "T_BENCH" not in value and key != "TEST_DIR"}


def _said(value: object) -> str:
    """As compose reads it: a variable of the host's that is not set is nothing."""
    text = str(value).lower() if isinstance(value, bool) else str(value).replace("$$", "$")
    return re.sub(r"\$\{(\w+)\}", r"${\1:-}", text)


def read_yaml(tree: Tree, file: str, *, many: bool = False) -> Any:
    """A table, or with `many` a list. Raises TaskError."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise TaskError("PyYAML is not installed: pip install 'quintain[terminal-bench]'",
                        kind=FaultKind.TASK_ENVIRONMENT) from error
    if file not in tree.files:
        raise tree.error("expected a file, found none", file)
    try:
        found = yaml.safe_load(tree.files[file])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or error
        raise tree.error(f"expected YAML: {said}", file, mark.line + 1 if mark else None) from error
    if not isinstance(found, list if many else dict):
        raise tree.error(f"expected a {'list' if many else 'table'}, found {type(found).__name__}", file)
    return found
