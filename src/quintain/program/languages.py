"""The languages in which an answer can be written: a table, where adding one is adding a row."""

from __future__ import annotations

from quintain.program._compiled import COMPILED
from quintain.program._language import ErrorRow, Language, Trace
from quintain.types import FaultKind

_SHELL_PLACE = r"(?P<file>[^:\n]+): (?:line )?(?P<line>\d+): "

LANGUAGES: tuple[Language, ...] = (
    Language(
        name="python",
        tags=("python", "python3", "py", "py3", "python2", "python3.11", "python3.12", "python3.13", "ipython", "pycon",
              "pyi"),
        suffixes=(".py", ".pyi"),
        argv=("python3", "{path}"),
        check=("python3", "-m", "py_compile", "{path}"),
        definition=r"^(?:(?:>>> )?(?:async[ \t]+def|def|class)[ \t]+{name}\b|{name}[ \t]*(?::[^=\n]+)?=(?!=)"
                   r"|(?:from[ \t]+\S+[ \t]+)?import[ \t].*\b{name}\b)",
        looks_like=r"^(?:def|class|import|from|async[ \t]+def|@\w|if __name__\b|print\(|\w+[ \t]*=[ \t]*\S|for .+:$)",
        trace=Trace.PYTHON,
        build_errors=(
            ErrorRow(pattern=r"(?:Sorry: )?(?P<what>(?:Syntax|Indentation|Tab)Error): .*?"
                             r"(?: \((?P<file>[^,()]+), line (?P<line>\d+)\))?$", kind=FaultKind.SYNTAX_ERROR),
            ErrorRow(pattern=r"(?P<what>\w+(?:Error|Exception)): ", kind=FaultKind.BUILD_ERROR),
        ),
        place=r'  File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9})$',
    ),
    Language(
        name="shell",
        tags=("sh", "bash", "shell", "zsh", "dash", "ksh", "shellscript"),
        suffixes=(".sh", ".bash"),
        argv=("bash", "{path}"),
        check=("bash", "-n", "{path}"),
        definition=r"^(?:function[ \t]+{name}\b|{name}[ \t]*\(\))|^(?:export[ \t]+)?{name}=",
        looks_like=r"^(?:#!|set -|echo |export |if \[|for \w+ in |while |read |printf |\w+=\S|\w+\(\)[ \t]*\{)",
        errors=(
            ErrorRow(pattern=_SHELL_PLACE + r"(?P<what>(?i:syntax error).*)", kind=FaultKind.SYNTAX_ERROR,
                     exit_codes=(1, 2)),
            ErrorRow(pattern=_SHELL_PLACE + r"(?P<what>unexpected (?:EOF|end of file).*)", kind=FaultKind.SYNTAX_ERROR,
                     exit_codes=(1, 2)),
            ErrorRow(pattern=_SHELL_PLACE + r"(?P<what>.+): (?:command )?not found$",
                     kind=FaultKind.MISSING_DEPENDENCY, exit_codes=(127,)),
            ErrorRow(pattern=_SHELL_PLACE + r"(?P<what>.+)", kind=FaultKind.RUNTIME_ERROR),
        ),
        build_errors=(
            ErrorRow(pattern=_SHELL_PLACE + r"(?P<what>(?i:syntax error).*|unexpected (?:EOF|end of file).*)",
                     kind=FaultKind.SYNTAX_ERROR),
        ),
    ),
    Language(
        name="javascript",
        tags=("javascript", "js", "node", "nodejs", "mjs", "cjs", "ecmascript"),
        suffixes=(".js", ".mjs", ".cjs"),
        argv=("node", "{path}"),
        check=("node", "--check", "{path}"),
        definition=r"^(?:export[ \t]+(?:default[ \t]+)?)?(?:async[ \t]+)?(?:function\*?|class|const|let|var)"
                   r"[ \t]+{name}\b|^(?:module\.)?exports\.{name}\b|^module\.exports[ \t]*=.*\b{name}\b"
                   r"|^{name}[ \t]*=(?!=)",
        looks_like=r"^(?:#!|const |let |var |function |class |import |export |module\.exports|console\.|'use strict')",
        trace=Trace.V8,
        errors=(
            ErrorRow(pattern=r"FATAL ERROR: (?P<what>.*JavaScript heap out of memory.*)", kind=FaultKind.MEMORY_ERROR),
            ErrorRow(pattern=r"RangeError: (?P<what>Maximum call stack size exceeded)$",
                     kind=FaultKind.RECURSION_ERROR),
            ErrorRow(pattern=r"RangeError: (?P<what>(?:Array buffer allocation failed|Invalid string length))$",
                     kind=FaultKind.MEMORY_ERROR),
            ErrorRow(pattern=r"Error(?: \[ERR_MODULE_NOT_FOUND\])?: Cannot find (?:module|package) '(?P<what>[^'\n]+)'",
                     kind=FaultKind.MISSING_DEPENDENCY),
        ),
        build_errors=(
            ErrorRow(pattern=r"(?P<what>SyntaxError): ", kind=FaultKind.SYNTAX_ERROR),
            ErrorRow(pattern=r"Error(?: \[ERR_MODULE_NOT_FOUND\])?: Cannot find (?:module|package) '(?P<what>[^'\n]+)'",
                     kind=FaultKind.MISSING_DEPENDENCY),
            ErrorRow(pattern=r"(?P<what>\w*Error)(?: \[\w+\])?: ", kind=FaultKind.BUILD_ERROR),
        ),
        place=r"(?:file://)?(?P<file>/[^\s:]+|[\w./-]+\.[cm]?js):(?P<line>\d{1,9})$",
    ),
    Language(
        name="sql",
        tags=("sql", "sqlite", "sqlite3"),
        suffixes=(".sql",),
        argv=("sqlite3", ":memory:", ".read {path}"),
        check=("test", "-s", "{path}"),  # a query is compiled against its tables, which a check does not have
        definition=r"^CREATE[ \t]+(?:TABLE|VIEW)[ \t]+{name}\b",
        looks_like=r"^(?i:SELECT|WITH|CREATE[ \t]+(?:TABLE|VIEW)|INSERT[ \t]+INTO)\b",
    ),
    *COMPILED,
)

