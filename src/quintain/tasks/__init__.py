"""What can be asked, and what it is judged by."""

from quintain.tasks.exam import Compare, Exam, Item, PythonSuite, StdioCase, StdioSuite, Suite

__all__ = ["Compare", "Exam", "Item", "PythonSuite", "StdioCase", "StdioSuite", "Suite"]
