"""What a reply becomes: a program that can be run, or a fault that says why not, and what was wrong when it ran."""

from quintain.program._language import Language
from quintain.program.assemble import Build, assemble
from quintain.program.check import MAX_SOURCE_BYTES, check_source
from quintain.program.diagnose import Stage, diagnose_outcome, diagnose_output
from quintain.program.fences import Block, find_blocks
from quintain.program.languages import LANGUAGES, language, language_of_path, language_of_tag
from quintain.program.oddities import odd_characters
from quintain.program.parse import Answer, parse, parse_answer
from quintain.program.patch import Patched, apply_patch
from quintain.program.paths import clean_path, is_protected
from quintain.program.raised import Frame, Phase, Raised, Side, diagnose_exception
from quintain.program.reasoning import Spoken, without_reasoning
from quintain.program.toolcalls import Tool, ToolCall, parse_tool_calls, tool_calls_in

__all__ = [
    "Answer", "Block", "Build", "Frame", "LANGUAGES", "Language", "MAX_SOURCE_BYTES", "Patched", "Phase", "Raised",
    "Side", "Spoken", "Stage", "Tool", "ToolCall", "apply_patch", "assemble", "check_source", "clean_path",
    "diagnose_exception", "diagnose_outcome", "diagnose_output", "find_blocks", "is_protected", "language",
    "language_of_path", "language_of_tag", "odd_characters", "parse", "parse_answer", "parse_tool_calls",
    "tool_calls_in", "without_reasoning",
]
