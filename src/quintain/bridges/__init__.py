"""Other people's formats and protocols, each in a module of its own."""

from quintain.bridges.atif import AtifTrajectory, check_atif, read_atif, write_atif
from quintain.bridges.atif_log import from_atif, to_atif
from quintain.bridges.conversations import (
    Choosing,
    Conversation,
    DpoRow,
    KtoRow,
    MessagesRow,
    SftRow,
    conversations,
    dpo_rows,
    kto_rows,
    messages_rows,
    sft_rows,
)
from quintain.bridges.extract import arrow_schema, rows, write_documents, write_jsonl, write_parquet
from quintain.bridges.gymnasium import gymnasium_environment
from quintain.bridges.harbor_results import read_trials, write_trials
from quintain.bridges.nemo import nemo_rows, nemo_server
from quintain.bridges.openenv import openenv_app

__all__ = [
    "AtifTrajectory", "Choosing", "Conversation", "DpoRow", "KtoRow", "MessagesRow", "SftRow", "arrow_schema",
    "check_atif", "conversations", "dpo_rows", "from_atif", "gymnasium_environment", "kto_rows", "messages_rows",
    "nemo_rows", "nemo_server", "openenv_app", "read_atif", "read_trials", "rows", "sft_rows", "to_atif",
    "write_atif", "write_documents", "write_jsonl", "write_parquet", "write_trials",
]
