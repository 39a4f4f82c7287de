"""checkpoint.py - whole checkpoints: a model, AdamW's state, and the small files beside them.

    python3 bench/tool/checkpoint.py BUILD [--steps 100] [--width 384] [--speed] [--json FILE]

BUILD is a build folder with -DLMC_BUILD_BENCH=ON. Needs torch, safetensors and the command zstd.

A model like GPT-2 (6 layers of --width, 8192 words) learns a language of its own: after each word come a few others,
some more often. Common words are more frequent, as in a real language. Its state is saved after --steps steps and 10
steps later as transformers' Trainer does: model.safetensors, optimizer.pt, scheduler.pt, rng_state.pth and text files.
Weights are saved as bf16 or as f32; AdamW's state is f32. lmc-st converts the later folder, alone and with the earlier
one as base; both are restored and compared. zstd takes a tar of the folder. optimizer.pt is also compared with a
safetensors file that has the same tensors.

--speed: convert and restore of a file of 2 GiB and of one with 100,000 tensors of 2 KiB, as torch.save() writes them
and as safetensors files with the same tensors. Alternately; the fastest of --rounds counts. Nothing is flushed.
"""

import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import (GIB, MIB, archive_nbytes, check_same, circumstances, command_line, fastest,  # noqa: E402
                    nbytes_of, write_report)

WORDS, CONTEXT, DEPTH, BATCH = 8192, 64, 6, 8
SUCCESSORS = 8


# ---- a model and its language ----

class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln_1 = torch.nn.LayerNorm(width)
        self.attn = torch.nn.MultiheadAttention(width, width // 64, batch_first=True)
        self.ln_2 = torch.nn.LayerNorm(width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                       torch.nn.Linear(4 * width, width))

    def forward(self, x, mask):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False, attn_mask=mask)[0]
        return x + self.mlp(self.ln_2(x))


class Model(torch.nn.Module):
    """The layers of GPT-2; the output layer has the weights of the input layer."""

    def __init__(self, width):
        super().__init__()
        self.wte = torch.nn.Embedding(WORDS, width)
        self.wpe = torch.nn.Embedding(CONTEXT, width)
        self.h = torch.nn.ModuleList(Block(width) for _ in range(DEPTH))
        self.ln_f = torch.nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)
        self.register_buffer("mask", torch.triu(torch.full((CONTEXT, CONTEXT), float("-inf")), 1), persistent=False)

    def forward(self, words):
        x = self.wte(words) + self.wpe.weight
        for block in self.h:
            x = block(x, self.mask)
        return self.ln_f(x) @ self.wte.weight.t()


class Language:
    """Sentences: the next word is one of a few, which are more often common words than rare ones."""

    def __init__(self):
        frequency = 1 / torch.arange(1, WORDS + 1)
        self.after = torch.multinomial(frequency.repeat(WORDS, 1), SUCCESSORS)
        self.often = 1 / torch.arange(1.0, SUCCESSORS + 1)
        self.frequency = frequency

    def sentences(self):
        words = torch.multinomial(self.frequency, BATCH).unsqueeze(1)
        for _ in range(CONTEXT):
            choice = torch.multinomial(self.often, BATCH, replacement=True)
            words = torch.cat((words, self.after[words[:, -1], choice].unsqueeze(1)), dim=1)
        return words


