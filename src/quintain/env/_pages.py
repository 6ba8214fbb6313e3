"""Pages of Markdown as far as documentation is judged by it: headings, links, code and blocks. Pure; linear in a page.

Covers: fences, inline code, headings by `#`, links in brackets and reference definitions, anchors as GitHub makes them.
Does not cover: HTML, indented code, headings underlined by a row of signs.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

MAX_BYTES = 128 * 1024
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+([^\n]*)")
_CODE = re.compile(r"(?<!`)`([^`\n]{1,300})`(?!`)")
_LINK = re.compile(r"\[[^\[\]\n]{1,300}\]\(([^()\s]{0,300})\)")
_DEFINED = re.compile(r" {0,3}\[[^\[\]\n]{1,300}\]:[ \t]*(\S{1,300})")
_TITLE = re.compile(r"""title="([^"\n]{1,300})\"""")


class Block(msgspec.Struct, frozen=True):
    tag: str
    info: str
    text: str


class Section(msgspec.Struct, frozen=True):
    """What stands below a heading, until the next one: its words, without what is in blocks."""

    heading: str
    words: str
    blocks: tuple[Block, ...]


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """`links` are the targets as written, `code` what stands between backticks."""

    sections: tuple[Section, ...]
    anchors: frozenset[str]
    links: tuple[str, ...]
    code: tuple[str, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(block for section in self.sections for block in section.blocks)


def page_of(text: str) -> Page:
    """Read one page."""
    sections: list[Section] = []
    heading, lines, blocks = "", list[str](), list[Block]()
    links, code, anchors, seen = list[str](), list[str](), set[str](), Counter[str]()
    for found in _parts(text):
        if isinstance(found, Block):
            blocks.append(found)
            continue
        code += _CODE.findall(found)
        plain = _CODE.sub("code", found)
        links += _LINK.findall(plain) + _DEFINED.findall(plain)
        if match := _HEADING.match(found):
            sections.append(Section(heading, "\n".join(lines), tuple(blocks)))
            heading, lines, blocks = match[2].strip().rstrip("#").strip(), [], []
            anchor = anchor_of(heading)
            anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
            seen[anchor] += 1
        else:
            lines.append(found)
    sections.append(Section(heading, "\n".join(lines), tuple(blocks)))
    return Page(sections=tuple(sections), anchors=frozenset(anchors), links=tuple(links), code=tuple(code))


def _parts(text: str) -> Iterator[str | Block]:
    """Lines outside blocks, and blocks; one that is not closed goes to the end."""
    mark, info, held = "", "", list[str]()
    for line in text.splitlines():
        match = _FENCE.match(line)
        if not mark:
            if match and not (match[1][0] == "`" and "`" in match[2]):
                mark, info, held = match[1], match[2].strip(), []
            else:
                yield line
        elif match and match[1].startswith(mark) and not match[2].strip():
            yield Block(_tag(info), info, "".join(f"{one}\n" for one in held))
            mark = ""
        else:
            held.append(line)
    if mark:
        yield Block(_tag(info), info, "".join(f"{one}\n" for one in held))


def _tag(info: str) -> str:
    return info.split()[0].lower() if info else ""


def anchor_of(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    plain = re.sub(r"[^\w\- ]", "", heading.lower())
    return plain.replace(" ", "-")


def pages_in(text: str, *, entry: str) -> dict[str, str]:
    """The pages that a reply sends: its outermost blocks tagged markdown, by their paths (one without: `entry`)."""
    found: dict[str, str] = {}
    for part in _parts(text):
        if isinstance(part, Block) and part.tag in ("markdown", "md"):
            named = _TITLE.search(part.info)
            found[named[1] if named else entry] = part.text
    return found


def broken_links(pages: Mapping[str, Page], *, start: str) -> list[str]:
    """What is wrong with the links of pages, and which pages nobody comes to from `start`."""
    wrong, reached, waiting = list[str](), {start}, [start]
    goes: dict[str, set[str]] = {}
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = link.partition("#")
            place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
            if ":" in target or place not in pages:
                wrong.append(f"{path}: no page at {link!r}")
            elif anchor and anchor not in pages[place].anchors:
                wrong.append(f"{path}: no heading for {link!r}")
            else:
                goes.setdefault(path, set()).add(place)
    while waiting:
        for place in goes.get(waiting.pop(), set()) - reached:
            reached.add(place)
            waiting.append(place)
    return [*wrong, *(f"nothing leads from {start} to {path}" for path in pages if path not in reached)]
