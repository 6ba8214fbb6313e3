"""Rows of a group as one sequence: what they have in common is read once, and each row goes on from it alone.

A group of G replies to one prompt has G copies of the prompt; here there is one, and a mask of attention in which a
token sees the common part, and of the rest its own row only. The log-probabilities are those of separate rows, for a
fraction of the work where prompts are longer than replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from quintain.train.trajectory import Trajectory


class Packed:
    """One sequence of N tokens with M sampled ones among them. [N]: `ids`, `positions`, `segments` (0 is common). [M]:
    `sources` (where the prediction of a sampled token is read), `targets` (the token), `rows` (whose it is)."""

    def __init__(self, rows: Sequence[tuple[Sequence[int], Sequence[bool]]]) -> None:
        common = _common([ids for ids, _ in rows], [mask for _, mask in rows])
        self.ids = list(rows[0][0][:common])
        self.positions = list(range(common))
        self.segments = [0] * common
        self.sources: list[int] = []
        self.targets: list[int] = []
        self.rows: list[int] = []
        for nth, (ids, mask) in enumerate(rows):
            last = common - 1
            for at in range(common, len(ids)):
                if mask[at]:
                    self.sources.append(last)
                    self.targets.append(ids[at])
                    self.rows.append(nth)
                last = len(self.ids)
                self.ids.append(ids[at])
                self.positions.append(at)
                self.segments.append(nth + 1)


def packed(rows: Sequence[Trajectory]) -> Packed:
    """Rows of one group. Raises ValueError for none, and for a row whose first token was sampled."""
    return Packed([(row.token_ids, row.loss_mask) for row in rows])


def logits_of(model: Any, one: Packed) -> Tensor:
    """Logits [M, V] of the sampled tokens, by a causal language model of transformers."""
    device = next(model.parameters()).device
    segments, order = torch.tensor(one.segments, device=device), torch.arange(len(one.ids), device=device)
    seen = (order[None] <= order[:, None]) & ((segments[None] == 0) | (segments[None] == segments[:, None]))
    bias = torch.zeros(seen.shape, device=device, dtype=next(model.parameters()).dtype)
    bias.masked_fill_(~seen, torch.finfo(bias.dtype).min)
    hidden = model.get_decoder()(
        input_ids=torch.tensor([one.ids], device=device), position_ids=torch.tensor([one.positions], device=device),
        attention_mask=bias[None, None], use_cache=False).last_hidden_state[0]
    logits: Tensor = model.get_output_embeddings()(hidden[torch.tensor(one.sources, device=device)])
    return logits.float()


def _common(ids: Sequence[Sequence[int]], masks: Sequence[Sequence[bool]]) -> int:
    """How many tokens all rows begin with, none of them sampled."""
    if not ids:
        raise ValueError("expected at least one row, found none")
    longest = min(map(len, ids))
    common = 0
    while common < longest and len({row[common] for row in ids}) == 1 and not any(mask[common] for mask in masks):
        common += 1
    if not common:
        raise ValueError("expected rows that begin with a token of their prompt in common, found others")
    return common
