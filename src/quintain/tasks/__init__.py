"""What can be asked, and what it is judged by."""

from quintain.tasks.base import Format, PublicSet, Source, WritableFormat
from quintain.tasks.exam import Compare, Exam, Item, PythonSuite, StdioCase, StdioSuite, Suite, visible_files
from quintain.tasks.formats import known_formats
from quintain.tasks.names import check_id, check_paths
from quintain.tasks.open import known_sets, open_taskset, write_taskset
from quintain.tasks.taskset import Taskset
from quintain.tasks.template import new_task

__all__ = [
    "Compare", "Exam", "Format", "Item", "PublicSet", "PythonSuite", "Source", "StdioCase", "StdioSuite", "Suite",
    "Taskset", "WritableFormat", "check_id", "check_paths", "known_formats", "known_sets", "new_task", "open_taskset",
    "visible_files", "write_taskset",
]