#: Tags of blocks that hold text about code rather than code: other fences may be nested in them.
CONTAINER_TAGS = frozenset({"markdown", "md", "mdx", "text", "txt", "plaintext", "plain", "quote", "answer"})

#: Tags of blocks that hold what a program prints or reads, and never the answer to a code task.
OUTPUT_TAGS = frozenset({"output", "console", "terminal", "stdout", "stderr", "log", "result", "text", "txt"})

#: Tags of blocks that hold a patch.
DIFF_TAGS = frozenset({"diff", "patch", "udiff", "git-diff"})

_BY_TAG = {tag: row for row in LANGUAGES for tag in (row.name, *row.tags)}
_BY_SUFFIX = {suffix: row for row in LANGUAGES for suffix in row.suffixes}


def language_of_tag(tag: str) -> Language | None:
    """The language that a fence tag (any case) names; `None` for a tag that is not in the table."""
    return _BY_TAG.get(tag.lower())


def language_of_path(path: str) -> Language | None:
    """The language of a file by its suffix; `None` when the table has none."""
    name = path.rsplit("/", 1)[-1].lower()
    dot = name.rfind(".")
    return _BY_SUFFIX.get(name[dot:]) if dot > 0 else None


def language(name: str) -> Language:
    """The row of the table. Raises ValueError for a language that is not in it."""
    row = _BY_TAG.get(name.lower())
    if row is None:
        known = ", ".join(row.name for row in LANGUAGES)
        raise ValueError(f"expected a language out of {known}; found {name!r}")
    return row
