"""The rows of the compiled languages: C, C++, Go, Rust and Java, and what their compilers and runtimes write.

The patterns are from gcc 12, go 1.27, rustc 1.94 and javac 17 as they wrote them. An answer in one of these is compiled
and started by one command, so that a program is one line of arguments as in any other language.
"""

from __future__ import annotations

from quintain.program._language import ErrorRow, Language
from quintain.types import FaultKind

_GCC = r"(?P<file>[^:\s][^:\n]*):(?P<line>\d{1,9}):(?:\d+:)? "
_BUILD_AND_RUN = "-o ./.program \"$0\" {libraries} && exec ./.program \"$@\""

_C_BUILD = (
    ErrorRow(pattern=_GCC + r"fatal error: '?(?P<what>[^':]+)'?: (?:No such file|file not found)",
             kind=FaultKind.MISSING_DEPENDENCY),
    ErrorRow(pattern=_GCC + r"(?:fatal )?error: (?P<what>expected .*|stray .*|unterminated .*|missing terminating .*"
                            r"|extraneous .*|unbalanced .*|.*before .* token.*)", kind=FaultKind.SYNTAX_ERROR),
    ErrorRow(pattern=_GCC + r"(?:fatal )?error: (?P<what>.*)", kind=FaultKind.BUILD_ERROR),
    ErrorRow(pattern=r".*undefined reference to [`'‘](?P<what>main)['’]", kind=FaultKind.MISSING_ENTRY_POINT),
    ErrorRow(pattern=r"(?:[^\n]*/)?(?P<file>[^/:\s]+\.(?:c|cc|cpp|cxx)):[^\n]*undefined reference to "
                     r"[`'‘](?P<what>[^'’]+)['’]", kind=FaultKind.BUILD_ERROR),
    ErrorRow(pattern=r".*undefined reference to [`'‘](?P<what>[^'’]+)['’]", kind=FaultKind.BUILD_ERROR),
    ErrorRow(pattern=r".*: cannot find -l(?P<what>\S+?):?(?: .*)?$", kind=FaultKind.MISSING_DEPENDENCY),
)
_C_RUN = (
    ErrorRow(pattern=r"==\d+==ERROR: AddressSanitizer: (?P<what>stack-overflow)", kind=FaultKind.RECURSION_ERROR),
    ErrorRow(pattern=r"==\d+==ERROR: AddressSanitizer: (?P<what>(?:out of memory|allocation-size-too-big|requested "
                     r"allocation size).*)", kind=FaultKind.MEMORY_ERROR),
    ErrorRow(pattern=r"terminate called after throwing an instance of '(?P<what>std::bad_alloc|"
                     r"std::bad_array_new_length)'", kind=FaultKind.MEMORY_ERROR),
    ErrorRow(pattern=r"==\d+==ERROR: \w+Sanitizer: (?P<what>.*)", kind=FaultKind.RUNTIME_ERROR),
    ErrorRow(pattern=r"(?P<file>[^:\s]+):(?P<line>\d{1,9}):\d+: runtime error: (?P<what>.*)",
             kind=FaultKind.RUNTIME_ERROR),
    ErrorRow(pattern=r"\S+: (?P<file>[^:\s]+):(?P<line>\d{1,9}): .*: (?P<what>Assertion) [`'‘].*['’] failed\.$",
             kind=FaultKind.RUNTIME_ERROR),
    ErrorRow(pattern=r"terminate called after throwing an instance of '(?P<what>[^'\n]+)'",
             kind=FaultKind.RUNTIME_ERROR),
    ErrorRow(pattern=r"\*\*\* (?P<what>(?:stack smashing|buffer overflow) detected) \*\*\*",
             kind=FaultKind.CRASH_SIGNAL),
    ErrorRow(pattern=r"(?P<what>(?:free\(\)|malloc\(\)|realloc\(\)|munmap_chunk\(\)|double free|corrupted ).*)",
             kind=FaultKind.CRASH_SIGNAL),
)
_GO = r"(?:\./|vet: )?(?P<file>[\w./-]+\.go):(?P<line>\d{1,9}):(?:\d+:)? "


