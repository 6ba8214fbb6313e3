"""What a reply hands in: its files, or a patch."""

from __future__ import annotations

import re

import msgspec

from quintain.program._language import Language
from quintain.program.fences import Block, find_blocks
from quintain.program.languages import CONTAINER_TAGS, DIFF_TAGS, language
from quintain.program.reasoning import without_reasoning
from quintain.program.transcript import is_transcript, typed_source
from quintain.types import Entry, Fault, FaultKind, Finish, Owner

MAX_REPLY_CHARS = 4 * 1024 * 1024

_DIFF_START = re.compile(r"^(?:diff --git [^\n]+|--- [^\n]+\n\+\+\+ [^\n]+\n@@ )", re.MULTILINE)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply hands in: either `files` (path as the reply named it → bytes, never repaired) or a `patch`.

    The entry file is in `files` under the task's `entry.path`. `notes` tell what was decided or tolerated.
    """

    files: dict[str, bytes] = {}
    patch: str | None = None
    notes: tuple[str, ...] = ()


def parse(
    reply: str, entry: Entry, *, prompt_opened_fence: bool = False, finish: Finish = Finish.STOP,
) -> Answer | Fault:
    """The answer in a reply of the assistant, or the policy's fault: `no_answer`, `no_code`, `truncated`.

    Only ever give it what the assistant said; a tool result is not a reply. Reasoning is removed first
    (`without_reasoning`). Then, in this order:

    1. A block that defines `entry.name` in the entry's language or without a tag; of several, the last.
    2. A patch: a block tagged diff, or text with a git or unified file header.
    3. The last block in the entry's language; else the last without a tag, when there is no name to define.
    4. Without any block: the whole text, when a line of it defines the name or looks like the language.

    A `>>>` session counts as what was typed. Blocks with a path of their own become further files when the reply names
    more than one. A block that the token limit cut is `truncated`, not code. `prompt_opened_fence`: the prompt ends
    with an opening fence, so the reply starts inside the block. Raises ValueError for an unknown `entry.language`.
    """
    row = language(entry.language)
    if len(reply) > MAX_REPLY_CHARS:
        return _fault(FaultKind.NO_ANSWER, f"expected at most {MAX_REPLY_CHARS} characters, found {len(reply)}")
    spoken = without_reasoning(reply)
    if spoken.unclosed:
        return _unfinished_reasoning(finish)
    if not spoken.text.strip():
        return _nothing(finish)
    opened = row.name if prompt_opened_fence and not _starts_with_fence(spoken.text) else None
    blocks = find_blocks(spoken.text, opened=opened)
    if opened is None and _only_closing(spoken.text, blocks, row, entry):
        blocks = find_blocks(spoken.text, opened=row.name)
    if not blocks:
        return _from_bare_text(spoken.text, row, entry, finish)
    return _from_blocks(spoken.text, blocks, row, entry, finish)


def _from_blocks(text: str, blocks: list[Block], row: Language, entry: Entry, finish: Finish) -> Answer | Fault:
    winner = _winner(blocks, row, entry)
    names_it = winner is not None and entry.name is not None and row.defines(winner.text, entry.name)
    patches = [b for b in blocks if _is_patch(b)]
    if not names_it and (patches or (winner is None and _DIFF_START.search(text))):
        return _from_patches(text, patches, finish)
    cut = finish is Finish.LENGTH and not blocks[-1].closed
    if cut and (winner is None or not winner.closed or not names_it):
        return _fault(FaultKind.TRUNCATED, f"the token limit cut the block that opens at line {blocks[-1].line}")
    if winner is None:
        if finish is Finish.LENGTH:
            return _fault(FaultKind.TRUNCATED, f"the token limit cut the reply before any {row.name} block")
        return _no_code(blocks, row)
    return _with_files(blocks, winner, row, entry, cut=cut)


def _winner(blocks: list[Block], row: Language, entry: Entry) -> Block | None:
    in_language = [b for b in blocks if b.text.strip() and b.language is row]
    untagged = [b for b in blocks if b.text.strip() and not b.tag and not _is_patch(b)]
    if entry.name is not None:
        defining = [b for b in (*in_language, *untagged) if row.defines(b.text, entry.name)]
        if defining:
            return max(defining, key=lambda b: b.line)
    at_entry = [b for b in in_language if b.path is not None and b.path.removeprefix("./") == entry.path]
    for choice in (at_entry, in_language, untagged):
        if choice:
            return choice[-1]
    return None


def _is_patch(block: Block) -> bool:
    if block.tag in DIFF_TAGS:
        return True
    return (not block.tag or block.tag in CONTAINER_TAGS) and _DIFF_START.match(block.text.lstrip()) is not None


def _from_patches(text: str, patches: list[Block], finish: Finish) -> Answer | Fault:
    if finish is Finish.LENGTH and (not patches or not patches[-1].closed):
        return _fault(FaultKind.TRUNCATED, "the token limit cut the patch")
    if not patches:
        return Answer(patch=text, notes=("a patch without a fence",))
    notes = (f"{len(patches)} blocks with patches were joined",) if len(patches) > 1 else ()
    return Answer(patch="".join(b.text if b.text.endswith("\n") else b.text + "\n" for b in patches), notes=notes)


def _with_files(blocks: list[Block], winner: Block, row: Language, entry: Entry, *, cut: bool) -> Answer:
    notes: list[str] = []
    if cut:
        notes.append("the token limit cut the reply after the answer")
    if not winner.closed:
        notes.append(f"the block that opens at line {winner.line} is never closed")
    files: dict[str, bytes] = {}
    named = {b.path for b in blocks if b.path is not None}
    if len(named | {entry.path}) > 1 and len([b for b in blocks if b.path or b is winner]) > 1:
        for block in blocks:
            if block.path is not None and block is not winner and block.path.removeprefix("./") != entry.path:
                files[block.path] = _encode(block.text)
    if winner.path is not None and winner.path.removeprefix("./") != entry.path:
        notes.append(f"the block named {winner.path} became {entry.path}")
        files.pop(winner.path, None)
    others = [b for b in blocks if b is not winner and b.language is row and b.path is None]
    if others:
        notes.append(f"of {len(others) + 1} {row.name} blocks the one at line {winner.line} was taken")
    files[entry.path] = _encode(_source(winner.text, row, notes))
    return Answer(files=files, notes=tuple(notes))


def _source(text: str, row: Language, notes: list[str]) -> str:
    if row.name == "python" and is_transcript(text):
        notes.append("an interactive session became the source that was typed")
        return typed_source(text)
    return text


def _from_bare_text(text: str, row: Language, entry: Entry, finish: Finish) -> Answer | Fault:
    if _DIFF_START.search(text):
        return _from_patches(text, [], finish)
    if finish is Finish.LENGTH:
        return _fault(FaultKind.TRUNCATED, "the token limit cut the reply, which has no finished block of code")
    source = text.strip("\n")
    defines = entry.name is not None and row.defines(source, entry.name)
    session = row.name == "python" and is_transcript(source)
    if not (defines or session or _looks_like(source, row)):
        return _fault(
            FaultKind.NO_CODE, f"expected a fenced block of {row.name}; found text without a fence or code",
        )
    notes = ["the whole reply was taken as code, for it has no fence"]
    content = _source(source + "\n", row, notes)
    return Answer(files={entry.path: _encode(content)}, notes=tuple(notes))


def _looks_like(source: str, row: Language) -> bool:
    """Whether the first line that is not a comment looks like the language."""
    for line in source.split("\n"):
        if line.startswith("#!"):
            return True
        if line.strip() and not line.startswith(("#", "//")):
            return re.match(row.looks_like, line.rstrip("\r")) is not None
    return False


def _starts_with_fence(text: str) -> bool:
    return text.lstrip().startswith(("```", "~~~"))


def _only_closing(text: str, blocks: list[Block], row: Language, entry: Entry) -> bool:
    """Code from the first line on, then a bare fence that would open a block and never close it."""
    if not blocks or blocks[0].tag or blocks[0].closed or blocks[0].line < 2:
        return False
    before = "\n".join(text.split("\n")[:blocks[0].line - 1])
    if entry.name is not None and row.defines(before, entry.name):
        return True
    return _looks_like(before, row)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _no_code(blocks: list[Block], row: Language) -> Fault:
    found = ", ".join(sorted({b.tag or "untagged" for b in blocks if b.text.strip()})[:5]) or "empty ones"
    return _fault(FaultKind.NO_CODE, f"expected a fenced block of {row.name}; found {len(blocks)} block(s): {found}")


def _unfinished_reasoning(finish: Finish) -> Fault:
    if finish is Finish.LENGTH:
        return _fault(FaultKind.TRUNCATED, "the token limit cut the reply inside its reasoning")
    return _fault(FaultKind.NO_ANSWER, "expected an answer after the reasoning; its thinking tag is never closed")


def _nothing(finish: Finish) -> Fault:
    if finish is Finish.LENGTH:
        return _fault(FaultKind.TRUNCATED, "the token limit cut the reply before any answer")
    return _fault(FaultKind.NO_ANSWER, "expected an answer; found an empty reply (reasoning does not count)")


def _fault(kind: FaultKind, message: str) -> Fault:
    return Fault(owner=Owner.POLICY, kind=kind, message=message)


_ANSWER_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)


def parse_answer(reply: str, *, finish: Finish = Finish.STOP) -> str | Fault:
    """What stands in the last complete `<answer>…</answer>` outside reasoning, without the blanks around it."""
    spoken = without_reasoning(reply)
    if spoken.unclosed:
        return _unfinished_reasoning(finish)
    opened: int | None = None
    found: str | None = None
    for tag in _ANSWER_TAG.finditer(spoken.text):
        if not tag[1]:
            opened = tag.end()
        elif opened is not None:
            found, opened = spoken.text[opened:tag.start()].strip(), None
    if found is not None:
        return found
    if not spoken.text.strip() or finish is Finish.LENGTH:
        return _nothing(finish)
    return _fault(FaultKind.NO_ANSWER, "expected <answer>…</answer>; found no complete pair outside the reasoning")
