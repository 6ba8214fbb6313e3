"""A language model and a tokenizer made on the spot: bytes, the marks of ChatML, and whole words where a test wants."""

from __future__ import annotations

from typing import Any

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer(words: tuple[str, ...] = (), *, template: str = CHATML) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: nth for nth, letter in enumerate(letters)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        extra_special_tokens=["<|im_start|>"], padding_side="left")
    made.chat_template = template
    made.add_tokens(list(words))
    return made


def model(made: Any, *, seed: int = 0, room: int = 2048) -> Any:
    """A random Qwen3 of some 20,000 parameters, with a word for each of the tokenizer's."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=len(made), hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=room, tie_word_embeddings=True,
        eos_token_id=made.eos_token_id, pad_token_id=made.pad_token_id, bos_token_id=None))


def taught(made: Any, prompts: list[list[int]], replies: list[list[int]], *, steps: int = 150) -> Any:
    """A model that has learnt to answer each prompt with its reply."""
    import torch

    learner = model(made)
    optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-2)
    longest = max(len(p) + len(r) for p, r in zip(prompts, replies, strict=True))
    ids = torch.full((len(prompts), longest), made.pad_token_id)
    labels = torch.full_like(ids, -100)
    for row, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
        ids[row, :len(prompt) + len(reply)] = torch.tensor(prompt + reply)
        labels[row, len(prompt):len(prompt) + len(reply)] = torch.tensor(reply)
    for _ in range(steps):
        loss = learner(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 1e-2:
            break
    return learner
