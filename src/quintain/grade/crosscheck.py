"""Two judges of one answer: the suite that shares its interpreter, and black-box tests that do not."""

from __future__ import annotations

import msgspec

from quintain.types import CLASS_OF, Evidence, Fault, FaultKind, Owner, Verdict


def cross_checked(inner: Verdict, outer: Verdict) -> Verdict:
    """The inner verdict (L3) in the light of an outer one (L4) of the same answer.

    Both solved, or both not: the inner, with the other as evidence. One of them solved: `judges_disagree`, which is
    masked and goes to a person, never paid; unless one saw tampering, or was not the policy's to answer for, and that
    stands as it is.
    """
    told = Evidence(source="cross-check", text=(
        f"{inner.level} {_word(inner)} {inner.share:.2f}, {outer.level} {_word(outer)} {outer.share:.2f}"))
    for verdict in (inner, outer):
        fault = verdict.fault
        if fault is not None and (CLASS_OF[fault.kind] == "G" or fault.owner is not Owner.POLICY):
            return msgspec.structs.replace(verdict, evidence=(*verdict.evidence, told))
    if inner.solved is outer.solved:
        return msgspec.structs.replace(inner, evidence=(*inner.evidence, told))
    fault = Fault(owner=Owner.HOUSE, kind=FaultKind.JUDGES_DISAGREE, message=told.text)
    return msgspec.structs.replace(inner, fault=fault, evidence=(*inner.evidence, told))


def _word(verdict: Verdict) -> str:
    return "solved" if verdict.solved else "not solved"