def _c(name: str, tags: tuple[str, ...], suffixes: tuple[str, ...], compiler: str) -> Language:
    return Language(
        name=name, tags=tags, suffixes=suffixes,
        argv=("sh", "-c", f"{compiler} -O2 " + _BUILD_AND_RUN.replace("{libraries}", "-lm"), "{path}"),
        check=(compiler, "-fsyntax-only", "{path}"),
        definition=r"^(?:[A-Za-z_][\w:<>,&* \t]*[\s*&]){name}[ \t]*\("
                   r"|^[ \t]*(?:struct|class|enum|union|#define)[ \t]+{name}\b",
        looks_like=r"^(?:#include\b|#define\b|int main\b|typedef |struct \w+|using namespace |template ?<)",
        errors=_C_RUN, build_errors=_C_BUILD,
        place=r"\s+#\d+ 0x[0-9a-f]+ in .* (?P<file>\S+?):(?P<line>\d{1,9})(?::\d+)?$",
    )


COMPILED: tuple[Language, ...] = (
    _c("c", ("c", "c99", "c11", "c17", "h"), (".c", ".h"), "gcc"),
    _c("cpp", ("cpp", "c++", "cxx", "cc", "hpp"), (".cpp", ".cc", ".cxx", ".hpp"), "g++"),
    Language(
        name="go",
        tags=("go", "golang"),
        suffixes=(".go",),
        argv=("go", "run", "{path}"),
        check=("go", "build", "-o", "/dev/null", "{path}"),
        definition=r"^func[ \t]+(?:\([^)\n]*\)[ \t]*)?{name}\b|^(?:type|var|const)[ \t]+{name}\b",
        looks_like=r"^(?:package \w+|import [(\"]|func [\w(]|type \w+ (?:struct|interface)|var \w+ )",
        errors=(
            ErrorRow(pattern=r"fatal error: (?P<what>stack overflow)", kind=FaultKind.RECURSION_ERROR),
            ErrorRow(pattern=r"(?:fatal error: )?(?P<what>runtime: (?:out of memory|cannot allocate memory).*)",
                     kind=FaultKind.MEMORY_ERROR),
            ErrorRow(pattern=r"panic: runtime error: (?P<what>makeslice: len out of range.*)",
                     kind=FaultKind.MEMORY_ERROR),
            ErrorRow(pattern=r"panic: (?P<what>.*)", kind=FaultKind.RUNTIME_ERROR),
            ErrorRow(pattern=r"fatal error: (?P<what>.*)", kind=FaultKind.RUNTIME_ERROR),
        ),
        build_errors=(
            ErrorRow(pattern=_GO + r"(?P<what>syntax error: .*|expected .*|invalid character .*|.* literal not "
                                   r"terminated)",
                     kind=FaultKind.SYNTAX_ERROR),
            ErrorRow(pattern=_GO + r"(?:no required module provides package|cannot find module providing package"
                                   r"|package) (?P<what>[^\s:;]+)(?:[:;]| is not in std).*",
                     kind=FaultKind.MISSING_DEPENDENCY),
            ErrorRow(pattern=r".*(?P<what>function main is undeclared in the main package|is not a main package)",
                     kind=FaultKind.MISSING_ENTRY_POINT),
            ErrorRow(pattern=_GO + r"(?P<what>.*)", kind=FaultKind.BUILD_ERROR),
            ErrorRow(pattern=r"go: (?!warning|finding|downloading|found)(?P<what>.*)", kind=FaultKind.BUILD_ERROR),
        ),
        place=r"\t(?P<file>\S+\.go):(?P<line>\d{1,9})(?: \+0x[0-9a-f]+)?(?: .*)?$",
    ),
    Language(
        name="rust",
        tags=("rust", "rs"),
        suffixes=(".rs",),
        argv=("sh", "-c", "rustc --edition 2021 -O " + _BUILD_AND_RUN.replace(" {libraries}", ""), "{path}"),
        check=("rustc", "--edition", "2021", "--emit=metadata", "--out-dir", "/tmp", "{path}"),
        definition=r"^[ \t]*(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:(?:async|const|unsafe)[ \t]+)*"
                   r"(?:fn|struct|enum|trait|type|static|const|mod)[ \t]+{name}\b",
        looks_like=r"^(?:use \w+::|fn \w+|pub (?:fn|struct|enum|mod) |impl\b|#\[|let (?:mut )?\w+)",
        errors=(
            ErrorRow(pattern=r"thread '.*'.* (?P<what>has overflowed its stack)", kind=FaultKind.RECURSION_ERROR),
            ErrorRow(pattern=r"(?P<what>memory allocation of \d+ bytes failed)", kind=FaultKind.MEMORY_ERROR),
            ErrorRow(pattern=r"thread '.*'(?: \(\d+\))? panicked at (?P<file>[^:\n]+):(?P<line>\d{1,9}):\d+:$",
                     kind=FaultKind.RUNTIME_ERROR),
            ErrorRow(pattern=r"thread '.*' panicked at '(?P<what>.*)', (?P<file>[^:\n]+):(?P<line>\d{1,9}):\d+$",
                     kind=FaultKind.RUNTIME_ERROR),
        ),
        build_errors=(
            ErrorRow(pattern=r"error\[E(?:0432|0433|0463)\]: (?P<what>.*(?:unresolved|can't find crate|failed "
                             r"to resolve).*)",
                     kind=FaultKind.MISSING_DEPENDENCY),
            ErrorRow(pattern=r"error\[E0601\]: (?P<what>.*)", kind=FaultKind.MISSING_ENTRY_POINT),
            ErrorRow(pattern=r"error\[E\d+\]: (?P<what>.*)", kind=FaultKind.BUILD_ERROR),
            ErrorRow(pattern=r"error: (?P<what>linking with .*|couldn't read .*)", kind=FaultKind.BUILD_ERROR),
            ErrorRow(pattern=r"error: (?P<what>(?:expected|unexpected|unknown start|unterminated|mismatched closing"
                             r"|this file contains|missing|invalid|unclosed).*)", kind=FaultKind.SYNTAX_ERROR),
            ErrorRow(pattern=r"error: (?P<what>.*)", kind=FaultKind.BUILD_ERROR),
        ),
        place=r" *--> (?P<file>[^:\n]+):(?P<line>\d{1,9}):\d+$",
    ),
    Language(
        name="java",
        tags=("java",),
        suffixes=(".java",),
        argv=("java", "{path}"),
        check=("javac", "-d", "/tmp", "{path}"),
        definition=r"\b(?:class|interface|enum|record)[ \t]+{name}\b|^[ \t]+(?:[\w<>\[\], ]+[ \t]+){name}[ \t]*\(",
        looks_like=r"^(?:import java|package [\w.]+;|public (?:final |abstract )?(?:class|interface|enum|record) "
                   r"|class \w+ ?\{)",
        errors=(
            ErrorRow(pattern=r"(?:Exception in thread \".*\" )?java\.lang\.(?P<what>StackOverflowError)",
                     kind=FaultKind.RECURSION_ERROR),
            ErrorRow(pattern=r"(?:Exception in thread \".*\" )?java\.lang\.(?P<what>OutOfMemoryError)",
                     kind=FaultKind.MEMORY_ERROR),
            ErrorRow(pattern=r"Exception in thread \".*\" java\.util\.(?P<what>NoSuchElementException)$",
                     kind=FaultKind.READS_STDIN),
            ErrorRow(pattern=r"Exception in thread \".*\" (?:[\w$]+\.)*(?P<what>[\w$]+)(?:: .*)?$",
                     kind=FaultKind.RUNTIME_ERROR),
        ),
        build_errors=(
            ErrorRow(pattern=r"(?P<file>[^:\s]+\.java):(?P<line>\d{1,9}): error: (?P<what>package \S+ does not exist)",
                     kind=FaultKind.MISSING_DEPENDENCY),
            ErrorRow(pattern=r"(?P<file>[^:\s]+\.java):(?P<line>\d{1,9}): error: (?P<what>.* expected"
                             r"|reached end of file.*|illegal .*|unclosed .*|not a statement|'.*' without '.*'"
                             r"|malformed .*)",
                     kind=FaultKind.SYNTAX_ERROR),
            ErrorRow(pattern=r"(?P<file>[^:\s]+\.java):(?P<line>\d{1,9}): error: (?P<what>.*)",
                     kind=FaultKind.BUILD_ERROR),
            ErrorRow(pattern=r"error: (?P<what>can't find main\(String\[\]\) method.*|no class declared.*)|"
                             r"Error: (?:Could not find or load main class|Main method not found).*",
                     kind=FaultKind.MISSING_ENTRY_POINT),
        ),
        place=r"\tat .*\((?P<file>\w+\.java):(?P<line>\d{1,9})\)$",
    ),
)