class Training:
    def __init__(self, width):
        torch.manual_seed(1)
        self.language = Language()
        self.model = Model(width)
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        self.optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01},
                                            {"params": others, "weight_decay": 0.0}], lr=3e-4)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min(1, (step + 1) / 20))
        self.step = 0
        self.loss = 0.0

    def go_on(self, steps):
        for _ in range(steps):
            words = self.language.sentences()
            loss = torch.nn.functional.cross_entropy(self.model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            self.step += 1
            self.loss = loss.item()

    def save(self, folder, dtype):
        """What transformers' Trainer has in a checkpoint's folder."""
        os.makedirs(folder)
        weights = {name: weight.detach().to(dtype).contiguous() for name, weight in self.model.state_dict().items()}
        save_file(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        torch.save(self.optimizer.state_dict(), os.path.join(folder, "optimizer.pt"))
        torch.save(self.scheduler.state_dict(), os.path.join(folder, "scheduler.pt"))
        torch.save({"cpu": torch.get_rng_state()}, os.path.join(folder, "rng_state.pth"))
        history = [{"step": step, "learning_rate": 3e-4} for step in range(0, self.step, 10)]
        for name, content in (("trainer_state.json", {"global_step": self.step, "log_history": history}),
                              ("config.json", {"model_type": "gpt2", "n_layer": DEPTH, "vocab_size": WORDS})):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                json.dump(content, file, indent=2)


def save_state_as_safetensors(folder):
    """Writes optimizer.safetensors, with the tensors and names of optimizer.pt."""
    state = torch.load(os.path.join(folder, "optimizer.pt"))["state"]
    path = folder + ".optimizer.safetensors"
    save_file({f"state.{number}.{name}": tensor for number, values in state.items()
               for name, tensor in values.items()}, path)
    return path


# ---- sizes ----

def converted_ratio(tool, path, base=None):
    """stored / original of what is restored byte for byte."""
    return archive_nbytes(tool, path, base=base) / nbytes_of(path)


def zstd_ratio(path, level):
    tar = path + ".tar"
    subprocess.run(["tar", "-cf", tar, "-C", os.path.dirname(path), os.path.basename(path)], check=True)
    packed = subprocess.run(["zstd", f"-{level}", "-T0", "-q", "-c", tar], stdout=subprocess.PIPE, check=True).stdout
    os.unlink(tar)
    return len(packed) / nbytes_of(path)


def measure_sizes(tool, folder, steps, width):
    training = Training(width)
    training.go_on(steps)
    saved = {}
    for step in (steps, steps + 10):
        training.go_on(step - training.step)
        for name, dtype in (("bf16", torch.bfloat16), ("f32", torch.float32)):
            saved[name, step] = os.path.join(folder, name, f"checkpoint-{step}")
            training.save(saved[name, step], dtype)
    rows = []
    for name in ("bf16", "f32"):
        base, path = saved[name, steps], saved[name, steps + 10]
        rows.append({"what": "checkpoint", "weights": name, "nbytes": nbytes_of(path), "loss": training.loss,
                     "first": converted_ratio(tool, path), "with_base": converted_ratio(tool, path, base),
                     "zstd_3": zstd_ratio(path, 3), "zstd_19": zstd_ratio(path, 19)})
    for kind in ("optimizer.pt", "optimizer.safetensors"):
        base, path = (saved["f32", step] for step in (steps, steps + 10))
        files = [os.path.join(at, kind) if kind == "optimizer.pt" else save_state_as_safetensors(at)
                 for at in (base, path)]
        rows.append({"what": kind, "nbytes": nbytes_of(files[1]), "first": converted_ratio(tool, files[1]),
                     "with_base": converted_ratio(tool, files[1], files[0])})
    return rows


def show_sizes(rows):
    print(f"\n{'':22} {'MiB':>8} {'lmc-st':>8} {'base':>8} {'zstd -3':>8} {'zstd -19':>8}")
    for row in rows:
        name = f"{row['what']} {row.get('weights', '')}"
        print(f"{name:22} {row['nbytes'] / MIB:8.1f} {row['first']:8.4f} {row['with_base']:8.4f} " +
              " ".join(f"{row[key]:8.4f}" for key in ("zstd_3", "zstd_19") if key in row))


# ---- speed ----

def make_pair(folder, count, nbytes):
    """The same tensors of bf16 as a file of torch and as a safetensors file."""
    torch.manual_seed(2)
    values = (torch.randn(min(nbytes, GIB // 4) // 2) * 0.02).to(torch.bfloat16)
    elements = nbytes // count // 2
    tensors = {}
    for i in range(count):
        start = i * elements % (len(values) - elements + 1)
        tensors[f"layers.{i}.weight"] = values[start:start + elements].clone()
    paths = [os.path.join(folder, name) for name in ("m.pt", "m.safetensors")]
    torch.save(tensors, paths[0])
    save_file(tensors, paths[1])
    return paths


def measure_speed(build, folder, count, nbytes, rounds):
    tool = os.path.join(build, "tool", "lmc-st")
    paths = make_pair(folder, count, nbytes)
    commands = {}
    for path in paths:
        for command, source, target in (("convert", path, ".lmc"), ("restore", path + ".lmc", ".back")):
            commands[path, command] = [tool, command, source, "-q", "--no-fsync", "-f", "-o", path + target]
    best = fastest(build, commands, rounds)
    for path in paths:
        check_same(path, path + ".back")
    rows = [{"tensors": count, "nbytes": os.path.getsize(path), "kind": path.rsplit(".", 1)[1], "command": command,
             "archive_nbytes": os.path.getsize(path + ".lmc"), "seconds": seconds, "cpu_seconds": cpu,
             "peak_nbytes": peak} for (path, command), (seconds, cpu, peak) in best.items()]
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    return rows


def show_speed(rows):
    print(f"\n{'tensors':>8} {'command':8} {'file':12} {'seconds':>8} {'CPU s':>8} {'peak MiB':>9} {'ratio':>8}")
    for row in rows:
        print(f"{row['tensors']:8} {row['command']:8} {row['kind']:12} {row['seconds']:8.2f} "
              f"{row['cpu_seconds']:8.2f} {row['peak_nbytes'] / MIB:9.1f} {row['archive_nbytes'] / row['nbytes']:8.4f}")
    for command in ("convert", "restore"):
        pt, plain = ([row for row in rows if row["command"] == command and row["kind"] == kind][0]
                     for kind in ("pt", "safetensors"))
        print(f"{command}: torch / safetensors: {pt['seconds'] / plain['seconds']:.2f} by the clock, "
              f"{pt['cpu_seconds'] / plain['cpu_seconds']:.2f} by CPU time")


def main():
    parser = command_line(__doc__, 5, "build")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--gib", type=float, default=2)
    arguments = parser.parse_args()
    tool = os.path.join(arguments.build, "tool", "lmc-st")
    report = {**circumstances(), "torch": torch.__version__,
              "steps": arguments.steps, "width": arguments.width, "rows": [], "speed": []}
    print(f"machine: {report['machine']}, {report['core_count']} cores; torch {torch.__version__}")
    with tempfile.TemporaryDirectory(prefix="lmc-checkpoint-") as folder:
        if arguments.steps > 0:
            report["rows"] = measure_sizes(tool, folder, arguments.steps, arguments.width)
            show_sizes(report["rows"])
    if arguments.speed:
        for count, nbytes in ((64, int(arguments.gib * GIB)), (100000, 100000 * 2048)):
            with tempfile.TemporaryDirectory(prefix="lmc-checkpoint-") as folder:
                rows = measure_speed(arguments.build, folder, count, nbytes, arguments.rounds)
            show_speed(rows)
            report["speed"] += rows
    write_report(arguments.json, report)


if __name__ == "__main__":
    main()
