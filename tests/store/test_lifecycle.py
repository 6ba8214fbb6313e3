"""What stays in the library and what goes, and that what went comes back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.store import (
    STANDARD,
    Definition,
    Keeping,
    Library,
    Lifecycle,
    Pin,
    Rule,
    Run,
    read_lifecycle,
    render_s3,
)
from quintain.store.lifecycle import DAY_SECONDS, Candidate, choose
from quintain.types import Flag, HouseError, Severity
from tests.store.events import built, closed, graded, opened, sampled, solved, story

NOW = 100 * DAY_SECONDS
RULES = """
undo_days = 3
budget = "2GiB"
[[rule]]
keep = 1.0
outcome = ["solved", "anomalous", "reviewed"]
[[rule]]
keep = 0.25
kind = ["code"]
older_than_days = 30
[[rule]]
keep = 0.0
kind = ["shell"]
outcome = ["broken"]
older_than_days = 10
"""


def candidate(name: str, *outcomes: str, kind: str = "code", age_days: float = 50.0, size: int = 10) -> Candidate:
    return Candidate("r", name, kind, frozenset(outcomes), NOW - age_days * DAY_SECONDS, size)


def test_every_solved_anomalous_and_reviewed_episode_stays_and_a_share_of_the_rest() -> None:
    rules = read_lifecycle(RULES)
    many = [candidate(f"f{n}", "failed") for n in range(400)]
    kept = [candidate("s", "solved"), candidate("a", "failed", "anomalous"), candidate("v", "failed", "reviewed"),
            candidate("young", "failed", age_days=5), candidate("h", "failed"), candidate("x", "failed", kind="math")]
    chosen = {c.candidate.episode: c for c in choose([*many, *kept], rules, now=NOW, held={("r", "h")})}
    assert all(chosen[c.episode].stays for c in kept)
    assert 70 <= sum(chosen[c.episode].stays for c in many) <= 130
    again = choose([c.candidate for c in chosen.values() if c.stays], rules, now=NOW, held={("r", "h")})
    assert all(c.stays for c in again), "thinning twice is the same as once"
    gone = choose([candidate("b", "broken", kind="shell", age_days=11)], rules, now=NOW)
    assert not gone[0].stays and gone[0].why == "rule 3"


AGED = st.tuples(st.sampled_from(["solved", "failed"]), st.integers(0, 90), st.integers(1, 1000))


@given(st.lists(AGED, max_size=40))
def test_a_budget_takes_the_oldest_and_never_what_is_kept_whole(many: list[tuple[str, int, int]]) -> None:
    rules = Lifecycle(rule=(Rule(keep=1.0, outcome=("solved",)),), budget="500")
    candidates = [candidate(str(n), what, age_days=age, size=size) for n, (what, age, size) in enumerate(many)]
    chosen = choose(candidates, rules, now=NOW, total_bytes=sum(c.bytes for c in candidates))
    stays = [c.candidate for c in chosen if c.stays]
    gone = [c.candidate for c in chosen if not c.stays]
    assert all("solved" not in c.outcomes for c in gone)
    left = sum(c.bytes for c in stays)
    assert left <= 500 or all("solved" in c.outcomes for c in stays)
    spare = [c for c in stays if "failed" in c.outcomes]
    assert not gone or all(c.at_unix_seconds >= max(g.at_unix_seconds for g in gone) for c in spare)


@pytest.mark.parametrize(("text", "said"), [
    ("[[rule]]\nkeep = 2.0", "keep must be in"), ("[[rule]]\nkeep = 1\noutcome = ['odd']", "outcome must be one of"),
    ("budget = 'much'", "budget must be a size"), ("what = 1", "unknown field"), ("[[rule", "lifecycle.toml"),
])
def test_rules_that_mean_nothing_are_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(HouseError, match=said):
        read_lifecycle(text)


def test_a_bucket_gets_what_it_can_keep_and_the_rest_is_named() -> None:
    made, left = render_s3(read_lifecycle(RULES), prefix="trials/")
    rules = made["Rules"]
    assert isinstance(rules, list)
    by_id = {rule["ID"]: rule for rule in rules}
    assert by_id["quintain-unfinished-uploads"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 2}
    assert by_id["quintain-undo"]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 3}
    assert by_id["quintain-rule-3-1"]["Expiration"] == {"Days": 10}
    assert by_id["quintain-rule-3-1"]["Filter"]["And"]["Tags"] == [
        {"Key": "quintain-kind", "Value": "shell"}, {"Key": "quintain-outcome", "Value": "broken"}]
    assert len(left) == 3 and len(render_s3(STANDARD)[1]) == 2


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Three failed episodes, a solved one and one with a flag, all long ago; `big` has a blob."""
    pytest.importorskip("duckdb", reason="pip install 'quintain[library]'")
    pytest.importorskip("pyarrow", reason="pip install 'quintain[library]'")
    flag = Flag(detector="hollow", severity=Severity.SOFT, evidence="")
    with Run.create(tmp_path, Definition(taskset="t", policy="p"), name="r") as run:
        big = [opened("big"), sampled("big", 1), built("big", 2, {"a": b"z" * 40_000}), closed("big", 3)]
        odd = [*story("odd")[:3], graded("odd", 3, 0.1, flags=[flag]), closed("odd", 4)]
        for log in (story("f1"), story("f2"), big, solved("s"), odd):
            for event in log:
                run.journal.append(event)
    made = Library(tmp_path)
    made.compact()
    return made


