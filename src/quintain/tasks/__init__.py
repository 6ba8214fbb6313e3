"""What can be asked, and what it is judged by."""

from quintain.tasks.answer import AnswerKind, AnswerSuite
from quintain.tasks.base import Format, NamedFormat, PublicSet, Source, WritableFormat
from quintain.tasks.convert import Converted, convert
from quintain.tasks.difference import Change, Difference, differences
from quintain.tasks.exam import (
    Compare,
    Exam,
    Item,
    PythonSuite,
    StdioCase,
    StdioSuite,
    Suite,
    kind_of,
    names_of,
    visible_files,
)
from quintain.tasks.foreign import JavaScriptSuite, ShellSuite
from quintain.tasks.formats import known_formats
from quintain.tasks.formats.dockerfile import Lacking, Needs, bases_of, for_the_host
from quintain.tasks.formats.git import BaseTree, base_tree, history_in, later_objects, one_commit
from quintain.tasks.formats.harbor_task import context_digest
from quintain.tasks.names import check_id, check_paths, portable_name
from quintain.tasks.notes import Note, NoteKind
from quintain.tasks.open import known_sets, open_taskset, write_taskset
from quintain.tasks.script import IN_A_SHELL, REWARD_FILES, Blend, Package, ScriptStep, ScriptSuite
from quintain.tasks.taskset import Taskset
from quintain.tasks.template import new_task

__all__ = [
    "AnswerKind", "AnswerSuite", "BaseTree", "Blend", "Change", "Compare", "Converted", "Difference", "Exam", "Format",
    "IN_A_SHELL", "Item", "JavaScriptSuite", "Lacking", "NamedFormat", "Needs", "Note", "NoteKind", "Package",
    "PublicSet", "PythonSuite", "REWARD_FILES", "ScriptStep", "ScriptSuite", "ShellSuite", "Source", "StdioCase",
    "StdioSuite", "Suite", "Taskset", "WritableFormat", "base_tree", "bases_of", "check_id", "check_paths",
    "context_digest", "convert", "differences", "for_the_host", "history_in", "kind_of", "known_formats", "known_sets",
    "later_objects", "names_of", "new_task", "one_commit", "open_taskset", "portable_name", "visible_files",
    "write_taskset",
]
