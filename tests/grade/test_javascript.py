"""JavaScript answers are judged out of their own process: by what crosses, not by what they say of themselves."""

from __future__ import annotations

import shutil

import pytest

from quintain.grade import headline
from quintain.tasks import JavaScriptSuite
from quintain.types import FaultKind, HouseError, Limits, Owner, Passed, Program, Verdict
from tests.grade.ground import LIMITS, Case, grade_all, needs_native, verdict_of

pytestmark = [
    needs_native,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not on this machine: JavaScript is not judged"),
]

JEST = """
import { describe, expect, test } from '@jest/globals';
import { values, Counter, fail, later, twice, change, same, OwnError } from './solution';

describe('what crosses', () => {
  test('plain values keep their type', () => {
    expect(values()).toEqual([1, -0, 'x', null, undefined, true, 12n, [1, [2]], { a: 1 }]);
    expect(Object.is(values()[1], -0)).toBe(true);
    expect(values()[0]).toBe(1);
    expect(new Map([[1, 'a']])).toEqual(new Map([[1, 'a']]));
    expect(same(NaN)).toBeNaN();
    expect(same(new Set([1, 2]))).toEqual(new Set([2, 1]));
    expect(same(new Date(5)).getTime()).toBe(5);
    expect(same(/a+/gi).flags).toBe('gi');
  });
  test('objects are reached by calls and properties', () => {
    const counter = new Counter(3);
    counter.up();
    expect(counter.count).toBe(4);
    expect(counter).toBeInstanceOf(Counter);
    expect(counter.up()).toBe(counter);
    expect([...counter]).toEqual([0, 1, 2, 3, 4]);
    expect(`${counter}`).toBe('counter of 5');
    counter.count = 9;
    expect(counter.count).toBe(9);
  });
  test('errors keep class and message', () => {
    expect(() => fail('no')).toThrow('no');
    expect(() => fail('no')).toThrow(OwnError);
    expect(() => fail('no')).toThrow(/^n/);
    expect(() => fail('no')).not.toThrow(TypeError);
  });
  test('callbacks are called and may throw', () => {
    expect(twice((n) => n + 1, 3)).toBe(5);
    expect(() => twice(() => { throw new RangeError('mine'); }, 1)).toThrow(RangeError);
  });
  test('promises are settled', async () => {
    expect(await later(7)).toBe(7);
    await expect(later(-1)).rejects.toThrow('negative');
    await expect(later(2)).resolves.toBe(2);
  });
  test('changes in place come back', () => {
    const list = [3, 1, 2];
    expect(change(list)).toBe(list);
    expect(list).toEqual([1, 2, 3]);
  });
});
"""
ANSWER = """
export const values = () => [1, -0, 'x', null, undefined, true, 12n, [1, [2]], { a: 1 }];
export class Counter {
  constructor(count) { this.count = count; }
  up() { this.count += 1; return this; }
  *[Symbol.iterator]() { for (let i = 0; i < this.count; i++) yield i; }
  toString() { return `counter of ${this.count}`; }
}
export class OwnError extends Error {}
export const fail = (text) => { throw new OwnError(text); };
export const later = (n) => new Promise((resolve, reject) => setTimeout(() => n < 0 ? reject(new Error('negative'))
  : resolve(n), 3));
export const twice = (f, x) => f(f(x));
export const change = (list) => list.sort();
export const same = (value) => value;
"""


def case(name: str, answer: str, tests: str, *, file: str = "solution.test.js", limits: Limits = LIMITS) -> Case:
    suite = JavaScriptSuite(files={file: tests.encode()})
    return Case(name=name, suite=suite, program=Program(files={"solution.js": answer.encode()}, language="javascript"),
                limits=limits)


def fault_kind(answer: str, tests: str, *, limits: Limits = LIMITS) -> FaultKind | None:
    fault = headline(verdict_of(case("one", answer, tests, limits=limits)))
    return fault and fault.kind


def test_an_honest_module_passes_jest_tests_twice() -> None:
    verdict = verdict_of(case("honest", ANSWER, JEST), confirm=True)
    assert verdict.solved, [t.fault for t in verdict.tests if t.fault]
    assert len(verdict.tests) == 6
    assert verdict.level == "L4"