ALL = Lifecycle(rule=(Rule(keep=1.0, outcome=("solved", "anomalous", "reviewed")), Rule(keep=0.0)), undo_days=2)


def ids(library: Library, table: str = "episodes") -> list[str]:
    return library.query(f"SELECT DISTINCT episode FROM {table} ORDER BY 1")["episode"].to_pylist()


def test_a_dry_run_changes_nothing_and_a_sweep_can_be_undone(library: Library) -> None:
    keeping = Keeping(library)
    told = keeping.sweep(ALL, dry_run=True, now=NOW)
    assert told.episodes == 3 and told.reasons == {"rule 2": 3} and len(ids(library)) == 5
    swept = keeping.sweep(ALL, dry_run=False, now=NOW)
    for table in ("episodes", "steps", "events"):
        assert ids(library, table) == ["odd", "s"]
    assert library.compact().attempts == 0 and ids(library) == ["odd", "s"], "what went does not come in again"
    assert library.status().trash_bytes > 0
    assert keeping.undo(swept.batch) == 3
    assert ids(library) == ["big", "f1", "f2", "odd", "s"] and library.verify() == ()
    assert library.events("big", run="r")[2] == built("big", 2, {"a": b"z" * 40_000})
    with pytest.raises(HouseError, match="expected something to undo, found none"):
        keeping.undo()


def test_what_is_pinned_or_reviewed_never_goes(library: Library) -> None:
    keeping = Keeping(library)
    keeping.pin(Pin(holder="paper/1", episodes=(("r", "f1"),)))
    assert keeping.sweep(ALL, dry_run=False, reviewed={("r", "f2")}, now=NOW).episodes == 1
    assert ids(library) == ["f1", "f2", "odd", "s"]
    keeping.unpin("paper/1")
    keeping.pin(Pin(holder="checkpoint", policy_versions=("0",)))
    assert keeping.sweep(Lifecycle(rule=(Rule(keep=0.0),)), dry_run=False, now=NOW).episodes == 0
    keeping.unpin("checkpoint")
    every = library.query("SELECT DISTINCT policy FROM episodes").to_pylist()[0]["policy"]
    keeping.pin(Pin(holder="training", policies=(every,)))
    assert keeping.sweep(Lifecycle(rule=(Rule(keep=0.0),)), dry_run=True, now=NOW).episodes == 0
    keeping.pin(Pin(holder="training", policies=(f"{every}@other",)))
    assert keeping.sweep(Lifecycle(rule=(Rule(keep=0.0),)), dry_run=True, now=NOW).episodes > 0
    keeping.unpin("training")
    keeping.pin(Pin(holder="suite", suites=("suite-1",)))
    keeping.sweep(Lifecycle(rule=(Rule(keep=0.0),)), dry_run=False, now=NOW)
    assert ids(library) == ["odd", "s"]
    (library.folder / "pins" / "suite.json").write_text("{")
    with pytest.raises(HouseError, match="expected what holds something"):
        keeping.sweep(Lifecycle(rule=(Rule(keep=0.0),)), dry_run=False, now=NOW)


def test_bytes_come_free_when_the_window_is_over_and_not_before(library: Library) -> None:
    keeping = Keeping(library)
    digest = next(iter(library.blobs.digests()))
    start = time.time()
    keeping.sweep(ALL, dry_run=False, now=start + 60 * DAY_SECONDS)
    assert library.blobs.has(digest), "what can be undone needs its bytes"
    second = keeping.sweep(ALL, dry_run=False, now=start + 61 * DAY_SECONDS)
    assert second.blobs == 0 and library.blobs.has(digest)
    third = keeping.sweep(ALL, dry_run=False, now=start + 70 * DAY_SECONDS)
    assert third.freed_bytes > 0 and library.status().trash_bytes == 0
    last = keeping.sweep(ALL, dry_run=False, now=start + 80 * DAY_SECONDS)
    assert (third.blobs, last.blobs) == (0, 1) and not library.blobs.has(digest)
    assert ids(library) == ["odd", "s"] and library.verify() == ()
