"""What went wrong, and whose it was: every failure has an owner."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Owner(StrEnum):
    """Policy: rewarded. Task: quarantined. House: retried, never rewarded, never in a group's baseline."""

    POLICY = "policy"
    TASK = "task"
    HOUSE = "house"


class FaultKind(StrEnum):
    """The taxonomy. The letter of the class (A output, B static, C runtime, D logic, E limits, F no result, G tamper,
    H task, I house, J ambiguous) is in `CLASS_OF`."""

    # A: the reply holds nothing that can be run
    NO_ANSWER = "no_answer"
    NO_CODE = "no_code"
    FORMAT_ERROR = "format_error"
    INVALID_TOOL_CALL = "invalid_tool_call"
    TRUNCATED = "truncated"
    PATCH_MALFORMED = "patch_malformed"
    PATCH_DOES_NOT_APPLY = "patch_does_not_apply"
    PATCH_AMBIGUOUS = "patch_ambiguous"
    EMPTY_PATCH = "empty_patch"
    FORBIDDEN_PATH = "forbidden_path"
    # B: what was submitted does not build
    SYNTAX_ERROR = "syntax_error"
    MISSING_ENTRY_POINT = "missing_entry_point"
    MISSING_DEPENDENCY = "missing_dependency"
    BUILD_ERROR = "build_error"
    # C: it runs and breaks
    RUNTIME_ERROR = "runtime_error"
    MEMORY_ERROR = "memory_error"
    RECURSION_ERROR = "recursion_error"
    CRASH_SIGNAL = "crash_signal"
    NONZERO_EXIT = "nonzero_exit"
    READS_STDIN = "reads_stdin"
    # D: it runs and is wrong
    ASSERTION_ERROR = "assertion_error"
    WRONG_ANSWER = "wrong_answer"
    WRONG_TYPE = "wrong_type"
    WRONG_FORMAT = "wrong_format"
    REGRESSION = "regression"  # what passed before the answer fails after it
    NONDETERMINISTIC = "nondeterministic"
    # E: it uses more than it may
    TIMEOUT = "timeout"
    CPU_LIMIT = "cpu_limit"
    OOM_KILL = "oom_kill"
    OUTPUT_LIMIT = "output_limit"
    DISK_LIMIT = "disk_limit"
    PROCESS_LIMIT = "process_limit"
    # F: there is no result to judge
    EARLY_EXIT = "early_exit"
    MISSING_REQUIRED_TEST = "missing_required_test"
    SKIPPED_TEST = "skipped_test"  # skipped or expected to fail: counts as failed
    # G: it reached for the judge
    TAMPER = "tamper"
    PROTECTED_FILE_CHANGED = "protected_file_changed"
    TEST_FILE_PLANTED = "test_file_planted"
    CANARY_PASSED = "canary_passed"  # every real test passed, and one that must fail did too
    REPORT_FORGED = "report_forged"
    HONEYPOT_USED = "honeypot_used"
    POISONED_KEY = "poisoned_key"
    VERIFIER_TOUCHED = "verifier_touched"
    HISTORY_MINED = "history_mined"
    # H: the task's own
    TASK_INVALID = "task_invalid"
    TASK_ENVIRONMENT = "task_environment"
    NO_TESTS_RUN = "no_tests_run"
    # I: the house's own
    SANDBOX_CREATE_FAILED = "sandbox_create_failed"
    SANDBOX_LOST = "sandbox_lost"
    POLICY_UNREACHABLE = "policy_unreachable"
    VERIFIER_ERROR = "verifier_error"
    STORE_ERROR = "store_error"
    CANCELLED = "cancelled"
    NODE_LOST = "node_lost"
    CLOCK_JUMPED = "clock_jumped"
    HEALTH_CHECK_FAILED = "health_check_failed"  # the verifier misjudged a candidate whose verdict is known
    UNKNOWN = "unknown"
    # J: the runs or the judges do not agree: owned by the house, so that it is never rewarded
    CONFLICTING_RUNS = "conflicting_runs"
    JUDGES_DISAGREE = "judges_disagree"


_LETTERS: dict[str, str] = {
    "A": "no_answer no_code format_error invalid_tool_call truncated patch_malformed patch_does_not_apply "
    "patch_ambiguous empty_patch forbidden_path",
    "B": "syntax_error missing_entry_point missing_dependency build_error",
    "C": "runtime_error memory_error recursion_error crash_signal nonzero_exit reads_stdin",
    "D": "assertion_error wrong_answer wrong_type wrong_format regression nondeterministic",
    "E": "timeout cpu_limit oom_kill output_limit disk_limit process_limit",
    "F": "early_exit missing_required_test skipped_test",
    "G": "tamper protected_file_changed test_file_planted canary_passed report_forged honeypot_used poisoned_key "
    "verifier_touched history_mined",
    "H": "task_invalid task_environment no_tests_run",
    "I": "sandbox_create_failed sandbox_lost policy_unreachable verifier_error store_error cancelled "
    "node_lost clock_jumped health_check_failed unknown",
    "J": "conflicting_runs judges_disagree",
}

#: The letter of each kind of fault.
CLASS_OF: dict[FaultKind, str] = {FaultKind(k): letter for letter, kinds in _LETTERS.items() for k in kinds.split()}


class Attribution(StrEnum):
    """What a failure is laid on: its owner, or tampering (a policy's, and penalised), or nobody yet (ambiguous)."""

    POLICY = "policy"
    TASK = "task"
    HOUSE = "house"
    TAMPER = "tamper"
    AMBIGUOUS = "ambiguous"


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One failure: whose, what, and where. `file` is relative to the program's tree, `line` counts from 1."""

    owner: Owner
    kind: FaultKind
    message: str
    file: str | None = None
    line: int | None = None
    exception: str | None = None

    @property
    def label(self) -> str:
        """`class.subclass`, as in `D.wrong_answer`."""
        return f"{CLASS_OF[self.kind]}.{self.kind.value}"

    @property
    def attribution(self) -> Attribution:
        letter = CLASS_OF[self.kind]
        if letter == "J":
            return Attribution.AMBIGUOUS
        if letter == "G" and self.owner is Owner.POLICY:
            return Attribution.TAMPER
        return Attribution(self.owner.value)

    def __str__(self) -> str:
        line = f":{self.line}" if self.line is not None else ""
        place = f" at {self.file}{line}" if self.file else ""
        return f"{self.owner.value}/{self.kind.value}{place}: {self.message}"


class HouseError(Exception):
    """The house did something wrong: raised, never returned; caught by the driver, the worker and the cli only."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.message}"

    @property
    def fault(self) -> Fault:
        """The same as a value, for the journal."""
        return Fault(owner=Owner.HOUSE, kind=self.kind, message=self.message)


class TaskError(Exception):
    """A task is not fit to be asked: the message names the file, the line or key, what was expected and found."""

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None,
        kind: FaultKind = FaultKind.TASK_INVALID,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.kind = kind

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        return place + self.message

    @property
    def fault(self) -> Fault:
        """The same as a value, for the journal."""
        return Fault(owner=Owner.TASK, kind=self.kind, message=self.message, file=self.file, line=self.line)
