"""Reports of test runners: what is in them is seen, what is not in them is missed, and nothing of them is believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.grade import headline, reward_of
from quintain.grade.reports import FORMATS, Report, ReportedTest, Told, normal_id, read_report, verdict_of
from quintain.types import FaultKind, Outcome, Owner, Passed, Status
from tests.grade.ground import SHARED, needs_shared

HERE = Path(__file__).parent / "reported"  # what pytest 9, unittest, jest 30, node 20, go 1.27, cargo 1.94, ctest wrote
FINE = Outcome(status=Status.OK, exit_code=0)


def read(name: str, format: str) -> Report:
    return read_report(format, (HERE / name).read_bytes(), root="/repo")


def told(report: Report) -> dict[str, Told]:
    return {test.id: test.status for test in report.tests}


P, F, S, XF, XP, E = Told.PASSED, Told.FAILED, Told.SKIPPED, Told.XFAILED, Told.XPASSED, Told.ERROR
BY_PYTEST = {
    "test_ids[a b]": F, "test_ids[a - c]": P, "test_ids[a::b]": F, "test_ids[PASSED]": P, "test_ids[new\\nline]": P,
    "test_ids[nul\\x00]": P, "test_ids[esc\\x1b[31m]": P, "test_ids[\\u65e5\\u672c]": P, "test_ids[[br]]": F,
    "test_ids[d/b.py]": F, "test_ids[]": P, "test_ids[]]": P, "test_xf": XF, "test_xp": XP, "test_strict": F,
    "test_skip": S, "test_err": E, "test_late": E, "test_print": F, "TestC::test_m": P, "TestU::test_sub": F,
    "TestU::test_u": F,
}


def test_pytests_lines_name_every_id_as_it_is() -> None:
    report = read("pytest_v.txt", "pytest")
    assert told(report) == {f"test_a.py::{name}": status for name, status in BY_PYTEST.items()}
    assert (report.collected, report.complete, report.problems) == (22, True, ())
    assert [(t.file, t.line, t.message) for t in report.tests if t.id.endswith("test_print")] == [
        ("test_a.py", 25, "assert 1 == 2")]


def test_pytests_summary_alone_tells_the_same() -> None:
    report = read("pytest_rA.txt", "pytest")
    named = {f"test_a.py::{name}": status for name, status in BY_PYTEST.items() if name != "test_skip"}
    assert told(report) == {**named, "test_a.py:12": S}  # a skipped test is named by its place only
    assert (report.collected, report.complete) == (22, True)


def test_pytests_xml_tells_the_same_but_for_a_pass_that_was_not_expected() -> None:
    report = read("py_a.xml", "junit")
    found = {normal_id(test.id): test.status for test in report.tests}
    assert found == {normal_id(f"test_a.py::{n}"): P if n == "test_xp" else s for n, s in BY_PYTEST.items()}
    assert report.complete


def test_a_file_that_does_not_load_is_an_error_and_its_tests_are_absent() -> None:
    for name, format in (("pytest_bad.txt", "pytest"), ("py_bad.xml", "junit")):
        report = read(name, format)
        assert [(test.status, "No module named 'nothere'" in test.message) for test in report.tests] == [(E, True)]
        verdict = verdict_of(report, required=["test_bad.py::test_x"], level="L3")
        fault = headline(verdict)
        assert not verdict.solved and fault is not None and fault.owner is Owner.POLICY
        assert verdict.tests[0].fault is not None
        assert verdict.tests[0].fault.kind is FaultKind.MISSING_DEPENDENCY


def test_unittests_lines_are_read_through_what_tests_print() -> None:
    report = read("unittest_v311.txt", "unittest")
    names = {"test_doc": P, "test_err": E, "test_fail": F, "test_ok": P, "test_print": P, "test_skip": S, "test_sub": F,
             "test_xf": XF, "test_xp": XP}
    assert told(report) == {
        "test_u.B.setUpClass": E, **{f"test_u.T.{name}": status for name, status in names.items()},
        "unittest.loader._FailedTest.test_i": E,
    }
    assert report.complete
    failed = next(test for test in report.tests if test.id == "test_u.T.test_fail")
    assert (failed.message, failed.file, failed.line) == ("AssertionError: 1 != 2 : msg", "pyu/test_u.py", 6)
    assert verdict_of(report, required=["test_u.T.test_forged"], level="L3").share == 0.0


BY_JEST = {"ok one": P, "fails": F, "skipped": S, "todo": S, "suite a > inner › ok": P, "prints": P}


def test_jests_json_and_text_name_the_same_tests() -> None:
    for name, format in (("jest.json", "jest-json"), ("jest_text.txt", "jest")):
        report = read(name, format)
        found = {test.id.removeprefix("jest/"): test.status for test in report.tests}
        assert {f"t/a.test.js::{name}": status for name, status in BY_JEST.items()}.items() <= found.items()
        assert found["t/broken.test.js"] is E
        assert [id.removeprefix("jest/") for id in report.duplicates] == ["t/a.test.js::suite a > deep > dup"]
        assert (report.collected, report.complete) == (10, True)
    assert told(read("jest.json", "jest-json"))["jest/t/a.test.js::xf"] is XF  # only the JSON can tell


NODE = {"ok one": P, "with # hash and \\ back": P, "skipped": S, "todo": XF, "fails": F, "prints": P,
        "suite > inner ok": P, "suite > inner bad": F, "suite > deep > x > y": P, "parent > child": P, "parent": P}


def test_nodes_tap_and_spec_name_the_same_tests() -> None:
    tap, spec = read("node_tap.txt", "tap"), read("node_spec.txt", "node")
    for report in (tap, spec):
        assert told(report).items() >= NODE.items()
        assert "dup" in report.duplicates
    assert tap.complete and len(tap.tests) == 14
    bad = next(test for test in tap.tests if test.id == "suite > inner bad")
    assert (bad.message, bad.file, bad.line) == ("bad", "js/a.test.js", 11)


def test_a_printed_result_makes_the_counts_disagree() -> None:
    for name, format in (("node_spec.txt", "node"), ("node_tap_single.txt", "tap")):
        report = read(name, format)
        assert "forged" in told(report)
        assert not report.complete
        assert any("the end says 14, the lines come to 15" in problem for problem in report.problems)
        assert not verdict_of(report, required=["ok one"], level="L2").solved


def test_a_file_that_left_before_its_tests_is_not_a_pass() -> None:
    for name, format in (("node_dead_tap.txt", "tap"), ("node_dead_spec.txt", "node")):
        report = read(name, format)
        assert [test.status for test in report.tests] == [Told.MISSING]
        assert not report.complete
        assert not verdict_of(report, required=(), level="L2").solved


GO = {"TestOk": P, "TestFail": F, "TestSkip": S, "TestSub": F, "TestSub/a_b": P, "TestSub/c/d": F, "TestSub/x": P,
      "TestSub/x#01": P, "TestSub/日本": P, "TestPrint": P, "TestEnv": P, "ExampleAdd": P}


def test_gos_events_and_text_name_the_same_tests() -> None:
    for name, format in (("go_json.txt", "go-json"), ("go_text.txt", "go")):
        report = read(name, format)
        assert told(report) == {
            **{f"example.com/m::{test}": status for test, status in GO.items()}, "example.com/m/bad": E,
            "example.com/m/boom::TestA": P, "example.com/m/boom::TestB": F,
            "example.com/m/exit0::TestA": P, "example.com/m/exit0::TestB": F,
        }
        failed = next(test for test in report.tests if test.id == "example.com/m::TestFail")
        assert (failed.message, failed.file, failed.line) == ("expected 4, got 3", "m_test.go", 4)
        assert not report.complete
        assert "example.com/m/boom ended early" in report.problems
        verdict = verdict_of(report, required=["TestOk", "TestForged", "example.com/m/boom::TestC"], level="L2")
        assert [test.passed for test in verdict.tests] == [Passed.PASSED, Passed.MISSING, Passed.MISSING]


def test_cargos_targets_are_counted_one_by_one() -> None:
    report = read("cargo.txt", "cargo")
    assert told(report) == {
        "src/lib.rs::tests::ign": S, "src/lib.rs::tests::ok": P, "src/lib.rs::tests::fails": F,
        "src/lib.rs::tests::prints": F, "src/lib.rs::tests::sp": P, "src/lib.rs::tests::sp_not": F,
        "doc m::src/lib.rs - add (line 1)": P,
    }
    failed = next(test for test in report.tests if test.id.endswith("::fails"))
    assert (failed.file, failed.line) == ("src/lib.rs", 8)
    assert "left: 3" in failed.message
    assert "tests/i.rs: 2 tests began and no result came" in report.problems
    assert (report.collected, report.complete) == (9, False)


def test_ctests_list_is_read() -> None:
    report = read("ctest.txt", "ctest")
    assert list(told(report).values()) == [P, E, F, E, S, S, F]
    assert (report.collected, report.complete) == (7, True)


FULL = [("pytest_v.txt", "pytest"), ("pytest_rA.txt", "pytest"), ("py_a.xml", "junit"), ("node_junit.xml", "junit"),
        ("unittest_v311.txt", "unittest"), ("jest.json", "jest-json"), ("jest_text.txt", "jest"),
        ("node_tap.txt", "tap"), ("ctest.txt", "ctest")]


@pytest.mark.parametrize(("name", "format"), FULL)
def test_a_report_that_is_cut_anywhere_before_its_end_is_not_whole(name: str, format: str) -> None:
    data = (HERE / name).read_bytes()
    assert read_report(format, data).complete
    for share in range(1, 18):  # what follows the end itself may be missing
        cut = read_report(format, data[:len(data) * share // 20])
        assert not cut.complete, share
        assert not verdict_of(cut, required=[], level="L3").solved


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))
def test_no_bytes_make_a_reader_fail_or_a_pass(format: str, data: bytes) -> None:
    report = read_report(format, data)
    verdict = verdict_of(report, required=["tests/test_a.py::test_x"], level="L3")
    assert len(verdict.tests) == 1
    assert not verdict.solved or b"test_x" in data


def test_a_format_that_there_is_not_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"expected a format out of cargo, .*; found 'nose'"):
        read_report("nose", b"")


def test_bombs_and_document_types_are_refused() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><testsuites><testcase name="&b;"/></testsuites>'
    report = read_report("junit", bomb)
    assert report.unreadable is not None and "document type" in report.unreadable
    deep = b"<testsuites>" + b"<testsuite>" * 100 + b"</testsuite>" * 100 + b"</testsuites>"
    assert "at most 64 nested" in (read_report("junit", deep).unreadable or "")
    assert read_report("junit", b"<html/>").unreadable == "expected a testsuite or testsuites element, found none"


def test_forbidden_characters_in_what_a_test_printed_are_tolerated() -> None:
    printed = b"<system-out>\x1b[31m&#0;</system-out>"
    report = read_report(
        "junit", b'<testsuite tests="1"><testcase classname="t" name="a">' + printed + b"</testcase></testsuite>")
    assert (report.unreadable, report.complete, told(report)) == (None, True, {"t::a": P})
    assert report.problems == ("forbidden characters in what was printed",)


@needs_shared
@pytest.mark.parametrize("name", ["esc.xml", "cut.xml", "entity.xml"])
def test_an_unreadable_report_is_the_houses_and_its_bytes_are_named(name: str) -> None:
    """RP15: no reward, a retry, and never half-read as a pass."""
    raw = (SHARED / "cases" / "RP15" / name).read_bytes()
    report = read_report("junit", raw)
    verdict = verdict_of(report, required=["t::a"], level="L3", raw=raw)
    assert verdict.fault is not None
    assert (verdict.fault.owner, verdict.fault.kind) == (Owner.HOUSE, FaultKind.VERIFIER_ERROR)
    assert (verdict.share, reward_of(verdict)) == (0.0, None)
    assert verdict.evidence[0].blob is not None and len(verdict.evidence[0].blob) == 64
    if name == "esc.xml":
        assert report.tests[0].message == "\x1b[31mred\x1b[0m"


def test_ids_of_all_forms_are_one() -> None:
    same = ["tests/test_a.py::TestC::test_m[x::y/z.py]", "tests.test_a.TestC::test_m[x::y/z.py]",
            "./tests/test_a.py::TestC::test_m[x::y/z.py]", "tests.test_a.TestC.test_m[x::y/z.py]"]
    assert len({normal_id(id) for id in same}) == 1
    assert normal_id("t.py::test_a[ü\n]") == normal_id("t.py::test_a[\\xfc\\n]")
    assert normal_id("t.py::test_a[a b]") != normal_id("t.py::test_a[a c]")


def reported(*tests: tuple[str, Told], **more: object) -> Report:
    made = tuple(ReportedTest(id=id, status=status) for id, status in tests)
    return Report(format="pytest", tests=made, **more)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(list(Told))), max_size=8),
       st.booleans())
def test_only_a_whole_report_in_which_each_required_test_passed_once_solves(
    tests: list[tuple[str, Told]], complete: bool,
) -> None:
    verdict = verdict_of(reported(*tests, complete=complete), required=["a", "b"], level="L3", outcome=FINE)
    assert [test.id for test in verdict.tests] == ["a", "b"]
    clean = all([status for id, status in tests if id == name] == [Told.PASSED] for name in ("a", "b"))
    assert verdict.solved is (clean and complete)
    reward = reward_of(verdict)
    assert reward is None or reward.solved is verdict.solved


def test_skips_and_expected_failures_have_failed_unless_the_task_says_otherwise() -> None:
    """RP01: each state has its own count, and only an explicit rule leaves it out."""
    report = reported(("p", P), ("xf", XF), ("xp", XP), ("s", S))
    assert {s: n for s, n in report.counts.items() if n} == {P: 1, S: 1, XF: 1, XP: 1}
    strict = verdict_of(report, required=["p", "xf", "xp", "s"], level="L3")
    assert [test.fault.kind if test.fault else None for test in strict.tests] == [
        None, *[FaultKind.SKIPPED_TEST] * 3]
    ruled = verdict_of(report, required=["p", "xf", "xp", "s"], level="L3", excused=(S, XF, XP))
    assert ruled.solved and [test.id for test in ruled.tests] == ["p"]
    assert "3 tests excused" in ruled.evidence[-1].text
    with pytest.raises(ValueError, match="expected only skipped, xfailed or xpassed to be excused"):
        verdict_of(report, required=[], level="L3", excused=(F,))


def test_nothing_is_never_everything() -> None:
    """RP08: zero of zero tests is the task's fault, and excusing all of them as well."""
    for verdict in (verdict_of(reported(), required=[], level="L3"),
                    verdict_of(reported(("s", S)), required=["s"], level="L3", excused=(S,))):
        assert verdict.fault is not None and verdict.fault.label == "H.no_tests_run"
        assert not verdict.solved and reward_of(verdict) is None