ADD = "const { add } = require('./solution');\ntest('adds', () => { expect(add(1, 2)).toBe(3); });\n"
WRONG = {
    "wrong value": ("exports.add = () => 4;", FaultKind.ASSERTION_ERROR),
    "wrong type": ("exports.add = () => '3';", FaultKind.ASSERTION_ERROR),
    "an object that says it is three": ("exports.add = () => ({ valueOf: () => 3, equals: () => true });",
                                        FaultKind.ASSERTION_ERROR),
    "a matcher of its own": ("exports.add = () => ({ asymmetricMatch: () => true, $$typeof: Symbol.for('jest') });",
                             FaultKind.ASSERTION_ERROR),
    "throws": ("exports.add = () => { throw new Error('x'); };", FaultKind.RUNTIME_ERROR),
    "throws what looks like a verdict": ("exports.add = () => { throw { message: 'passed', ok: true }; };",
                                         FaultKind.RUNTIME_ERROR),
    "leaves": ("exports.add = () => process.exit(0);", FaultKind.EARLY_EXIT),
    "leaves at once": ("process.exit(0);", FaultKind.EARLY_EXIT),
    "ends with a code": ("process.exit(3);", FaultKind.NONZERO_EXIT),
    "has no such name": ("exports.sub = () => 3;", FaultKind.MISSING_ENTRY_POINT),
    "does not parse": ("exports.add = (a, b => a + b;", FaultKind.SYNTAX_ERROR),
    "lacks a package": ("const x = require('left-pad');", FaultKind.MISSING_DEPENDENCY),
    "recurses": ("exports.add = (a, b) => exports.add(a, b) + 1;", FaultKind.RECURSION_ERROR),
    "forges answers": ("require('fs').writeSync(3, Buffer.from([0, 0, 0, 2, 0x5b, 0x5d])); exports.add = () => 4;",
                       FaultKind.TAMPER),
    "floods": ("require('fs').writeSync(3, Buffer.from([255, 255, 255, 255])); exports.add = () => 4;",
               FaultKind.OUTPUT_LIMIT),
    "hands over what all arrays share": ("exports.add = () => Array.prototype;", FaultKind.WRONG_TYPE),
    "returns too much": ("exports.add = () => 'x'.repeat(9e6);", FaultKind.WRONG_TYPE),
    "patches what it shares with nobody": ("Object.is = () => true; Array.prototype.every = () => true;"
                                           "globalThis.expect = () => ({ toBe() {} }); exports.add = () => 4;",
                                           FaultKind.ASSERTION_ERROR),
}


def test_what_is_wrong_fails_and_has_its_name() -> None:
    verdicts = grade_all([case(name, answer, ADD) for name, (answer, _) in WRONG.items()])
    found = {name: _kind(verdict) for name, verdict in verdicts.items()}
    assert found == {name: kind for name, (_, kind) in WRONG.items()}


def _kind(verdict: Verdict | HouseError) -> FaultKind | str | None:
    if isinstance(verdict, HouseError):
        return str(verdict)
    fault = headline(verdict)
    return "solved" if verdict.solved else fault and fault.kind


def test_an_endless_call_is_a_time_out() -> None:
    limits = Limits(wall_seconds=2.0, cpu_seconds=20.0)
    assert fault_kind("exports.add = () => { for (;;); };", ADD, limits=limits) is FaultKind.TIMEOUT


def test_an_object_never_decides_an_ordering() -> None:
    tests = "const { f } = require('./solution');\ntest('near', () => { const x = f(); "
    tests += "expect(x > 2 && x < 4).toBe(true); });\n"
    sly = "let n = 9; exports.f = () => ({ valueOf: () => (n === 9 ? n-- : 3) , f() {} });"
    assert fault_kind(sly, tests) is FaultKind.WRONG_TYPE
    assert verdict_of(case("plain", "exports.f = () => 3;", tests)).solved


def test_the_constructor_of_a_callback_gives_nothing_away() -> None:
    tests = "const { f } = require('./solution');\ntest('calls', () => { expect(f(() => 1)).toBe(1); });\n"
    reach = "exports.f = (cb) => { try { return cb.constructor('process.exit(0)')() ?? 2; } catch { return 2; } };"
    assert fault_kind(reach, tests) is FaultKind.ASSERTION_ERROR
    touch = "exports.f = (cb) => { cb.secret = 1; return 1; };"
    assert not verdict_of(case("touch", touch, tests)).solved


