"""Kinds of one-line work for a shell: how each is asked, what does it, and by which rule its output is checked."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import NamedTuple

Given = Mapping[str, str]

WORDS = (
    "amber", "barn", "birch", "cedar", "coral", "delta", "dune", "ember", "fern", "field", "glade", "grove", "heath",
    "iris", "jade", "kelp", "lark", "moss", "nest", "oak", "pine", "quay", "reed", "sage", "tide", "umber", "vale",
    "wren", "yarrow", "zinc",
)


class Family(NamedTuple):
    """`about` and `command` have the parameters of `parameters_of` in braces. `kind` is that of the input (`input_of`);
    `want` tells the lines that must come out."""

    name: str
    kind: str
    about: tuple[str, ...]
    command: str
    want: Callable[[list[str], Given], list[str]]


def parameters_of(dice: random.Random) -> dict[str, str]:
    """Two words, a number, a column, a letter that some words begin with and some end in, and another."""
    word, other, fresh = dice.sample(WORDS, 3)
    return {"w": word, "v": other, "x": fresh, "n": str(dice.randint(2, 5)), "k": str(dice.randint(1, 3)),
            "c": dice.choice("aerd"), "d": dice.choice("noxz"), **_skipped(dice.randint(1, 4))}


def _skipped(count: int) -> dict[str, str]:
    return {"m": str(count), "next": str(count + 1)}


def input_of(kind: str, dice: random.Random, given: Given) -> list[str]:
    """Lines of input; the words of the parameters come up in them more often than others."""
    count = dice.randint(6, 8)
    often = [given["w"], given["w"], given["v"], *WORDS]
    match kind:
        case "numbers":
            return [str(dice.randint(1, 99)) for _ in range(count)]
        case "phrases":
            return [" ".join(dice.choice(often) for _ in range(dice.randint(2, 3))) for _ in range(count)]
        case "columns":
            return [",".join(dice.choice(WORDS) for _ in range(3)) for _ in range(count)]
        case "repeats":
            few = dice.sample(WORDS, 3)
            return [dice.choice(few) for _ in range(count)]
        case "capitals":
            return [dice.choice(often).upper() for _ in range(count)]
        case _:
            return [dice.choice(often) for _ in range(count)]


def _n(given: Given) -> int:
    return int(given["n"])


FAMILIES = (
    Family("count", "words", ("Count the lines.", "How many lines are there?", "Print the number of lines."), "wc -l",
           lambda rows, g: [str(len(rows))]),
    Family("first", "words",
           ("Print the first {n} lines.", "Show only the top {n} lines.", "Keep {n} lines from the top."),
           "head -n {n}", lambda rows, g: rows[: _n(g)]),
    Family("last", "words",
           ("Print the last {n} lines.", "Show only the bottom {n} lines.", "Keep the last {n} lines."),
           "tail -n {n}", lambda rows, g: rows[-_n(g):]),
    Family("sorted", "words",
           ("Sort the lines.", "Put the lines in alphabetical order.", "Order the lines from a to z."),
           "sort", lambda rows, g: sorted(rows)),
    Family("down", "words", ("Sort the lines in reverse.", "Order the lines from z to a.",
                             "Put the lines in reverse alphabetical order."),
           "sort -r", lambda rows, g: sorted(rows, reverse=True)),
    Family("numeric", "numbers", ("Sort the numbers.", "Order the numbers from small to large.",
                                  "Sort the lines by their number."),
           "sort -n", lambda rows, g: sorted(rows, key=int)),
    Family("numeric-down", "numbers", ("Sort the numbers from large to small.", "Order the numbers, largest first.",
                                       "Sort the numbers in reverse."),
           "sort -rn", lambda rows, g: sorted(rows, key=int, reverse=True)),
    Family("largest", "numbers", ("Print the largest number.", "What is the greatest number?", "Find the maximum."),
           "sort -n | tail -n 1", lambda rows, g: [max(rows, key=int)]),
    Family("smallest", "numbers", ("Print the smallest number.", "What is the least number?", "Find the minimum."),
           "sort -n | head -n 1", lambda rows, g: [min(rows, key=int)]),
    Family("distinct", "repeats", ("Print each different line once, sorted.", "Sort the lines and drop repeated ones.",
                                   "List the distinct lines in order."),
           "sort -u", lambda rows, g: sorted(set(rows))),
    Family("count-distinct", "repeats", ("How many different lines are there?", "Count the distinct lines.",
                                         "Print the number of different lines."),
           "sort -u | wc -l", lambda rows, g: [str(len(set(rows)))]),
    Family("with", "phrases",
           ("Print the lines that contain {w}.", "Show lines with {w}.", "Find lines that have {w}."),
           "grep {w}", lambda rows, g: [row for row in rows if g["w"] in row]),
    Family("without", "phrases", ("Print the lines that do not contain {w}.", "Show lines without {w}.",
                                  "Drop all lines that have {w}."),
           "grep -v {w}", lambda rows, g: [row for row in rows if g["w"] not in row]),
    Family("count-with", "phrases", ("Count the lines that contain {w}.", "How many lines have {w}?",
                                     "Print the number of lines with {w}."),
           "grep -c {w}", lambda rows, g: [str(sum(g["w"] in row for row in rows))]),
    Family("starts", "words", ("Print the lines that start with {c}.", "Show lines beginning with {c}.",
                               "Find the lines whose first letter is {c}."),
           "grep ^{c}", lambda rows, g: [row for row in rows if row.startswith(g["c"])]),
    Family("ends", "words", ("Print the lines that end with {c}.", "Show lines ending in {c}.",
                             "Find the lines whose last letter is {c}."),
           "grep {c}$", lambda rows, g: [row for row in rows if row.endswith(g["c"])]),
    Family("upper", "words", ("Write everything in upper case.", "Turn all letters into capitals.",
                              "Convert the text to upper case."),
           "tr a-z A-Z", lambda rows, g: [row.upper() for row in rows]),
    Family("delete-letter", "words", ("Delete every letter {c}.", "Remove all {c} from the text.",
                                      "Take out each {c}."),
           "tr -d {c}", lambda rows, g: [row.replace(g["c"], "") for row in rows]),
    Family("swap-letter", "words", ("Replace every letter {c} by {d}.", "Change each {c} to {d}.",
                                    "Turn all {c} into {d}."),
           "tr {c} {d}", lambda rows, g: [row.replace(g["c"], g["d"]) for row in rows]),
    Family("swap-word", "phrases", ("Replace {w} by {x} everywhere.", "Change every {w} to {x}.",
                                    "Put {x} wherever {w} stands."),
           "sed s/{w}/{x}/g", lambda rows, g: [row.replace(g["w"], g["x"]) for row in rows]),
    Family("column", "columns",
           ("Print column {k} of the comma separated lines.", "Cut out field {k}, split by commas.",
                                 "Show only comma field {k}."),
           "cut -d, -f{k}", lambda rows, g: [row.split(",")[int(g["k"]) - 1] for row in rows]),
    Family("line", "words", ("Print only line {n}.", "Show line number {n}.", "Give just line {n}."),
           "sed -n {n}p", lambda rows, g: [rows[_n(g) - 1]]),
    Family("drop-line", "words", ("Delete line {n}.", "Print all but line {n}.", "Leave out line number {n}."),
           "sed {n}d", lambda rows, g: [row for at, row in enumerate(rows, 1) if at != _n(g)]),
    Family("backwards", "words", ("Print the lines in reverse order.", "Turn the lines upside down, last line first.",
                                  "Print the lines from the last to the first."),
           "tac", lambda rows, g: rows[::-1]),
    Family("mirrored", "words", ("Reverse the letters of each line.", "Write each line backwards.",
                                 "Mirror every line."),
           "rev", lambda rows, g: [row[::-1] for row in rows]),
    Family("sum", "numbers", ("Print the sum of the numbers.", "Add up all numbers.", "What is the total?"),
           "awk '{{s+=$1}} END {{print s}}'", lambda rows, g: [str(sum(map(int, rows)))]),
    Family("joined", "words", ("Join all lines with commas.", "Put all lines on one line, separated by commas.",
                               "Make one comma separated line."),
           "paste -sd,", lambda rows, g: [",".join(rows)]),
    Family("squeezed", "repeats", ("Drop a line that repeats the line before it.", "Collapse runs of equal lines.",
                                   "Print repeated neighbours once."),
           "uniq", lambda rows, g: [key for key, _ in groupby(rows)]),
)

#: Families that are never trained.
NEW = (
    Family("skipped", "words", ("Print everything after the first {m} lines.", "Skip {m} lines.",
                                "Leave out the first {m} lines."),
           "tail -n +{next}", lambda rows, g: rows[int(g["m"]):]),
    Family("count-words", "phrases", ("Count the words.", "How many words are there?", "Print the number of words."),
           "wc -w", lambda rows, g: [str(sum(len(row.split()) for row in rows))]),
    Family("lower", "capitals", ("Write everything in lower case.", "Turn all capitals into small letters.",
                                 "Convert the text to lower case."),
           "tr A-Z a-z", lambda rows, g: [row.lower() for row in rows]),
    Family("first-letters", "words", ("Print the first {n} letters of each line.", "Cut each line to {n} letters.",
                                      "Keep {n} letters of each line."),
           "cut -c1-{n}", lambda rows, g: [row[: _n(g)] for row in rows]),
    Family("sorted-first", "words", ("Print the first {n} lines in alphabetical order.",
                                     "Sort the lines and keep the top {n}.", "Show the {n} lowest lines, sorted."),
           "sort | head -n {n}", lambda rows, g: sorted(rows)[: _n(g)]),
    Family("largest-few", "numbers", ("Print the {n} largest numbers, largest first.", "Show the top {n} numbers.",
                                      "List the {n} greatest numbers in falling order."),
           "sort -rn | head -n {n}", lambda rows, g: sorted(rows, key=int, reverse=True)[: _n(g)]),
    Family("column-distinct", "columns", ("Print the different values of comma field {k}, sorted.",
                                          "Sort column {k} and drop repeated values, split by commas.",
                                          "List the distinct entries of comma column {k} in order."),
           "cut -d, -f{k} | sort -u", lambda rows, g: sorted({row.split(",")[int(g["k"]) - 1] for row in rows})),
    Family("both", "phrases", ("Print the lines that contain {w} and {v}.", "Show lines with both {w} and {v}.",
                               "Find lines that have {w} as well as {v}."),
           "grep {w} | grep {v}", lambda rows, g: [row for row in rows if g["w"] in row and g["v"] in row]),
)
