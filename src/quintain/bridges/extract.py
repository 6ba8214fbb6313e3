"""Extracts of a library as files: JSON lines, Parquet that Hugging Face's datasets reads, ATIF documents.

Each row of an extract is flat: what a trainer reads under the names that TRL has for it, then `task`, `episode`, `run`,
`reward` and what else says where it comes from.
Parquet needs pyarrow (the extra `library`); columns have fixed types, whatever a particular row leaves out.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from quintain.bridges.atif import Version, write_atif
from quintain.bridges.atif_log import to_atif
from quintain.bridges.conversations import (
    DEFAULT,
    Choosing,
    DpoRow,
    Facts,
    KtoRow,
    MessagesRow,
    SftRow,
    Side,
    conversations,
    dpo_rows,
    kto_rows,
    messages_rows,
    sft_rows,
)
from quintain.types import Event, Opened

#: (run, episode's log)
Logs = Iterable[tuple[str, Sequence[Event]]]
Row = dict[str, Any]  # plain JSON, on its way into a file
BATCH = 1_000


def rows(kind: str, logs: Logs, choosing: Choosing = DEFAULT) -> Iterator[Row]:
    """The rows of an extract: `messages`, `sft`, `dpo` or `kto`. Raises ValueError for another kind."""
    if kind not in KINDS:
        raise ValueError(f"expected one of {', '.join(KINDS)}, found {kind!r}")
    return KINDS[kind](logs, choosing)


def _messages(logs: Logs, choosing: Choosing) -> Iterator[Row]:
    return map(_flat_messages, messages_rows(conversations(logs, masked=choosing.masked), choosing))


def _sft(logs: Logs, choosing: Choosing) -> Iterator[Row]:
    return map(_flat_sft, sft_rows(conversations(logs, masked=choosing.masked), choosing))


def _dpo(logs: Logs, choosing: Choosing) -> Iterator[Row]:
    return map(_flat_dpo, dpo_rows(conversations(logs, masked=choosing.masked), choosing))


def _kto(logs: Logs, choosing: Choosing) -> Iterator[Row]:
    return map(_flat_kto, kto_rows(conversations(logs, masked=choosing.masked), choosing))


KINDS: Mapping[str, Callable[[Logs, Choosing], Iterator[Row]]] = {
    "messages": _messages, "sft": _sft, "dpo": _dpo, "kto": _kto,
}


def _flat_messages(row: MessagesRow) -> Row:
    return {"messages": _plain(row.messages), **_facts(row.facts)}


def _flat_sft(row: SftRow) -> Row:
    return {"messages": _plain(row.messages), "token_ids": _plain(row.token_ids), "loss_mask": _plain(row.loss_mask),
            "logprobs": _plain(row.logprobs), "row": row.row, **_facts(row.facts)}


def _flat_dpo(row: DpoRow) -> Row:
    return {"prompt": _plain(row.prompt), "chosen": _plain(row.chosen), "rejected": _plain(row.rejected),
            "margin": row.margin, "task": row.chosen_side.facts.task, **_side("chosen_", row.chosen_side),
            **_side("rejected_", row.rejected_side)}


def _flat_kto(row: KtoRow) -> Row:
    side = row.side
    return {"prompt": _plain(row.prompt), "completion": _plain(row.completion), "label": row.label,
            "token_ids": _plain(side.token_ids), "loss_mask": _plain(side.loss_mask),
            "logprobs": _plain(side.logprobs), **_facts(side.facts)}


def _side(prefix: str, side: Side) -> Row:
    return {f"{prefix}token_ids": _plain(side.token_ids), f"{prefix}loss_mask": _plain(side.loss_mask),
            f"{prefix}logprobs": _plain(side.logprobs), f"{prefix}run": side.facts.run,
            f"{prefix}episode": side.facts.episode, f"{prefix}reward": side.facts.reward}


def _facts(facts: Facts) -> Row:
    found: Row = msgspec.to_builtins(facts)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _plain(value: tuple[object, ...] | None) -> Any:
    return list(msgspec.to_builtins(value)) if value is not None else None


def write_jsonl(path: Path, made: Iterable[Row]) -> int:
    """One JSON object a line; how many. The file is whole or not there."""
    draft = path.with_name(f".{path.name}.draft")
    count = 0
    with draft.open("wb") as stream:
        for row in made:
            stream.write(_line(row) + b"\n")
            count += 1
    draft.replace(path)
    return count


def _line(row: Row) -> bytes:
    try:
        return msgspec.json.encode(row)
    except UnicodeEncodeError:  # a lone surrogate: as a \\u escape, which is JSON though no UTF-8
        return json.dumps(row, separators=(",", ":"), allow_nan=False).encode("ascii")


def write_parquet(path: Path, kind: str, made: Iterable[Row]) -> int:
    """The rows of an extract as one Parquet file (zstd); how many. What is no Unicode is replaced by U+FFFD, for Arrow
    has no other text. Raises ImportError where pyarrow is not installed, ValueError for an unknown kind."""
    import pyarrow
    import pyarrow.parquet

    schema = arrow_schema(kind)
    draft = path.with_name(f".{path.name}.draft")
    count = 0
    left = iter(made)
    with pyarrow.parquet.ParquetWriter(draft, schema, compression="zstd") as writer:
        while batch := [_unicode(row) for row in islice(left, BATCH)]:
            writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))
            count += len(batch)
    draft.replace(path)
    return count


def arrow_schema(kind: str) -> Any:
    """The columns of an extract, as a pyarrow.Schema."""
    import pyarrow as pa

    text, ids, numbers = pa.string(), pa.list_(pa.int64()), pa.list_(pa.float64())
    said = pa.list_(pa.struct([("role", text), ("content", text), ("reasoning_content", text)]))
    facts = {"run": text, "episode": text, "task": text, "group": text, "attempt": pa.int64(), "policy": text,
             "policy_versions": pa.list_(text), "reward": pa.float64(), "solved": pa.bool_(), "trainable": text,
             "stop": text, "faults": pa.list_(text)}
    tokens = {"token_ids": ids, "loss_mask": pa.list_(pa.int8()), "logprobs": numbers}
    side = {**tokens, "run": text, "episode": text, "reward": pa.float64()}
    columns: dict[str, dict[str, Any]] = {
        "messages": {"messages": said, **facts},
        "sft": {"messages": said, **tokens, "row": pa.int64(), **facts},
        "dpo": {"prompt": said, "chosen": said, "rejected": said, "margin": pa.float64(), "task": text,
                **{f"{name}_{part}": kind for name in ("chosen", "rejected") for part, kind in side.items()}},
        "kto": {"prompt": said, "completion": said, "label": pa.bool_(), **tokens, **facts},
    }
    if kind not in columns:
        raise ValueError(f"expected one of {', '.join(columns)}, found {kind!r}")
    return pa.schema(list(columns[kind].items()), metadata={"quintain": f"extract {kind} 1"})


def _unicode(value: Any) -> Any:
    """The same with every text as Arrow can hold it."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {key: _unicode(one) for key, one in value.items()}
    if isinstance(value, list | tuple) and value and not isinstance(value[0], int | float):
        return [_unicode(one) for one in value]
    return value


def write_documents(folder: Path, logs: Logs, *, version: Version = "ATIF-v1.8") -> int:
    """One ATIF document for each attempt of the logs; how many. All attempts are in, broken ones too: an archive
    leaves nothing out."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for run, log in logs:
        starts = [at for at, event in enumerate(log) if isinstance(event, Opened)]
        for start, end in zip(starts, [*starts[1:], len(log)], strict=True):
            document = to_atif(log[start:end], run=run, version=version)
            (folder / _file_name(run, document.trajectory_id or "")).write_bytes(write_atif(document))
            count += 1
    return count


def _file_name(run: str, name: str) -> str:
    """A name that no id can lead astray, and that no two share."""
    digest = hashlib.sha256(f"{run}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.')[:80] or 'trajectory'}-{digest}.json"