def test_a_green_report_of_a_runner_that_failed_tells_both() -> None:
    """RP27: two passed, and the process ended with 7."""
    report = reported(("a", P), ("b", P))
    verdict = verdict_of(report, required=["a", "b"], level="L3",
                         outcome=Outcome(status=Status.FAILED, exit_code=7))
    assert verdict.fault is not None and verdict.fault.owner is Owner.POLICY
    assert verdict.fault.message == "2 of 2 tests passed, and the runner ended with exit code 7"
    assert "exit code 7" in " ".join(item.text for item in verdict.evidence)


def test_a_strict_expected_failure_that_passes_is_the_tasks_only_where_the_answer_could_not_say_it() -> None:
    test = ReportedTest(id="a", status=F, message="[XPASS(strict)] old")
    report = Report(format="pytest", tests=(test,))
    owners = {}
    for level in ("L3", "L4"):
        fault = verdict_of(report, required=["a"], level=level).tests[0].fault
        assert fault is not None and fault.exception == "xpass_strict"
        owners[level] = fault.owner
    assert owners == {"L3": Owner.POLICY, "L4": Owner.TASK}


def test_levels_are_the_callers_word() -> None:
    assert verdict_of(reported(("a", P)), required=["a"], level="L2").level == "L2"
    with pytest.raises(ValueError, match="expected a level out of L0, L1, L2, L3, L4; found 'L5'"):
        verdict_of(reported(("a", P)), required=["a"], level="L5")