def test_an_expectation_that_failed_inside_a_callback_stays_failed() -> None:
    tests = "const { f } = require('./solution');\ntest('seen', () => { f((n) => expect(n).toBe(5)); });\n"
    assert verdict_of(case("honest", "exports.f = (cb) => { cb(5); };", tests)).solved
    swallow = "exports.f = (cb) => { try { cb(4); } catch {} };"
    assert fault_kind(swallow, tests) is FaultKind.ASSERTION_ERROR


def test_a_skip_while_it_runs_is_a_failure_and_one_in_the_text_is_no_test() -> None:
    tests = """
const test = require('node:test');
const assert = require('node:assert');
const { add } = require('./solution');
test('adds', () => assert.strictEqual(add(1, 2), 3));
test('gives up', (t) => t.skip());
test.skip('left out', () => assert.fail());
"""
    verdict = verdict_of(case("skips", "exports.add = (a, b) => a + b;", tests))
    assert [(t.id, t.passed) for t in verdict.tests] == [
        ("solution.test.js::adds", Passed.PASSED), ("solution.test.js::gives up", Passed.FAILED)]
    assert verdict.tests[1].fault is not None
    assert verdict.tests[1].fault.kind is FaultKind.SKIPPED_TEST


def test_a_script_of_assertions_is_one_test_and_functions_need_no_export() -> None:
    script = "const { add } = require('./solution');\nconsole.assert(add(1, 2) === 3);\n"
    script += "console.assert(add(2, 2) === 4);\n"
    good = verdict_of(case("good", "const add = (a, b) => a + b;", script))
    assert good.solved
    assert [t.id for t in good.tests] == ["solution.test.js::script"]
    assert fault_kind("function add(a, b) { return 3; }", script) is FaultKind.ASSERTION_ERROR


def test_a_required_test_that_the_file_does_not_register_is_missing() -> None:
    suite = JavaScriptSuite(files={"a.test.js": ADD.encode()}, required=("a.test.js::adds", "a.test.js::subtracts"))
    program = Program(files={"solution.js": b"exports.add = (a, b) => a + b;"}, language="javascript")
    verdict = verdict_of(Case(name="one", suite=suite, program=program))
    assert [t.passed for t in verdict.tests] == [Passed.PASSED, Passed.MISSING]


def test_slow_ways_across_do_not_reorder_the_tests_own_timers() -> None:
    tests = """
const { first } = require('./solution');
test('the shortest is first', async () => {
  const wait = (ms, name) => new Promise((resolve) => setTimeout(() => resolve(name), ms));
  expect(await first([wait(40, 'slow'), wait(20, 'fast')])).toBe('fast');
});
"""
    assert verdict_of(case("race", "exports.first = (all) => Promise.race(all);", tests)).solved


PLAIN_SCRIPT = "const { add } = require('./solution');\nrequire('assert').strictEqual(add(1, 2), 3);\n"
IN_JEST = "const { add } = require('./solution');\ntest('adds', () => { expect(add(1, 2)).toBe(3); });\n"
THROWN = {
    "half a surrogate pair": "new Error('\\ud800\\u0000')",
    "a message that ends the process": "{ get message() { process.exit(0); } }",
    "a code that ends the process": "{ get code() { process.exit(0); } }",
    "a proxy that ends the process":
        "new Proxy({}, { get() { process.exit(0); }, getPrototypeOf() { process.exit(0); } })",
    "a name that throws": "{ get name() { throw this; } }",
}


def test_whatever_an_answer_throws_its_failure_is_laid_on_it_and_not_on_the_house() -> None:
    cases = [
        Case(name=f"{what} in {kind}", limits=LIMITS,
             suite=JavaScriptSuite(files={"add.test.js": tests.encode()}, modules=("solution",)),
             program=Program(files={"solution.js": f"exports.add = () => {{ throw {thrown}; }};".encode()},
                             language="javascript"))
        for what, thrown in THROWN.items() for kind, tests in (("jest", IN_JEST), ("a script", PLAIN_SCRIPT))
    ]
    for name, verdict in grade_all(cases).items():
        assert isinstance(verdict, Verdict) and not verdict.solved, (name, verdict)
        fault = headline(verdict)
        assert fault is not None and fault.owner is Owner.POLICY, (name, fault)
