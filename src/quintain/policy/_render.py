"""From a conversation to token ids by a tokenizer's chat template, without ever encoding again what was sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quintain.types import Message

#: Stands for a reply while the text around it is rendered; no template takes it for markup.
_MARK = "\u2e28reply\u2e29"


class Renderer:
    """Renders conversations with a Hugging Face tokenizer that has a chat template. `end_ids` are the ids that end a
    reply. Raises ValueError for a tokenizer without a template."""

    def __init__(self, tokenizer: Any) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise ValueError(f"expected a tokenizer with a chat template, found {type(tokenizer).__name__} without one")
        self._tokenizer = tokenizer
        self.end_ids: frozenset[int] = frozenset(
            {tokenizer.eos_token_id} if tokenizer.eos_token_id is not None else ())

    def opening(self, conversation: Sequence[Message]) -> tuple[int, ...]:
        """The ids of a whole conversation, up to where the reply begins."""
        return self._encoded(self.text(conversation))

    def going_on(self, held: Sequence[int], fresh: Sequence[Message]) -> tuple[int, ...] | None:
        """The ids that follow `held` (which end with a sampled reply) when `fresh` messages are said after it: the end
        of the reply's turn, unless it was sampled, and the new messages. None where the template does not show."""
        after = self.text_after(fresh, ended=bool(held) and held[-1] in self.end_ids)
        return None if after is None else self._encoded(after)

    def text_after(self, fresh: Sequence[Message], *, ended: bool) -> str | None:
        """The same as text; `ended` says whether the reply's own end was sampled."""
        text = self._template([_says("user", "?"), _says("assistant", _MARK), *map(_plain, fresh)])
        _, mark, after = text.rpartition(_MARK)
        if not mark:
            return None
        return after.removeprefix(self._tokenizer.eos_token) if ended else after

    def text_of(self, ids: Sequence[int]) -> str:
        """A reply as text, without what ends it."""
        kept = [token for token in ids if token not in self.end_ids]
        return str(self._tokenizer.decode(kept, skip_special_tokens=False))

    def text(self, conversation: Sequence[Message]) -> str:
        """The same as `opening`, as text."""
        return self._template([_plain(message) for message in conversation])

    def _template(self, messages: list[dict[str, str]]) -> str:
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def _encoded(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


def _plain(message: Message) -> dict[str, str]:
    return _says(message.role.value, message.text)


def _says(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}
