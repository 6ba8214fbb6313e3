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


def saying(made: Any, words: tuple[str, ...]) -> Any:
    """A model that says one of these words of the tokenizer's, each with the same chance, whatever it was asked, and
    ends there: a bigram, written into the weights."""
    import torch
    from transformers import Qwen3ForCausalLM

    config = model(made).config
    config.tie_word_embeddings = False
    torch.manual_seed(0)
    said = Qwen3ForCausalLM(config)
    ids = [made.convert_tokens_to_ids(word) for word in words]
    with torch.no_grad():
        for layer in said.model.layers:  # what a token is goes straight through
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        said.model.embed_tokens.weight.zero_()
        said.model.embed_tokens.weight[:, 0] = 1.0
        said.model.embed_tokens.weight[ids, 0] = 0.0
        said.model.embed_tokens.weight[ids, 1] = 1.0
        said.lm_head.weight.zero_()
        said.lm_head.weight[ids, 0] = 2.5
        said.lm_head.weight[made.eos_token_id, 1] = 2.5
    return said
