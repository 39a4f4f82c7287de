"""models.py - small models as transformers saves them: random weights from a config, nothing is fetched.

Import this before anything else of transformers: it keeps the library from asking a hub.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import (AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel,  # noqa: E402
                          LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast)
from transformers.utils import logging  # noqa: E402

logging.disable_progress_bar()
torch.set_num_threads(1)

VOCABULARY = 512
NEW_TOKENS = 8
TEXT = "w3 w1 w4 w1 w5 w9 w2 w6"


def save_tokenizer(folder):
    vocabulary = {f"w{i}": i for i in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0",
                            clean_up_tokenization_spaces=False).save_pretrained(folder)


def save_llama(folder):
    """In bf16 and in several files with an index."""
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=128, intermediate_size=256, num_hidden_layers=3,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder, safe_serialization=True, max_shard_size="300KB")
    save_tokenizer(folder)


def save_gpt2(folder):
    """In f32 and in one file; its output layer shares the weights of its input layer."""
    torch.manual_seed(2)
    config = GPT2Config(vocab_size=VOCABULARY, n_embd=96, n_layer=3, n_head=4, n_positions=64)
    GPT2LMHeadModel(config).save_pretrained(folder, safe_serialization=True)
    save_tokenizer(folder)


class Seen:
    """What a program sees of a saved model: weights, logits of a text, and how the model goes on with it."""

    def __init__(self, folder):
        model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype="auto").eval()
        tokens = AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt").input_ids
        with torch.no_grad():
            self.logits = model(tokens).logits
            for _ in range(NEW_TOKENS):
                tokens = torch.cat((tokens, model(tokens).logits[:, -1:].argmax(-1)), dim=1)
        self.tokens = tokens
        self.weights = {name: weight.clone() for name, weight in model.state_dict().items()}

    def differences(self, other):
        if list(self.weights) != list(other.weights):
            yield "the weights have other names"
            return
        for name, weight in self.weights.items():
            if weight.dtype != other.weights[name].dtype or not torch.equal(weight, other.weights[name]):
                yield f"other weights: {name}"
        if self.logits.dtype != other.logits.dtype or not torch.equal(self.logits, other.logits):
            yield "other logits"
        if not torch.equal(self.tokens, other.tokens):
            yield "the model goes on in another way"
        if not torch.isfinite(self.logits).all() or self.logits.float().std() == 0:
            yield "the logits say nothing"
