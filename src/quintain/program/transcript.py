"""An interactive Python session turned back into the source that was typed."""

from __future__ import annotations


def is_transcript(source: str) -> bool:
    """Whether the first line that is not blank is a `>>>` prompt."""
    first = next((line for line in source.split("\n") if line.strip()), "")
    return first.lstrip().startswith(">>> ") or first.strip() == ">>>"


def typed_source(source: str) -> str:
    """What stands after the prompts `>>> ` and `... `; lines without a prompt are output and left out.

    The text after a prompt is kept exactly. A bare `...` is the blank line that ends a block.
    """
    typed: list[str] = []
    for line in source.split("\n"):
        stripped = line.lstrip(" \t")
        for prompt in (">>>", "..."):
            if stripped.startswith(prompt + " "):
                typed.append(stripped[4:])
            elif stripped.rstrip("\r ") == prompt:
                typed.append("")
    return "".join(line + "\n" for line in typed)
