"""train_snapshots.py - trains a small GPT on bytes and writes snapshots of it as safetensors files.

    python3 train_snapshots.py --corpus FOLDER [--out FOLDER] [--steps N] [--save STEP,STEP,...]

For each step in --save: stepNNNNN.f32 (the weights that are trained), stepNNNNN.bf16 (the same rounded to
nearest even) and stepNNNNN.optim (Adam's two moments of the first layer), each with .safetensors.
Needs torch, numpy and safetensors from PyPI; uses a GPU if there is one.
"""

import argparse
import math
import os
import time

WIDTH = 256
LAYER_COUNT = 4
HEAD_COUNT = 4
CONTEXT = 128
VOCABULARY = 256  # bytes
CORPUS_NBYTES_MAX = 30_000_000
TEXT_SUFFIXES = (".c", ".h", ".cc", ".cpp", ".py", ".md", ".rst", ".txt", ".rs", ".go", ".js", ".java", ".html")


def read_corpus(folder, nbytes_max):
    """Text files below a folder, in order of their paths, up to a number of bytes."""
    parts = []
    total = 0
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if not name.endswith(TEXT_SUFFIXES) or total >= nbytes_max:
                continue
            try:
                with open(os.path.join(path, name), "rb") as file:
                    parts.append(file.read(nbytes_max - total))
            except OSError:
                continue
            total += len(parts[-1])
    return b"".join(parts)


def make_model(torch):
    """A decoder-only transformer with the usual names of its parameters."""
    nn = torch.nn
    functional = nn.functional

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
            self.o = nn.Linear(WIDTH, WIDTH, bias=False)

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = (part.view(batch, length, HEAD_COUNT, WIDTH // HEAD_COUNT).transpose(1, 2)
                       for part in self.qkv(x).split(WIDTH, dim=2))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.o(y.transpose(1, 2).reshape(batch, length, WIDTH))

    class Perceptron(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
            self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

        def forward(self, x):
            return self.down(functional.gelu(self.up(x)))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1 = nn.LayerNorm(WIDTH)
            self.attn = Attention()
            self.ln_2 = nn.LayerNorm(WIDTH)
            self.mlp = Perceptron()

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class Body(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.embed_positions = nn.Embedding(CONTEXT, WIDTH)
            self.layers = nn.ModuleList(Layer() for _ in range(LAYER_COUNT))
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, tokens):
            positions = torch.arange(tokens.shape[1], device=tokens.device)
            x = self.embed_tokens(tokens) + self.embed_positions(positions)
            for layer in self.layers:
                x = layer(x)
            return self.norm(x)

    class LanguageModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Body()
            self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
            self.apply(self.initialise)
            for layer in self.model.layers:  # keeps the variance of the residual stream
                for last in (layer.attn.o, layer.mlp.down):
                    nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * LAYER_COUNT))

        @staticmethod
        def initialise(module):
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

        def forward(self, tokens):
            return self.lm_head(self.model(tokens))

    return LanguageModel()


def save_snapshot(torch, model, optimizer, folder, step):
    from safetensors.torch import save_file

    def write(kind, tensors):
        path = os.path.join(folder, f"step{step:05d}.{kind}.safetensors")
        save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, path, {"format": "pt"})
        print(f"wrote {path}")

    parameters = dict(model.named_parameters())
    write("f32", parameters)
    write("bf16", {name: parameter.to(torch.bfloat16) for name, parameter in parameters.items()})
    write("optim", {f"{moment}.{name}": optimizer.state[parameter][moment]
                    for moment in ("exp_avg", "exp_avg_sq") for name, parameter in parameters.items()
                    if name.startswith("model.layers.0.")})


def main():
    parser = argparse.ArgumentParser(description="trains a small GPT on bytes and writes snapshots")
    parser.add_argument("--corpus", required=True, help="folder with text files")
    parser.add_argument("--out", default="snapshots", help="folder for the snapshots (default: snapshots)")
    parser.add_argument("--steps", type=int, default=3100, help="updates (default: 3100)")
    parser.add_argument("--save", default="2000,3000,3001,3010,3100", help="steps to write, with commas between")
    parser.add_argument("--batch", type=int, default=64, help="sequences per update (default: 64)")
    parser.add_argument("--warmup", type=int, default=100, help="updates of linear warm-up (default: 100)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    save_steps = {int(step) for step in arguments.save.split(",")}

    import torch  # here, so that --help needs nothing

    torch.manual_seed(arguments.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    corpus = read_corpus(arguments.corpus, CORPUS_NBYTES_MAX)
    if len(corpus) < 100 * CONTEXT:
        parser.error(f"only {len(corpus)} bytes of text below {arguments.corpus}")
    text = torch.frombuffer(bytearray(corpus), dtype=torch.uint8)
    model = make_model(torch).to(device)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{count} parameters, {len(corpus)} bytes of text, on {device}")

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / arguments.warmup) * (
        0.5 + 0.5 * math.cos(math.pi * min(1, step / arguments.steps))))
    os.makedirs(arguments.out, exist_ok=True)
    window = torch.arange(CONTEXT + 1)
    started = time.time()
    for step in range(1, arguments.steps + 1):
        firsts = torch.randint(len(text) - CONTEXT, (arguments.batch, 1))
        batch = text[firsts + window].long().to(device)
        logits = model(batch[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == 1:
            print(f"step {step}: loss {loss.item():.3f}, {time.time() - started:.0f} s", flush=True)
        if step in save_steps:
            save_snapshot(torch, model, optimizer, arguments.out, step)


if __name__ == "__main__":
    main()
