"""fsdp_checkpoint.py - a trainer under FSDP2 that saves its state with LMC while it trains on, and resumes.

    torchrun --nproc-per-node 2 fsdp_checkpoint.py CHECKPOINTS [--steps 40] [--every 5] [--codec lmc|none]

CHECKPOINTS gets a directory for each saved step: step-5, step-10 ... Each is a delta of the one before, every 8th is a
key frame. Start it again, on any number of ranks, and it goes on from the newest one that is whole. Kill it when you
like. Weights, AdamW's moments and the step are saved; the data of a step follow from its number.

Rank 0 prints a line for each step (step, loss, seconds), and at the end what a save costs: the mean time of the steps
during which one was made, and of the others. Needs torch 2.7 or newer with gloo; no GPU.
"""

import argparse
import os
import re
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

import lmcodec.dcp

BATCH = 16  # sequences a step, of all ranks
LENGTH = 64
KEY_EVERY = 8


class Model(nn.Module):
    """A transformer that predicts the next byte."""

    def __init__(self, width, layers, vocabulary=256):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.randn(LENGTH, width) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        hidden = self.tokens(tokens) + self.places[:tokens.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        for layer in self.layers:
            hidden = layer(hidden, src_mask=mask, is_causal=True)
        return self.head(hidden)


def make_trainer(width, layers):
    torch.manual_seed(1)
    model = Model(width, layers)
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def batch_of(step):
    """This rank's part of the sequences of a step: bytes of a text that repeats itself with errors."""
    generator = torch.Generator().manual_seed(step)
    text = torch.arange(LENGTH + 1) * torch.randint(1, 8, (BATCH, 1), generator=generator)
    text += torch.randint(0, 256, (BATCH, 1), generator=generator)
    noise = torch.rand(text.shape, generator=generator) < 0.02
    text = torch.where(noise, torch.randint(0, 256, text.shape, generator=generator), text) % 256
    part = text.tensor_split(dist.get_world_size())[dist.get_rank()]
    return part[:, :-1], part[:, 1:]


def train_step(model, optimizer, step):
    """Returns the mean loss of all ranks. FSDP takes the mean of the ranks' gradients."""
    tokens, targets = batch_of(step)
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


# ---- checkpoints ----

def path_of(folder, step):
    return os.path.join(folder, f"step-{step}")


def newest_step(folder):
    """The newest checkpoint that is whole: .metadata is its last file. None without one."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    steps = [int(name[5:]) for name in names if re.fullmatch(r"step-\d+", name)]
    return max((step for step in steps if os.path.exists(os.path.join(path_of(folder, step), ".metadata"))),
               default=None)


def state_of(model, optimizer, step):
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "step": step}


def save(folder, codec, model, optimizer, step, base, group):
    """Begins to save; returns the future. The state is copied before this returns; the rest is done by a thread, which
    speaks to other ranks through a process group of its own."""
    path = path_of(folder, step)
    if codec == "lmc":
        writer = lmcodec.dcp.Writer(path, base=None if base is None else path_of(folder, base), key_every=KEY_EVERY)
    else:
        writer = dcp.FileSystemWriter(path)
    return dcp.async_save(state_of(model, optimizer, step), storage_writer=writer, process_group=group)


def resume(folder, codec, model, optimizer, step):
    state = state_of(model, optimizer, 0)
    path = path_of(folder, step)
    dcp.load(state, storage_reader=lmcodec.dcp.Reader(path) if codec == "lmc" else dcp.FileSystemReader(path))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return state["step"]


# ---- the trainer ----

def train(options):
    model, optimizer = make_trainer(options.width, options.layers)
    base = newest_step(options.folder)
    step = 0 if base is None else resume(options.folder, options.codec, model, optimizer, base)
    saving, saved, group = None, base, dist.new_group(backend="gloo")
    seconds = {True: [], False: []}
    while step < options.steps:
        begin = time.perf_counter()
        is_saving = saving is not None and not saving.done()
        step += 1
        loss = train_step(model, optimizer, step)
        if step % options.every == 0:
            is_saving = True
            if saving is not None:
                saving.result()
            saving, saved = save(options.folder, options.codec, model, optimizer, step, saved, group), step
        seconds[is_saving].append(time.perf_counter() - begin)
        if dist.get_rank() == 0:
            print(f"step {step} loss {loss:.6f} seconds {seconds[is_saving][-1]:.3f}", flush=True)
    if saving is not None:
        saving.result()
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="CHECKPOINTS")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--codec", choices=("lmc", "none"), default="lmc")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("cpu:gloo")
    seconds = train(options)
    if dist.get_rank() == 0 and all(seconds.values()):
        with_save, without = (sum(seconds[key]) / len(seconds[key]) for key in (True, False))
        print(f"a step with a save {with_save:.3f} s, without {without:.3f} s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
