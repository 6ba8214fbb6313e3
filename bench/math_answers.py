"""Mathematical answers: the handed pairs and every GSM8K model sample, by our rules and by other checkers.

    .venv/bin/python bench/math_answers.py [--shared DIR] [--quick]

The pairs of cases MA* are asked in both directions (those whose answer is a matter of policy are counted apart). The
GSM8K samples (1,319 questions × 4 models, each with a label of its publishers) are judged from the reply's text; a
disagreement with the label is listed. math-verify is asked the same where it is installed. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path

from _machine import finish

from quintain.grade import Algebra, check_answer, same_answer
from quintain.tasks import AnswerKind, AnswerSuite

SHARED = Path(__file__).resolve().parents[2] / "shared"
MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
Checker = Callable[[str, str], bool]


def pairs_of(shared: Path) -> list[tuple[str, str, bool | str]]:
    return [
        (row["gold"], row["pred"], row["equal"])
        for path in sorted((shared / "cases").glob("MA*/pairs.json")) for row in json.loads(path.read_text())
    ]


def on_pairs(pairs: list[tuple[str, str, bool | str]], same: Checker) -> dict[str, int]:
    decided = [(gold, said, equal) for gold, said, equal in pairs if isinstance(equal, bool)]
    right = sum(same(said, gold) is equal for gold, said, equal in decided)
    back = sum(same(gold, said) is equal for gold, said, equal in decided)
    return {"pairs": len(decided), "right": right, "right_reversed": back, "policy": len(pairs) - len(decided)}


def on_gsm8k(shared: Path, algebra: Algebra, count: int | None) -> dict[str, object]:
    with gzip.open(shared / "data" / "gsm8k" / "example_model_solutions.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file][:count]
    total = agree = right = 0
    apart: list[dict[str, object]] = []
    started = time.process_time()
    for row in rows:
        expected = row["ground_truth"].rpartition("A: ")[2].strip()
        suite = AnswerSuite(expected=expected, kind=AnswerKind.MATH)
        for model in MODELS:
            reply, label = row[model]["solution"], row[model]["is_correct"]
            verdict = check_answer(suite, reply, algebra=algebra)
            total, right = total + 1, right + verdict.solved
            agree += verdict.solved is label
            if verdict.solved is not label:
                apart.append({"expected": expected, "end": reply[-60:], "label": label,
                              "why": [e.text for e in verdict.evidence]})
    for one in apart:
        print(json.dumps(one))
    return {"samples": total, "agree": agree, "disagree": len(apart), "solved": right,
            "cpu_ms_each": round(1000 * (time.process_time() - started) / max(1, total), 3)}


def math_verify() -> Checker | None:
    try:
        library = importlib.import_module("math_verify")
    except ImportError:
        return None

    def same(said: str, gold: str) -> bool:
        one, other = (library.parse(f"${text}$", parsing_timeout=None) for text in (gold, said))
        return bool(library.verify(one, other, timeout_seconds=None))

    return same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--quick", action="store_true", help="the first 100 questions of GSM8K")
    options = parser.parse_args()
    pairs, other = pairs_of(options.shared), math_verify()
    with Algebra() as algebra:
        ours = on_pairs(pairs, lambda said, gold: same_answer(said, gold, algebra=algebra).equal)
        gsm8k = on_gsm8k(options.shared, algebra, 100 if options.quick else None)
    finish(pairs=ours, pairs_math_verify=on_pairs(pairs, other) if other else None, gsm8k=gsm8k)


if __name__ == "__main__":
    main()
