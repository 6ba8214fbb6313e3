"""What a shell script says and does, as facts, by a small tokenizer that knows quotes, comments and heredocs.

Covers: words put together from quotes (`e"xi"t`, `$'\\x65xit'`), variables that hold a literal, prefixes of commands
(`command`, `builtin`, `env`), eval of literals, and code that is decoded by base64, xxd or rev. Does not cover: words
that only a run computes; those stand in the facts as `$name`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

import msgspec

from quintain.guard._facts import Fact

LARGEST_BYTES = 200_000
_DEEPEST = 3
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=(.*)", re.S)
_PREFIXES = frozenset({"command", "builtin", "env", "sudo", "nohup", "time", "then", "do", "else", "!", "if",
                       "elif", "while", "until"})
_HEREDOC = re.compile(r"<<(-?)\s*(['\"\\]?)(\w+)")
_PRINTED = re.compile(
    r"\s*(?:echo|printf)\s+(?:-[neE]+\s+)?(?:'([^']*)'|\"([^\"$`]*)\"|([\w+/=\\-]+))((?:\s*\|[^|]+)*)\s*", re.S)
_ANSI = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.S)


class Word(msgspec.Struct, frozen=True):
    """One word of a command with its quotes taken off; `mark` for operators and line ends."""

    text: str
    line: int
    mark: bool = False
    quoted: bool = False


def _ansi(text: str) -> str:
    plain = {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b", "a": "\a", "b": "\b"}
    return _ANSI.sub(lambda m: chr(int(m[1], 16)) if m[1] else chr(int(m[2], 8) & 255) if m[2]
                     else plain.get(m[3], m[3]), text)


class _Lexer:
    """Goes through a script once; never fails, whatever the text."""

    def __init__(self, text: str, line: int) -> None:
        self.text, self.at, self.line = text, 0, line
        self.words: list[Word] = []
        self.notes: list[Fact] = []
        self.inner: list[tuple[str, int]] = []  # commands in $(...) and backticks
        self._ends: list[str] = []

    def run(self) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\n":
                self._mark("\n", 1)
                self.line += 1
                self._heredocs()
            elif char in " \t\r":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at, self.line = self.at + 2, self.line + 1
            elif char == "#":
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                self.notes.append(Fact(kind="comment", text=self.text[self.at : end].strip("# ")[:300], line=self.line))
                self.at = end
            elif heredoc := _HEREDOC.match(self.text, self.at):
                self._ends.append(heredoc[3])
                self._mark("<<", heredoc.end() - self.at)
            elif char in ";&|(){}<>" and not (char in "{}" and not self._alone()):
                self._mark(next((m for m in ("&&", "||", ";;", ">>") if self.text.startswith(m, self.at)), char), 0)
            else:
                self._word()

    def _alone(self) -> bool:
        following = self.text[self.at + 1 : self.at + 2]
        return following in ("", " ", "\t", "\n", ";", ")") or not self.words or self.words[-1].mark

    def _mark(self, text: str, width: int) -> None:
        self.words.append(Word(text, self.line, True))
        self.at += width or len(text)

    def _heredocs(self) -> None:
        for end in self._ends:
            begin = self.at
            match = re.compile(rf"^\t*{re.escape(end)}[ \t]*$", re.M).search(self.text, begin)
            stop = match.start() if match else len(self.text)
            for number, line in enumerate(self.text[begin:stop].splitlines()):
                self.notes.append(Fact(kind="str", text=line[:300], line=self.line + number))
            self.at = match.end() if match else len(self.text)
            self.line += self.text.count("\n", begin, self.at)
        self._ends = []

    def _word(self) -> None:
        made, quoted, line = "", False, self.line
        while self.at < len(self.text) and self.text[self.at] not in " \t\r\n;&|()<>":
            char = self.text[self.at]
            if char == "\\":
                made += self.text[self.at + 1 : self.at + 2].replace("\n", "")
                self.at += 2
            elif char in "'\"" or self.text.startswith("$'", self.at):
                quoted = True
                made += self._quoted()
            elif self.text.startswith("$(", self.at) and not self.text.startswith("$((", self.at):
                made += self._substitution("(", ")", 2)
            elif char == "`":
                made += self._substitution("", "`", 1)
            elif self.text.startswith("$((", self.at) or self.text.startswith("${", self.at):
                end = self._balanced(self.at + 1)
                made += self.text[self.at : end]
                self.at = end
            else:
                made += char
                self.at += 1
        if self.at < len(self.text) and self.text[self.at] == "(" and made.endswith("="):  # an array
            end = self._balanced(self.at)
            made += self.text[self.at : end]
            self.at = end
        self.words.append(Word(made, line, False, quoted))

    def _balanced(self, at: int) -> int:
        depth = 0
        for n in range(at, len(self.text)):
            depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(self.text[n], 0)
            if depth == 0:
                return n + 1
        return len(self.text)

    def _quoted(self) -> str:
        begin_line = self.line
        if self.text.startswith("$'", self.at):
            end = re.compile(r"(?:[^'\\]|\\.)*", re.S).match(self.text, self.at + 2)
            raw = end[0] if end else ""
            self.at += 3 + len(raw)
            text = _ansi(raw)
        elif self.text[self.at] == "'":
            end_at = self.text.find("'", self.at + 1)
            end_at = len(self.text) if end_at < 0 else end_at
            text = self.text[self.at + 1 : end_at]
            self.at = end_at + 1
        else:
            text = self._double()
        self.line = begin_line + text.count("\n")
        self.notes.append(Fact(kind="str", text=text[:300].replace("\n", "\\n"), line=begin_line))
        return text

    def _double(self) -> str:
        self.at += 1
        made = ""
        while self.at < len(self.text) and self.text[self.at] != '"':
            if self.text[self.at] == "\\":
                made += self.text[self.at + 1 : self.at + 2]
                self.at += 2
            elif self.text.startswith("$(", self.at) and not self.text.startswith("$((", self.at):
                made += self._substitution("(", ")", 2)
            elif self.text[self.at] == "`":
                made += self._substitution("", "`", 1)
            else:
                made += self.text[self.at]
                self.at += 1
        self.at += 1
        return made

    def _substitution(self, opening: str, closing: str, skip: int) -> str:
        begin = self.at + skip
        if opening:
            end = self._balanced(self.at + skip - 1) - 1
        else:
            end = self.text.find(closing, begin)
            end = len(self.text) if end < 0 else end
        inner = self.text[begin:end]
        self.at = end + 1
        said = _printed(inner)
        if said is not None:
            return said
        self.inner.append((inner, self.line))
        return f"$({inner})" if len(inner) < 200 else "$(...)"


def _printed(command: str) -> str | None:
    """What a command prints whose output is a literal that went through known filters; None for any other."""
    match = _PRINTED.fullmatch(command)
    if match is None:
        return None
    text = next(g for g in match.groups()[:3] if g is not None)
    text = _ansi(text) if "\\" in text else text
    for part in filter(None, (p.strip() for p in match[4].split("|"))):
        made = filtered(text, part)
        if made is None:
            return None
        text = made
    return text


def filtered(text: str, command: str) -> str | None:
    """The text as a decoding command gives it on; None for a command that is none."""
    try:
        if re.match(r"base64\s+(-d|-D|--decode)|openssl\s+(base64|enc).*-d", command):
            return base64.b64decode(text).decode("utf-8", "replace")
        if re.match(r"xxd\s+(-r\s+-p|-p\s+-r|-rp|-pr)", command):
            return binascii.unhexlify(text.strip()).decode("utf-8", "replace")
    except ValueError:
        return None
    if re.match(r"rev\b", command):
        return text[::-1]
    if (swap := re.match(r"tr\s+'?\"?(A-Za-z|a-zA-Z)'?\"?\s+'?\"?(N-ZA-Mn-za-m|n-za-mN-ZA-M)", command)) is not None:
        table = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                              "NOPQRSTUVWXYZABCDEFGHIJKLMnopqrstuvwxyzabcdefghijklm")
        return text.translate(table) if swap else None
    return None


def shell_facts(file: str, content: bytes | str, *, depth: int = 0) -> list[Fact]:
    """The facts of one script, in the order of its text."""
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    if len(text) > LARGEST_BYTES:
        return [Fact(kind="unreadable", text="too large", file=file)]
    return [msgspec.structs.replace(f, file=file) for f in _facts(text, 1, depth)]


def _facts(text: str, line: int, depth: int) -> Iterator[Fact]:
    lexer = _Lexer(text, line)
    lexer.run()
    yield from lexer.notes
    held: dict[str, str] = {}
    pipe: list[list[str]] = []
    for words, mark, at in _commands(lexer.words):
        plain = [_put_in(w, held) for w in words]
        while plain and (plain[0] in _PREFIXES or (len(plain) > 1 and _ASSIGNED.fullmatch(plain[0]))):
            if (assigned := _ASSIGNED.fullmatch(plain[0])) is not None:
                yield Fact(kind="set", text=f"{assigned[1]} = {assigned[2]}"[:300], line=at)
            plain = plain[1:]
        yield from _command(plain, mark, at, held)
        pipe.append(plain)
        yield from _hidden(pipe, at, depth)
        if mark != "|":
            pipe = []
    if depth < _DEEPEST:
        for inner, at in lexer.inner:
            yield from _facts(inner, at, depth + 1)


def _commands(words: list[Word]) -> Iterator[tuple[list[str], str, int]]:
    """Simple commands, each with the operator that ends it; redirections stand in it as `>` and the name."""
    held: list[str] = []
    line = 0
    for word in words:
        if not word.mark:
            line = line if held else word.line
            held.append(word.text)
        elif word.text in ("<", ">", ">>", "<<"):
            held.append(word.text)
        elif held:
            yield held, word.text, line
            held = []
    if held:
        yield held, "\n", line


def _put_in(word: str, held: dict[str, str]) -> str:
    return re.sub(r"\$\{?([A-Za-z_]\w*)\}?", lambda m: held.get(m[1], m[0]), word) if "$" in word else word


def _command(words: list[str], mark: str, line: int, held: dict[str, str]) -> Iterator[Fact]:
    if not words:
        return
    if words[0] == "function" and len(words) > 1:
        yield Fact(kind="def", text=words[1], line=line)
        return
    if mark == "(" and len(words) == 1:
        yield Fact(kind="def", text=words[0], line=line)
        return
    assigned = _ASSIGNED.fullmatch(words[0])
    if assigned is not None:
        yield Fact(kind="set", text=f"{assigned[1]} = {assigned[2]}"[:300].replace("\n", "\\n"), line=line)
        if "$" not in assigned[2]:
            held[assigned[1]] = assigned[2]
        return
    if words[0] in ("export", "declare", "typeset", "readonly", "local", "alias"):
        for word in words[1:]:
            if (assigned := re.fullmatch(r"([\w.-]+)=(.*)", word, re.S)) is not None:
                kind = "def" if words[0] == "alias" else "set"
                yield Fact(kind=kind, text=assigned[1] if kind == "def" else f"{assigned[1]} = {assigned[2]}"[:300],
                           line=line)
    if words[0] in ("source", "."):
        yield Fact(kind="import", text=" ".join(words[1:2]), line=line)
    shown = " ".join(words)[:300].replace("\n", "\\n")
    yield Fact(kind="call", text=shown, line=line)
    yield Fact(kind="code", text=f"{shown} {mark.strip()}".strip(), line=line)


def _hidden(pipe: list[list[str]], line: int, depth: int) -> Iterator[Fact]:
    """Code that eval, `sh -c`, trap or a pipe into a shell will run."""
    words = pipe[-1]
    code: str | None = None
    if words[:1] == ["eval"]:
        code = " ".join(words[1:])
    elif words[:1] == ["trap"] and len(words) > 2:
        code = words[1]
    elif words and words[0].rpartition("/")[2] in ("sh", "bash", "dash", "zsh"):
        if "-c" in words[1:-1]:
            code = words[words.index("-c") + 1]
        elif len(pipe) > 1 and pipe[0][:1] in (["echo"], ["printf"]):
            code = " ".join(w for w in pipe[0][1:] if not w.startswith("-"))
            for part in pipe[1:-1]:
                code = filtered(code, " ".join(part)) if code is not None else None
    if not code:
        return
    if code.lstrip().startswith(("$", "`")):
        yield Fact(kind="computed", text="code that is computed", line=line)
    yield Fact(kind="decoded", text=code[:300].replace("\n", "\\n"), line=line)
    if depth < _DEEPEST:
        yield from (msgspec.structs.replace(f, line=line) for f in _facts(code, line, depth + 1))
