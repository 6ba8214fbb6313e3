"""What can be asked, and what it is judged by."""

from quintain.tasks.answer import AnswerKind, AnswerSuite
from quintain.tasks.base import Format, PublicSet, Source, WritableFormat
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
from quintain.tasks.formats.harbor_task import context_digest
from quintain.tasks.names import check_id, check_paths
from quintain.tasks.notes import Note, NoteKind
from quintain.tasks.open import known_sets, open_taskset, write_taskset
from quintain.tasks.script import REWARD_FILES, Blend, Package, ScriptStep, ScriptSuite
from quintain.tasks.taskset import Taskset
from quintain.tasks.template import new_task

__all__ = [
    "AnswerKind", "AnswerSuite", "Blend", "Compare", "Exam", "Format", "Item", "JavaScriptSuite", "Note", "NoteKind",
    "Package", "PublicSet", "PythonSuite", "REWARD_FILES", "ScriptStep", "ScriptSuite", "ShellSuite", "Source",
    "StdioCase", "StdioSuite", "Suite", "Taskset", "WritableFormat", "check_id", "check_paths", "context_digest",
    "kind_of", "known_formats", "known_sets", "names_of", "new_task", "open_taskset", "visible_files", "write_taskset",
]
