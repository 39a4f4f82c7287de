"""train_series.py - two small trainings with snapshots of all that a checkpoint holds, for study.py.

    python3 bench/study/train_series.py OUT [--quick] [--only gpt|conv] [--threads N]

OUT gets a folder for each model, with a folder for each snapshot and these safetensors files in it:

    weights.bf16  weights.f32  adam_m  adam_v  gradients

gpt is a transformer like GPT-2 that learns a language of its own: after each word come a few others. conv is a network
of convolutions that tells blurred shapes apart; a tenth of its labels is wrong. AdamW trains both. The learning rate
warms up and then decays by a cosine. Snapshots lie 1, 10, 100 and 1000 steps apart, at the peak of the learning rate,
in the middle and at the end. Then the training goes on with other data at a small learning rate (fine-tuning).
series.json has the list of snapshots, and the learning rate and loss of each step. Equal seeds give equal files on one
machine with one version of torch. Needs torch 1.13 or newer and numpy. --quick: shorter, and without the distance 1000.
"""

import argparse
import json
import math
import os
import struct
import time

import torch


# ---- files ----

def save_tensors(path, tensors):
    """A safetensors file of CPU tensors in bf16 or f32."""
    header, at = {}, 0
    for name, tensor in tensors.items():
        nbytes = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": "BF16" if tensor.dtype == torch.bfloat16 else "F32", "shape": list(tensor.shape),
                        "data_offsets": [at, at + nbytes]}
        at += nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            integers = torch.int16 if tensor.dtype == torch.bfloat16 else torch.int32
            file.write(tensor.contiguous().view(integers).numpy().tobytes())


# ---- a transformer and its language ----

class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + mask[:length, :length]
        return self.out((torch.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(batch, length, width))


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = torch.nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x, mask):
        x = x + self.attn(self.ln_1(x), mask)
        return x + self.down(torch.nn.functional.gelu(self.up(self.ln_2(x))))


