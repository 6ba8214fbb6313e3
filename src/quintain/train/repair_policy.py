"""The repairing policy: a small network from scratch that reads a faulty program and ranks the edits of one token."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from quintain.train.repair_features import (
    CHANGES,
    MOST_WORDS,
    RELATIONS,
    ROLES,
    USES,
    VOCABULARY,
    WORDS,
    Features,
    renumbered,
)

_CLOSED = -1e9
_PLACES = 192
#: In so many wordings a program is read where one edit must be chosen.
WORDINGS = 4


class Batch:
    """Features of B cases as padded tensors: [B, L] tokens, [B, W] words, [B, C] edits."""

    def __init__(self, rows: Sequence[Features]) -> None:
        long = max(len(row.tokens_L) for row in rows)
        wide = max(len(row.sites_C) for row in rows)
        self.tokens = _padded([row.tokens_L for row in rows], long)
        self.indents = _padded([row.indents_L for row in rows], long)
        self.columns = _padded([row.columns_L for row in rows], long)
        self.marks = _padded([row.marks_L for row in rows], long)
        self.changes = _padded([row.changes_L for row in rows], long)
        self.roles = _padded([row.roles_L for row in rows], long)
        self.uses = _padded([row.uses_L for row in rows], long)
        self.put_roles = _padded([row.put_roles_C for row in rows], wide)
        self.put_uses = _padded([row.put_uses_C for row in rows], wide)
        self.words = _padded([row.words_W for row in rows], MOST_WORDS)
        self.sites = _padded([row.sites_C for row in rows], wide)
        self.puts = _padded([row.puts_C for row in rows], wide)
        self.relations = _padded([row.relations_C for row in rows], wide)
        self.open = _padded([[int(o) for o in row.open_C] for row in rows], wide).bool()


class RepairNet(nn.Module):
    """A bidirectional encoder over description, program and what its tests said, and a score for each edit.

    `forward` gives log-probabilities over the candidate edits, shape [B, C]; an edit that is padding or was tried
    before has one of about −1e9.
    """

    def __init__(self, *, width: int = 96, layers: int = 2, heads: int = 4, drop: float = 0.0) -> None:
        super().__init__()
        self.token = nn.Embedding(len(VOCABULARY), width)
        self.word = nn.Embedding(WORDS, width)
        self.place = nn.Embedding(_PLACES, width)
        self.indent = nn.Embedding(8, width)
        self.column = nn.Embedding(48, width)
        self.mark = nn.Embedding(2, width)
        self.change = nn.Embedding(len(CHANGES), width)
        self.role = nn.Embedding(len(ROLES), width)
        self.use = nn.Embedding(len(USES), width)
        self.relation = nn.Embedding(len(RELATIONS), width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, drop, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(nn.Linear(3 * width, width), nn.GELU(), nn.Linear(width, 1))
        self.query = nn.Linear(width, width)
        for part in self.modules():
            if isinstance(part, nn.Embedding):
                nn.init.normal_(part.weight, 0.0, 0.05)

    def forward(self, batch: Batch) -> Tensor:
        words, tokens = batch.words, batch.tokens
        places = torch.arange(tokens.shape[1]).clamp(max=_PLACES - 1)
        code = (self.token(tokens) + self.place(places) + self.indent(batch.indents) + self.column(batch.columns)
                + self.mark(batch.marks) + self.change(batch.changes) + self.role(batch.roles)
                + self.use(batch.uses))
        read = torch.cat([self.word(words), code], dim=1)
        unread = torch.cat([words == 0, tokens == 0], dim=1)
        hidden = self.norm(self.encoder(read, src_key_padding_mask=unread))[:, words.shape[1]:]
        at = batch.sites[:, :, None].expand(-1, -1, hidden.shape[-1])
        site = hidden.gather(1, at)
        old = self.token(tokens.gather(1, batch.sites))
        new = (self.token(batch.puts) + self.relation(batch.relations) + self.role(batch.put_roles)
               + self.use(batch.put_uses))
        score = self.head(torch.cat([site, new, old], dim=-1))[..., 0]
        score = score + (self.query(site) * new).sum(-1) / hidden.shape[-1] ** 0.5
        return functional.log_softmax(score.masked_fill(~batch.open, _CLOSED), dim=-1)


def likeliest(net: RepairNet, rows: Sequence[Features]) -> list[int]:
    """The edit of each row with the greatest mean log-probability over WORDINGS numberings of the program's variables,
    always the same ones. Training numbers them at random each time: no numbering means more than another."""
    found: list[int] = []
    with torch.no_grad():
        for first in range(0, len(rows), 64):
            part = rows[first: first + 64]
            dice = [random.Random(nth) for nth in range(WORDINGS)]
            logp = torch.stack([net(Batch([renumbered(row, one) for row in part])) for one in dice])
            found += logp.mean(0).argmax(1).tolist()
    return found


def _padded(rows: Sequence[Sequence[int]], width: int) -> Tensor:
    return torch.tensor([[*row, *([0] * (width - len(row)))] for row in rows], dtype=torch.long)
