"""One thing that a file of an answer says or does, as the tables of rules see it."""

from __future__ import annotations

import msgspec


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is one of KINDS; `text` its content on one line; `line` counts from 1."""

    kind: str
    text: str
    file: str = ""
    line: int = 0


#: What a fact can be, for authors of rules. Python: all; JavaScript and shell: those marked *.
KINDS = {
    "import": "* a module that is loaded: `os.path`",
    "use": "a thing that is named through modules and builtins: `os._exit`",
    "call": "* a call with the arguments that are known: `os._exit(0)`; in shell a simple command: `exit 0`",
    "attr": "an attribute that is fetched, of whatever: `f_globals`",
    "set": "* an assignment to something that is not the answer's own: `math.isclose = ?`, `PATH = /work/bin`",
    "raise": "an exception that is raised: `unittest.SkipTest`",
    "catch": "an exception that is caught and dropped: `BaseException`",
    "method": "what a special method comes to: `Pleasing.__eq__ = True`",
    "class": "a class with its bases: `Answer(int)`",
    "def": "* a function that is defined",
    "str": "* a string that stands in the code",
    "comment": "* a comment, or a docstring",
    "code": "* one statement, its strings and comments taken out (JavaScript, shell)",
    "at import": "a call that is made when the module is loaded",
    "computed": "* a name or a piece of code that only the run will know",
    "decoded": "* code that was hidden in a literal; what it does is among the facts as well",
    "file": "* a file that was added or changed, by its path",
    "removed": "* a given file that is gone, by its path",
    "line": "* a line of a file that is no program",
    "said": "* a line of what the policy said",
    "unreadable": "* a file that could not be read as its language",
}
