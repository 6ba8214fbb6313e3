"""Test scripts and Dockerfiles, line by line: what swallows a failure, pays for nothing, or fetches something. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from quintain.curate.finding import Problem
from quintain.tasks import ScriptSuite

_COMMENT = re.compile(r"(^|\s)#.*$")
_FETCH = re.compile(
    r"\b(curl|wget)\s|\bgit\s+clone\b|\b(apt|apt-get|apk|yum|dnf)\s+(-\S+\s+)*(install|update|add)\b"
    r"|\b(uv\s+)?pip3?\s+install\b|\bnpm\s+(install|ci|i)\b|\buvx\b|\bnpx\b|\buv\s+(add|sync|run\s+--with)\b")
_LOCAL = re.compile(r"--no-index|--offline|localhost|127\.0\.0\.1|file://")
_PIP = re.compile(r"\bpip3?\s+install\s+(.*?)(?:&&|\|\||;|\||$)")
_NPM = re.compile(r"\bnpm\s+(?:install|i)\s+(.*?)(?:&&|\|\||;|\||$)")
_APT = re.compile(r"\b(?:apt|apt-get)\s+(?:-\S+\s+)*install\s+(.*?)(?:&&|\|\||;|\||$)")
_RUNS_TESTS = re.compile(
    r"\b(pytest|unittest|tox|nosetests|jest|mocha|vitest|npm\s+(run\s+)?test|go\s+test|cargo\s+test"
    r"|make\s+(test|check)|bats|ctest|mvn\s+test)\b")
_SWALLOW = re.compile(r"\|\|\s*(true|:|exit\s+0|echo\b)|;\s*true\s*$")
_REWARD = re.compile(r"reward\.(txt|json)")
_PAYS = re.compile(r"(echo|printf)\s+['\"]?(1(\.0+)?|\{[^}]*reward[^}]*:\s*1(\.0+)?[^}]*\})['\"]?\s*(\\n)?['\"]?\s*>")
_CONDITION = re.compile(r"^\s*(if|elif|else|then|case|while|for|until)\b|&&|\|\||^\s*[\w*|\")]+\)\s")
_CLOSES = re.compile(r"^\s*(fi|esac|done)\b")
_OPENS = re.compile(r"^\s*(if|case|while|for|until)\b")
_COPY = re.compile(r"(?i)^\s*(COPY|ADD)\s+(?:--\S+\s+)*(.+?)\s+\S+\s*$")
_FROM = re.compile(r"(?i)^\s*FROM\s+(?:--\S+\s+)*(\S+)")
_UNSET = re.compile(r"^\s*set\s+\+e")


def lines_of(content: bytes) -> list[tuple[int, str]]:
    """The lines of a script that say something, without comments, continued ones joined; numbers from 1."""
    found: list[tuple[int, str]] = []
    begun: tuple[int, str] | None = None
    for number, raw in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        text = _COMMENT.sub("", raw).rstrip() if not raw.startswith("#!") else ""
        at, before = begun or (number, "")
        if text.endswith("\\"):
            begun = (at, f"{before}{text[:-1]} ")
            continue
        begun = None
        if (before + text).strip():
            found.append((at, before + text))
    return found


def script_problems(suite: ScriptSuite) -> Iterator[Problem]:
    """What is wrong with the scripts that judge."""
    scripts = {path: content for path, content in suite.files.items() if path.endswith(".sh")}
    scripts |= {f"{step.name}/{path}": content for step in suite.steps for path, content in step.files.items()
                if path.endswith(".sh")}
    for path, content in scripts.items():
        lines = lines_of(content)
        yield from _paying(path, lines, suite)
        for number, line in lines:
            if _RUNS_TESTS.search(line) and _SWALLOW.search(line):
                yield Problem(code="swallowed", file=path, line=number,
                              text=f"the exit code of the tests is thrown away: {line.strip()[:80]!r}")
            if _FETCH.search(line) and not _LOCAL.search(line):
                yield Problem(code="network", file=path, line=number,
                              text=f"it fetches something while it judges: {line.strip()[:80]!r}")
            yield from unpinned(path, number, line)


def _paying(path: str, lines: list[tuple[int, str]], suite: ScriptSuite) -> Iterator[Problem]:
    """A reward of 1 that nothing decides, or that is taken from where the answer can write."""
    depth = 0
    guarded = any(re.match(r"^\s*set\s+-\w*e", line) for _, line in lines) and not any(
        _UNSET.match(line) for _, line in lines)
    ran = False
    for number, line in lines:
        if _CLOSES.search(line):
            depth -= 1
        if _REWARD.search(line) and _PAYS.search(line) and depth <= 0 and not _CONDITION.search(line) \
                and not (guarded and ran):
            yield Problem(code="swallowed", file=path, line=number,
                          text=f"it pays whatever the tests say: {line.strip()[:80]!r}")
        place = suite.workdir.rstrip("/")
        taken = re.search(rf"\b(cat|cp|mv|tail|head)\s+[^|;&>]*?({re.escape(place)}|\.|/tmp|/app|/root|\$HOME|~)/\S*"
                          r"[^|;&>]*(>|\s)\s*\S*reward\.(txt|json)", line)
        if taken:
            yield Problem(code="writable reward", file=path, line=number,
                          text=f"the reward is taken from where the answer can write: {line.strip()[:80]!r}")
        if _OPENS.search(line) and not re.search(r"\b(fi|esac|done)\b", line):
            depth += 1
        ran = ran or not _REWARD.search(line)


def unpinned(path: str, number: int, line: str) -> Iterator[Problem]:
    """Installs whose version is decided on the day."""
    for pattern, tool, pin, fails in ((_PIP, "pip", re.compile(r"==|@ |\.whl\b|\.tar\.gz\b"), True),
                                      (_NPM, "npm", re.compile(r".+@\d"), True),
                                      (_APT, "apt", re.compile(r"="), False)):
        for match in pattern.finditer(line):
            words = [w.strip("'\"") for w in match[1].split()]
            loose = [w for at, w in enumerate(words) if w and not w.startswith(("-", ".", "/", "$", "git+"))
                     and not pin.search(w) and words[at - 1] not in ("-r", "-c", "-e", "--requirement", "--index-url")]
            if loose:
                yield Problem(code="unpinned", file=path, line=number, fails=fails,
                              text=f"{tool} installs whatever version is there on the day: {', '.join(loose[:4])}")


def image_problems(environment: Mapping[str, bytes]) -> Iterator[Problem]:
    """What is wrong with the build of an image. Paths begin with `environment/`."""
    for path, content in environment.items():
        if path.rpartition("/")[2] == "requirements.txt":
            for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
                word = line.split("#")[0].strip()
                if word and not word.startswith("-") and "==" not in word and "@" not in word:
                    yield Problem(code="unpinned", file=path, line=number, text=f"pip installs whatever version of "
                                  f"{word!r} is there on the day")
        if path.rpartition("/")[2] != "Dockerfile":
            continue
        for number, line in lines_of(content):
            if (copied := _COPY.match(line)) and re.search(r"(^|[\s\"/])(tests?|solution|solve\.sh|oracle)(/|\s|\"|$)",
                                                           copied[2]):
                yield Problem(code="copied tests", file=path, line=number,
                              text=f"tests or the solution go into the image: {line.strip()[:80]!r}")
            if (base := _FROM.match(line)) and base[1] not in ("scratch", "host") and not base[1].startswith("$") and (
                    base[1].endswith(":latest") or ":" not in base[1].rpartition("/")[2]) and "@" not in base[1]:
                yield Problem(code="unpinned image", file=path, line=number, fails=False,
                              text=f"{base[1]!r} may mean another image tomorrow")
            yield from unpinned(path, number, line)
