"""What a program's text says that its output may depend on, beyond its input. Pure.

A hint is no proof: it only says which explanation of a difference to believe where several would do.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Hint(StrEnum):
    CLOCK = "clock"
    NETWORK = "network"
    RANDOM = "random"
    HASHES = "hashes"
    PROCESS_IDS = "process_ids"
    PARALLEL = "parallel"
    MEASURES = "measures"
    ADDRESSES = "addresses"


_WORDS: dict[Hint, str] = {
    Hint.CLOCK: r"\btime\.(time|localtime|gmtime|ctime|strftime|monotonic|clock)|\bdatetime\b|\bdate\b|\$EPOCH|"
                r"\bEPOCH(SECONDS|REALTIME)\b|\buptime\b|\butcnow\b|Date\.now|new Date|\bnow\(\)|%s\)T|\bstat\b|ls -l",
    Hint.NETWORK: r"\bsocket\b|\burllib|\brequests\b|\bhttpx?\b|\bcurl\b|\bwget\b|/dev/tcp/|\bnc\b|\bftp\b|\bping\b|"
                  r"\bgit (clone|fetch|pull)\b|\bpip3? (install|download)\b|\bapt(-get)? \b|\bnpm (i|install|ci)\b|"
                  r"\bssh\b|\bgetaddrinfo\b|\bnslookup\b|\bdig\b",
    Hint.RANDOM: r"\brandom\b|\bsecrets\b|\burandom\b|\buuid|\$\{?RANDOM\b|\bSRANDOM\b|\bshuf\b|\bmktemp\b|\bmkstemp\b|"
                 r"\bmkdtemp\b|\btempfile\b|Math\.random|\brand\(",
    Hint.HASHES: r"\bset\(|\bfrozenset\(|\bhash\(|\{[^{}:]+,[^{}:]+\}|\.(union|intersection|difference)\(|\bset\b",
    Hint.PROCESS_IDS: r"\$\$|\bgetpid\b|\bgetppid\b|\bBASHPID\b|\$!|\bps\b|\bpgrep\b|/proc/self|\bPPID\b",
    Hint.PARALLEL: r"\bthreading\b|\bThread|\bmultiprocessing\b|\bconcurrent\b|\basyncio\b|xargs[^\n]* -P|"
                   r"[^&>]&(?![&>\d])|\bparallel\b|\bmake[^\n]* -j",
    Hint.MEASURES: r"\bperf_counter|\bprocess_time|\btimeit\b|\btime \b|\belapsed\b|\btime\.monotonic|\bSECONDS\b|"
                   r"\bgetrusage\b|\btimes\b",
    Hint.ADDRESSES: r"\bid\(|\bobject\(\)|\blambda\b|\brepr\(|%p\b",
}
_PATTERNS = {hint: re.compile(pattern) for hint, pattern in _WORDS.items()}
_NETWORK_SAID = re.compile(
    r"Connection refused|Network is unreachable|Temporary failure in name resolution|Name or service not known|"
    r"Could not resolve|Couldn't connect|Failed to connect|No route to host|timed out|URLError|HTTPError|"
    r"ConnectionError|Proxy|HTTP/1|\b(403|407|502|503|504)\b", re.IGNORECASE)
_PYTHON = re.compile(r"\bpython3?\b|^\s*(import|from|def|print)\b", re.MULTILINE)


def hints_of(text: str) -> frozenset[Hint]:
    """What the text of a program or a command mentions; of a longer one its first 200,000 characters."""
    return frozenset(hint for hint, pattern in _PATTERNS.items() if pattern.search(text[:200_000]))


def is_python(text: str) -> bool:
    return _PYTHON.search(text[:200_000]) is not None


def speaks_of_network(text: str) -> str | None:
    """The words of an output that tell of a network that did not answer."""
    found = _NETWORK_SAID.search(text[:200_000])
    return found.group() if found else None