def test_a_test_that_is_reported_twice_has_failed_even_if_both_passed() -> None:
    verdict = verdict_of(reported(("a", P), ("a", P)), required=["a"], level="L3")
    assert verdict.share == 0.0
    assert "named more than once: a" in " ".join(item.text for item in verdict.evidence)


def test_a_failed_test_told_by_jest_keeps_its_kind() -> None:
    data = json.loads((HERE / "jest.json").read_text())
    report = read_report("jest-json", json.dumps(data).encode(), root="/repo/jest")
    verdict = verdict_of(report, required=["t/a.test.js::fails"], level="L2")
    fault = verdict.tests[0].fault
    assert fault is not None and fault.kind is FaultKind.ASSERTION_ERROR


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs/rooms/reports.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    exec(compile(code, "reports.md", "exec"), {"__name__": "page"})
    first, second = capsys.readouterr().out.splitlines()
    assert first == "True {'test_a.py::test_x': 'passed', 'test_a.py::test_y': 'failed'}"
    assert second == ("[('test_a.py::test_x', 'passed', None), ('test_a.py::test_y', 'failed', 'D.assertion_error'), "
                      "('test_a.py::test_z', 'missing', 'F.missing_required_test')]")


def test_a_skipped_test_without_a_reason_or_a_line_is_told_in_plain_words() -> None:
    printed = b"collected 1 item\n\ntest_a.py::test_s SKIPPED [100%]\n\n===== 1 skipped in 0.01s =====\n"
    verdict = verdict_of(read_report("pytest", printed), required=["test_a.py::test_s"], level="L2")
    assert str(verdict.tests[0].fault) == "policy/skipped_test at test_a.py: skipped"