class Transformer(torch.nn.Module):
    def __init__(self, words, context, width, depth):
        super().__init__()
        self.wte = torch.nn.Embedding(words, width)
        self.wpe = torch.nn.Embedding(context, width)
        self.h = torch.nn.ModuleList(Block(width, width // 32) for _ in range(depth))
        self.ln_f = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, words, bias=False)
        self.register_buffer("mask", torch.triu(torch.full((context, context), float("-inf")), 1), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)

    def forward(self, words):
        x = self.wte(words) + self.wpe.weight[:words.shape[1]]
        for block in self.h:
            x = block(x, self.mask)
        return self.head(self.ln_f(x))


class Language:
    """Sentences in which each word is followed by one of a few, common ones more often."""

    def __init__(self, words, seed):
        generator = torch.Generator().manual_seed(seed)
        self.frequency = 1 / torch.arange(1.0, words + 1)
        self.after = torch.multinomial(self.frequency.repeat(words, 1), 8, generator=generator)
        self.often = 1 / torch.arange(1.0, 9)

    def batch(self, count, length):
        words = torch.multinomial(self.frequency, count).unsqueeze(1)
        for _ in range(length):
            choice = torch.multinomial(self.often, count, replacement=True)
            words = torch.cat((words, self.after[words[:, -1], choice].unsqueeze(1)), dim=1)
        return words


class GptTask:
    def __init__(self, quick):
        self.words, self.context, self.count = (256, 32, 4) if quick else (1024, 64, 8)
        self.model = Transformer(self.words, self.context, *((96, 2) if quick else (192, 4)))
        self.language = Language(self.words, 1)

    def change_data(self):
        self.language = Language(self.words, 2)

    def loss(self):
        words = self.language.batch(self.count, self.context)
        return torch.nn.functional.cross_entropy(self.model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())


# ---- convolutions and their images ----

class Convolutions(torch.nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        channels = (3, width, 2 * width, 4 * width)
        self.layers = torch.nn.ModuleList(torch.nn.Conv2d(a, b, 3, padding=1, bias=False)
                                          for a, b in zip(channels, channels[1:]))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(b) for b in channels[1:])
        self.hidden = torch.nn.Linear(4 * width * 4, 4 * width)
        self.head = torch.nn.Linear(4 * width, classes)

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            x = torch.nn.functional.max_pool2d(torch.relu(norm(layer(x))), 2)
        return self.head(torch.relu(self.hidden(x.flatten(1))))


class Images:
    """Each class is a shape of its own; an image has it somewhere, in another brightness, under noise."""

    def __init__(self, classes, seed):
        generator = torch.Generator().manual_seed(seed)
        shapes = torch.randn(classes, 3, 6, 6, generator=generator)
        self.shapes = torch.nn.functional.interpolate(shapes, size=(16, 16), mode="bilinear", align_corners=False)

    def batch(self, count):
        labels = torch.randint(len(self.shapes), (count,))
        shifts = torch.randint(-3, 4, (2,)).tolist()
        images = torch.roll(self.shapes[labels], shifts, (2, 3)) * (0.5 + torch.rand(count, 1, 1, 1))
        wrong = torch.rand(count) < 0.1
        return (images + torch.randn_like(images),
                torch.where(wrong, torch.randint(len(self.shapes), (count,)), labels))


class ConvTask:
    def __init__(self, quick):
        self.count = 32
        self.model = Convolutions(32 if quick else 64, 100)
        self.images = Images(100, 1)

    def change_data(self):
        self.images = Images(100, 2)

    def loss(self):
        images, labels = self.images.batch(self.count)
        return torch.nn.functional.cross_entropy(self.model(images), labels)


TASKS = {"gpt": GptTask, "conv": ConvTask}


# ---- training ----

class Plan:
    """Steps, learning rate, and the steps whose state is saved."""

    def __init__(self, quick):
        self.warm_up, self.end, self.fine_tuning = (40, 240, 100) if quick else (200, 2200, 100)
        self.peak, self.fine_rate = 1e-3, 1e-5
        anchors = (40, 140) if quick else (200, 1200, 2100)
        self.steps = {0, self.end, *((10, 100) if quick else (20, 100, 400, 800, 1600))}
        for anchor in anchors:
            self.steps |= {anchor, anchor + 1, anchor + 10, anchor + 100}
        self.fine_steps = {self.end + distance for distance in (1, 10, 100)}

    def rate(self, step):
        """The learning rate of the step that leads to this one."""
        if step > self.end:
            return self.fine_rate
        if step <= self.warm_up:
            return self.peak * step / self.warm_up
        share = (step - self.warm_up) / (self.end - self.warm_up)
        return self.peak * (0.05 + 0.95 * (1 + math.cos(math.pi * share)) / 2)


def save_snapshot(folder, model, optimizer):
    os.makedirs(folder)
    named = dict(model.named_parameters())
    weights = {name: tensor.detach() for name, tensor in model.state_dict().items() if tensor.dtype == torch.float32}
    files = {"weights.bf16": {name: weight.to(torch.bfloat16) for name, weight in weights.items()},
             "weights.f32": weights}
    if optimizer.state:
        files["adam_m"] = {name: optimizer.state[parameter]["exp_avg"] for name, parameter in named.items()}
        files["adam_v"] = {name: optimizer.state[parameter]["exp_avg_sq"] for name, parameter in named.items()}
        files["gradients"] = {name: parameter.grad for name, parameter in named.items()}
    for kind, tensors in files.items():
        save_tensors(os.path.join(folder, kind + ".safetensors"), tensors)


def train(name, out, quick):
    """Returns what series.json says of the training."""
    torch.manual_seed(1)
    started, plan, task = time.time(), Plan(quick), TASKS[name](quick)
    matrices = [parameter for parameter in task.model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in task.model.parameters() if parameter.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  betas=(0.9, 0.95))
    history, snapshots = [], []
    for step in range(plan.end + plan.fine_tuning + 1):
        if step == plan.end + 1:
            task.change_data()
        if step > 0:
            for group in optimizer.param_groups:
                group["lr"] = plan.rate(step)
            optimizer.zero_grad()
            loss = task.loss()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(task.model.parameters(), 1.0)
            optimizer.step()
            history.append({"step": step, "rate": plan.rate(step), "loss": round(loss.item(), 5)})
        if step in plan.steps | plan.fine_steps:
            snapshots.append({"step": step, "is_fine_tuning": step > plan.end, "folder": f"{name}/step-{step:05}"})
            save_snapshot(os.path.join(out, snapshots[-1]["folder"]), task.model, optimizer)
    count = sum(parameter.numel() for parameter in task.model.parameters())
    print(f"{name}: {count:,} parameters, {plan.end + plan.fine_tuning} steps, {len(snapshots)} snapshots, "
          f"loss {history[0]['loss']:.3f} to {history[plan.end - 1]['loss']:.3f}, {time.time() - started:.0f} s")
    return {"name": name, "parameters": count, "warm_up": plan.warm_up, "end": plan.end, "snapshots": snapshots,
            "history": history}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=sorted(TASKS))
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    os.makedirs(arguments.out, exist_ok=True)
    models = [train(name, arguments.out, arguments.quick) for name in TASKS if arguments.only in (None, name)]
    with open(os.path.join(arguments.out, "series.json"), "w", encoding="ascii") as file:
        json.dump({"torch": torch.__version__, "threads": arguments.threads, "quick": arguments.quick,
                   "models": models}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
