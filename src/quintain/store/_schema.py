"""The library's tables: their columns, their version, and how older ones become those of today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quintain.types import FaultKind, HouseError

if TYPE_CHECKING:
    import pyarrow

#: Of the columns below; each Parquet file carries the version that it was written by.
SCHEMA = 3
VERSION_KEY = b"quintain.schema"
TABLE_KEY = b"quintain.table"

_HEAD = "run:str day:str kind:str episode:str attempt:int"

#: Every column with its type: str, int, float, bool, json (text), ints, floats, strs (lists).
COLUMNS: dict[str, str] = {
    "episodes": f"{_HEAD} task:str task_version:str group:str policy:str seed:int opened_unix_seconds:float stop:str "
    "standing:str outcome:str solved:bool reward:float trainable:str suite:str level:str build:str verdict_runs:int "
    "tests:int tests_passed:int turns:int prompt_tokens:int output_tokens:int seconds:float cpu_seconds:float "
    "peak_memory_bytes:int fault:str fault_owner:str fault_message:str flags:int hard_flags:int policy_versions:strs "
    "first_index:int last_index:int bytes:int",
    "steps": f"{_HEAD} step:int task:str policy_version:str prompt_token_ids:ints output_token_ids:ints "
    "logprobs:floats prompt_tokens:int output_tokens:int mean_logprob:float "
    "text:str reasoning:str finish:str program:json submitted:bool notes:strs state_hash:str "
    "status:str exit_code:int stdout:str stderr:str wall_seconds:float cpu_seconds:float peak_memory_bytes:int "
    "feedback:str fault:str reward:float solved:bool final:bool at_seconds:float seconds:float first_index:int "
    "last_index:int blobs:json",
    "scores": f"{_HEAD} step:int final:bool name:str value:float weight:float contribution:float evidence:str",
    "flags": f"{_HEAD} step:int final:bool detector:str severity:str evidence:str",
    "events": "run:str day:str kind:str episode:str index:int event:str at_seconds:float body:json blobs:json",
}
TABLES = tuple(COLUMNS)

#: By table: what each version added to the one before. A file of an older version has nothing (NULL) there.
ADDED: dict[str, dict[int, str]] = {
    "episodes": {2: "bytes:int"}, "steps": {3: "prompt_tokens:int output_tokens:int mean_logprob:float"},
}
#: What an older file has all the same, by another name.
_DERIVED = {
    "prompt_tokens": "len(prompt_token_ids)", "output_tokens": "len(output_token_ids)",
    "mean_logprob": "list_avg(logprobs)",
}

#: Not in Parquet files: one row for each run folder, and for each that was there when it was last compacted.
RUNS = (
    "run:str taskset:str taskset_digest:str policy:str size:int seed:int sandboxes:int backend:str code_version:str "
    "created_unix_seconds:float options:json environment:json ended:bool episodes:int solved:int reward:float "
    "seconds:float"
)


def names(table: str) -> tuple[str, ...]:
    """The columns of a table, in order."""
    return tuple(name for name, _ in _pairs(COLUMNS.get(table, RUNS)))


def arrow_schema(table: str) -> pyarrow.Schema:
    """The Arrow schema of a table, its version in the metadata."""
    import pyarrow

    kinds: dict[str, Any] = {
        "str": pyarrow.string(), "json": pyarrow.string(), "int": pyarrow.int64(), "float": pyarrow.float64(),
        "bool": pyarrow.bool_(), "ints": pyarrow.list_(pyarrow.int32()), "floats": pyarrow.list_(pyarrow.float64()),
        "strs": pyarrow.list_(pyarrow.string()),
    }
    fields = [pyarrow.field(name, kinds[kind]) for name, kind in _pairs(COLUMNS.get(table, RUNS))]
    return pyarrow.schema(fields, metadata={VERSION_KEY: str(SCHEMA).encode(), TABLE_KEY: table.encode()})


def as_today(table: str, version: int) -> str:
    """What to select from a file of an older version so that its columns are today's.

    Raises HouseError(STORE_ERROR) for a version that is newer than this code.
    """
    sql = {"int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN", "ints": "INTEGER[]", "floats": "DOUBLE[]",
           "strs": "VARCHAR[]"}
    if not 1 <= version <= SCHEMA:
        raise HouseError(
            FaultKind.STORE_ERROR,
            f"a file of {table} has schema {version}; this version of quintain reads 1 to {SCHEMA}: use a newer one",
        )
    added = [pair for at, text in ADDED.get(table, {}).items() if at > version for pair in _pairs(text)]
    return ", ".join(["*", *(f"CAST({_DERIVED.get(name, 'NULL')} AS {sql.get(kind, 'VARCHAR')}) AS {name}"
                             for name, kind in added)])


def lifted(table: str, content: pyarrow.Table) -> pyarrow.Table:
    """Rows of a file of any version as those of today's."""
    import pyarrow

    schema = arrow_schema(table)
    columns = [content[field.name] if field.name in content.column_names else _derived(field, content)
               for field in schema]
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _derived(field: pyarrow.Field, content: pyarrow.Table) -> pyarrow.Array | pyarrow.ChunkedArray:
    import pyarrow
    import pyarrow.compute

    if field.name == "mean_logprob":
        means = (sum(each) / len(each) if each else None for each in content["logprobs"].to_pylist())
        return pyarrow.array(list(means), type=field.type)
    if field.name.endswith("_tokens"):
        lengths = pyarrow.compute.list_value_length(content[field.name.replace("_tokens", "_token_ids")])
        return lengths.cast(field.type)
    return pyarrow.nulls(content.num_rows, field.type)


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, _, kind in (word.partition(":") for word in text.split())]
