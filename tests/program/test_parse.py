"""What a reply hands in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.program import Answer, parse, parse_answer, without_reasoning
from quintain.program.fences import MAX_NESTING, find_blocks
from quintain.types import Entry, Fault, FaultKind, Finish

ADD = "def add(a, b):\n    return a + b\n"
ENTRY = Entry(name="add")


def code(reply: str, entry: Entry = ENTRY, **options: object) -> str:
    answer = parse(reply, entry, **options)  # type: ignore[arg-type]
    assert isinstance(answer, Answer), answer
    return answer.files[entry.path].decode("utf-8", "surrogatepass")


def fault(reply: str, entry: Entry = ENTRY, **options: object) -> FaultKind:
    found = parse(reply, entry, **options)  # type: ignore[arg-type]
    assert isinstance(found, Fault), found
    return found.kind


def test_of_two_blocks_that_define_the_name_the_last_wins() -> None:
    assert code(f"```python\ndef add(a, b):\n    pass\n```\nBetter:\n```python\n{ADD}```\n") == ADD


def test_without_a_name_the_last_block_of_the_language_wins() -> None:
    reply = f"```python\n{ADD}```\n```python\nprint(1)\n```\n```\n1\n```\n```bash\npython solution.py\n```\n"
    assert code(reply, Entry()) == "print(1)\n"


def test_a_fence_with_four_marks_holds_fences_with_three() -> None:
    assert code(f"````markdown\n```python\n{ADD}```\n````\n") == ADD


def test_a_fence_in_a_docstring_does_not_end_the_block() -> None:
    body = 'def add(a, b):\n    """\n    ```python\n    add(1, 2)\n    ```\n    """\n    return a + b\n'
    assert code(f"```python\n{body}```\n") == body
    flush = 'DOC = """\n```python\nadd(1, 2)\n```\n"""\n' + ADD
    assert code(f"```python\n{flush}```\n") == flush


def test_an_unclosed_block_of_a_finished_reply_is_the_answer_and_noted() -> None:
    answer = parse(f"```python\n{ADD}", ENTRY)
    assert isinstance(answer, Answer)
    assert answer.files["solution.py"].decode() == ADD
    assert any("never closed" in note for note in answer.notes)


def test_a_block_that_is_not_closed_ends_where_the_next_one_opens() -> None:
    assert code(f"```python\n{ADD}```python\nprint(add(1, 2))\n```\n") == ADD


def test_a_closing_fence_at_the_end_of_a_code_line_closes() -> None:
    assert code("```python\ndef add(a, b):\n    return a + b```\nDone.") == ADD


def test_only_a_closing_fence_is_understood_without_the_prompts_help() -> None:
    assert code(f"{ADD}```\nThis adds.\n") == ADD
    assert code(f"{ADD}```\nUse:\n```python\nprint(add(1, 2))\n```\n") == ADD


def test_a_prompt_that_opened_the_fence_does_not_open_a_second_one() -> None:
    assert code(f"```python\n{ADD}```\n", prompt_opened_fence=True) == ADD
    assert code(f"<think>hm</think>{ADD}```\n", prompt_opened_fence=True) == ADD


def test_text_without_a_fence_is_taken_whole_when_it_is_code() -> None:
    assert code(ADD) == ADD
    assert code("#!/bin/sh\nls\n", Entry(path="run.sh", language="shell")) == "#!/bin/sh\nls\n"


@pytest.mark.parametrize("reply", [
    "I cannot do this.", "```bash\nls\n```", "```json\n{}\n```", "```python\n```\nempty",
])
def test_a_reply_without_code_is_no_code(reply: str) -> None:
    assert fault(reply) is FaultKind.NO_CODE


@pytest.mark.parametrize("reply", ["", "  \n\t\n", "<think>I have an idea</think>\n"])
def test_an_empty_reply_is_no_answer(reply: str) -> None:
    assert fault(reply) is FaultKind.NO_ANSWER
    assert fault(reply, finish=Finish.LENGTH) is FaultKind.TRUNCATED


@pytest.mark.parametrize("reply", [
    "<think>so", "I will now", ADD, "```python\ndef add(a", "```json\n{}\n```\nand",
])
def test_what_the_token_limit_cut_is_truncated(reply: str) -> None:
    assert fault(reply, finish=Finish.LENGTH) is FaultKind.TRUNCATED


def test_an_answer_that_was_finished_before_the_cut_counts() -> None:
    answer = parse(f"```python\n{ADD}```\nUse:\n```python\nprint(ad", ENTRY, finish=Finish.LENGTH)
    assert isinstance(answer, Answer)
    assert answer.files["solution.py"].decode() == ADD
    assert any("cut the reply after" in note for note in answer.notes)


def test_thinking_tags_in_code_stay_in_the_code() -> None:
    body = 'import re\ndef add(a, b):\n    return re.sub(r"<think>.*?</think>", "", a) + b\n'
    assert code(f"```python\n{body}```\n") == body
    text = 'P = """<think>\nsteps\n</think>\n"""\n' + ADD
    assert code(f"```python\n{text}```\n") == text


def test_nested_thinking_tags_leave_no_reasoning_behind() -> None:
    spoken = without_reasoning("<think> a <think> b </think> c </think> answer")
    assert (spoken.text.strip(), spoken.unclosed) == ("answer", False)


@pytest.mark.parametrize("pair", [("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"), ("<THINK>", "</think>")])
def test_other_thinking_tags_are_known(pair: tuple[str, str]) -> None:
    assert code(f"{pair[0]}```python\ndef add(): 0\n```{pair[1]}\n```python\n{ADD}```\n") == ADD


def test_a_mention_of_a_thinking_tag_is_no_reasoning() -> None:
    assert code(f"I use no `<think>` here.\n```python\n{ADD}```\n") == ADD


def test_files_with_their_own_names_come_along() -> None:
    reply = (
        f"### `helper.py`\n\n```python\nX = 1\n```\n```python title=\"solution.py\"\n{ADD}```\n"
        "**data/a.json**:\n```json\n{}\n```\n```python\n# file: pkg/b.py\nY = 2\n```\n"
        "```yaml file=conf.yml\na: 1\n```\n"
    )
    answer = parse(reply, ENTRY)
    assert isinstance(answer, Answer)
    assert answer.files == {
        "helper.py": b"X = 1\n", "solution.py": ADD.encode(), "data/a.json": b"{}\n",
        "pkg/b.py": b"# file: pkg/b.py\nY = 2\n", "conf.yml": b"a: 1\n",
    }


def test_one_block_becomes_the_entry_file_whatever_its_title() -> None:
    answer = parse(f'```python title="a.py"\n{ADD}```\n', ENTRY)
    assert isinstance(answer, Answer)
    assert list(answer.files) == ["solution.py"]


def test_a_file_name_as_the_tag_is_a_path() -> None:
    answer = parse(f"```src/util.py\nX = 1\n```\n```python:solution.py\n{ADD}```\n", ENTRY)
    assert isinstance(answer, Answer)
    assert answer.files == {"src/util.py": b"X = 1\n", "solution.py": ADD.encode()}


def test_a_diff_is_a_patch_with_or_without_a_fence() -> None:
    diff = "--- a/solution.py\n+++ b/solution.py\n@@ -1 +1 @@\n-x\n+y\n"
    for reply in (f"Fix:\n```diff\n{diff}```\nDone.", f"Fix:\n{diff}", f"```\n{diff}```\n"):
        answer = parse(reply, ENTRY)
        assert isinstance(answer, Answer), reply
        assert answer.patch is not None and diff in answer.patch
    assert fault(f"```diff\n{diff[:-4]}", finish=Finish.LENGTH) is FaultKind.TRUNCATED


def test_a_block_in_a_quotation_loses_its_marks() -> None:
    quoted = "".join(f"> {line}\n" for line in f"```python\n{ADD}```".split("\n"))
    assert code(quoted) == ADD


def test_text_is_never_repaired() -> None:
    body = "def add(a, b):\r\n\u00a0   return \u201ca\u201d + b &amp; \u200b\ud800\n"
    assert code(f"```python\n{body}```\n") == body


def test_other_languages_are_rows_of_the_table() -> None:
    entry = Entry(path="a.js", name="add", language="javascript")
    assert code("```js\nconst add = (a, b) => a + b;\n```\n```js\nadd(1, 2);\n```\n", entry).startswith("const add")
    with pytest.raises(ValueError, match="expected a language"):
        parse("x", Entry(language="cobol"))


@pytest.mark.parametrize(("reply", "found"), [
    ("<answer>1</answer> <answer>2", "1"), ("<think><answer>9</answer></think><answer> 4\n</answer>", "4"),
    ("<answer><answer>5</answer>", "5"), ("</answer>6<answer>7</answer>", "7"),
])
def test_the_last_complete_answer_outside_reasoning_counts(reply: str, found: str) -> None:
    assert parse_answer(reply) == found


def test_no_complete_answer_tag_is_no_answer() -> None:
    for reply in ("42", "<answer>42", "<think><answer>1</answer>"):
        missing = parse_answer(reply)
        assert isinstance(missing, Fault) and missing.kind is FaultKind.NO_ANSWER


PIECES = st.sampled_from([
    "```", "````", "~~~", "```python\n", "```md\n", "\n", "\r\n", " ", "    ", "> ", "- ", "<think>", "</think>",
    "def add(a):\n", ">>> add", "--- a/x\n", "+++ b/x\n", "@@ -1 +1 @@\n",
    "# file: ../a.py\n", "title=\"a\"", "\ud800", "\x00", "`",
    "1. ",
])


@given(st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join)), st.booleans(), st.sampled_from(Finish))
def test_parse_never_raises(reply: str, opened: bool, finish: Finish) -> None:
    found = parse(reply, ENTRY, prompt_opened_fence=opened, finish=finish)
    assert isinstance(found, Fault) or found.patch is not None or "solution.py" in found.files
    parse_answer(reply, finish=finish)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_blocks_hold_no_more_than_the_reply(reply: str) -> None:
    blocks = find_blocks(reply)
    assert sum(len(b.text) for b in blocks) <= len(reply) + len(blocks)
    assert [b.line for b in blocks] == sorted(b.line for b in blocks)


def test_a_flood_of_marks_is_read_once() -> None:
    million = 1 << 20
    assert fault("`" * million) is FaultKind.NO_CODE
    assert fault("<think>" * (million // 7)) is FaultKind.NO_ANSWER
    assert fault("</think>" * (million // 8)) is FaultKind.NO_ANSWER
    assert len(find_blocks("```md\n" * 1000)) <= MAX_NESTING


def test_a_heading_that_is_no_relative_path_names_no_file() -> None:
    answer = parse(f"## 3.11\n```python\nX = 1\n```\nFile: /etc/hosts\n```text\na\n```\n```python\n{ADD}```\n", ENTRY)
    assert isinstance(answer, Answer)
    assert list(answer.files) == ["solution.py"]


def test_only_a_closing_thinking_tag_makes_all_before_it_reasoning() -> None:
    decoy = "```python\ndef add(a, b):\n    return 0\n```\n"
    assert code(f"Maybe {decoy}no.\n</think>\n```python\n{ADD}```\n") == ADD
    assert fault(f"{decoy}hmm</think>\nI give up.") is FaultKind.NO_CODE


def test_a_bare_fence_deep_in_the_code_does_not_end_the_block() -> None:
    body = 'def add(a, b):\n    """\n    ```\n    3\n    ```\n    """\n    return a + b\n'
    assert code(f"```python\n{body}```\n") == body
