"""families.py - families of small models, for bench/store.py: bases, and what is made of them.

    python3 bench/store/families.py WORK [--families 3] [--small] [--jobs N]

WORK gets the folder models/, whose names say nothing, and truth.json. A model is a safetensors file, or a directory of
shards with an index. Each family is a transformer (language.py), trained on the words of the documents of this project.
Its other models are:

  fine-tune    all weights trained on other text of the project, 20 to 1000 steps at rates of 1e-6 to 1e-3
  LoRA         a low-rank adapter of the queries and values, trained and merged
  pruned       the smallest weights of each matrix are zero
  vocabulary   more rows in the embedding and the head, then trained
  F16 copy, FP8 copy   of the base; FP8: E4M3, vectors stay BF16
  F32 master   what training made; the base is its rounding, so it is the base's base
  average      of fine-tunes
  renamed      the base with a prefix before all names, in other shards
  duplicate    of a fine-tune

All are BF16 unless said otherwise. A model's base in truth.json is what it was made from, for an average the fine-tune
with the largest weight; a master has none. `order` is the order of arrival, a random one. Equal options give equal
files on one machine with one version of NumPy and one state of the project's text. Needs numpy.
"""

import argparse
import concurrent.futures
import glob
import json
import os
import random
import shutil
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "bench", "store")]
from common import write_tensors  # noqa: E402
from language import Batches, Tensors, Words, first_weights, train, train_adapter  # noqa: E402

BASE_TEXT = "docs/*.md"
OTHER_TEXTS = ("tool/*/*.c", "safetensors/*/*.c", "codec/*/*.c", "tests/cli/*.py", "filter/*/*.c",
               "python/lmcodec/*.py")
RATES = (1e-6, 3e-6, 1e-5, 5e-5, 3e-4, 1e-3)
PREFIXES = ("model.", "module.")
MASTER = 12                # its number in a family; the base has 0
FILE, SHARDS = "model.safetensors", "model-{:05}-of-{:05}.safetensors"


class Plan:
    """What the families of one study have in common, and the sizes of one of them."""

    def __init__(self, number, is_small):
        self.number = number
        self.seed = 1000 * (number + 1)
        if is_small:
            self.words, self.width, self.depth, self.rows = 1024, 64, 2 + number % 2, 2
            self.base_steps, self.steps, self.other_steps = 40, (5, 8, 12, 16, 24, 40), 12
        else:
            self.words, self.width, self.depth, self.rows = 2048, (160, 192, 256, 224)[number % 4], 4 + (number > 0), 4
            self.base_steps, self.other_steps = 400, 60
            self.steps = (20, 40, 80, 150, 300, 500 if number else 1000)
        self.file_count = 2 if number % 3 == 1 else 1   # of the models of the family
        self.pruned_share = (0.3, 0.5, 0.2, 0.4)[number % 4]
        self.more_words = self.words * (6 + number) // 100


# ---- number formats ----

def rounded_bits(values):
    """BF16 as integers, to the nearest, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype("<u2")


def from_bits(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def e4m3_values():
    """The values of the codes 0 to 126 of F8_E4M3; code 127 is no number."""
    codes = np.arange(127)
    exponents, mantissas = codes >> 3, codes & 7
    return np.where(exponents == 0, mantissas * 2.0**-9, (8 + mantissas) * 2.0**(exponents - 10.0)).astype(np.float32)


def e4m3_bits(values):
    """F8_E4M3 as integers, to the nearest, ties to even; larger values become the largest."""
    table, sizes = e4m3_values(), np.minimum(np.abs(values), 448)
    above = np.clip(np.searchsorted(table, sizes), 1, 126)
    low, high = sizes - table[above - 1], table[above] - sizes
    takes_low = (low < high) | ((low == high) & ((above - 1) % 2 == 0))
    return (np.where(takes_low, above - 1, above) | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)


def as_bf16(tensors):
    return {name: ("BF16", values.shape, rounded_bits(values).tobytes()) for name, values in tensors.items()}


def as_f32(tensors):
    return {name: ("F32", values.shape, values.astype("<f4").tobytes()) for name, values in tensors.items()}


def as_f16(tensors):
    return {name: ("F16", values.shape, values.astype("<f2").tobytes()) for name, values in tensors.items()}


def as_fp8(tensors):
    return {**as_bf16(tensors), **{name: ("F8_E4M3", values.shape, e4m3_bits(values).tobytes())
                                   for name, values in tensors.items() if values.ndim > 1}}


# ---- what is made of a base ----

def read_text(pattern):
    texts = []
    for path in sorted(glob.glob(os.path.join(ROOT, *pattern.split("/")))):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return "\n".join(texts)


def rounded(tensors):
    """The values that a BF16 file has."""
    other = tensors.copy()
    other.flat[:] = from_bits(rounded_bits(tensors.flat))
    return other


def pruned(tensors, share):
    other = tensors.copy()
    for values in other.values():
        if values.ndim > 1:
            values[np.abs(values) < np.quantile(np.abs(values), share)] = 0
    return other


def with_more_words(tensors, count, seed):
    """New rows are the mean of the others, with a little noise."""
    noise = np.random.default_rng(seed)
    wide = ("embed_tokens.weight", "lm_head.weight")
    other = Tensors({name: (shape[0] + count, *shape[1:]) if name in wide else shape
                     for name, shape in tensors.shapes.items()})
    for name, values in tensors.items():
        other[name][:len(values)] = values
        if name in wide:
            new = values.mean(0) + 0.1 * values.std() * noise.standard_normal((count, values.shape[1]))
            other[name][len(values):] = new
    return other


def average(parts, shares):
    other = parts[0].copy()
    other.flat[:] = sum(np.float32(share) * part.flat for part, share in zip(parts, shares))
    return other


def make_family(plan):
    """Yields kind, base (a number of a model of this family, or None), tensors as they are written, facts."""
    vocabulary = Words(read_text(BASE_TEXT), plan.words)
    words = vocabulary.encode(read_text(BASE_TEXT))
    others = [vocabulary.encode(read_text(pattern)) for pattern in OTHER_TEXTS]
    master = first_weights(plan.words, plan.width, plan.depth, plan.seed)
    losses = train(master, Batches(words, 2 * plan.rows, plan.seed), plan.base_steps, 2e-3)
    base = rounded(master)
    yield "base", MASTER, as_bf16(base), {"steps": plan.base_steps, "rate": 2e-3, "losses": losses}

    tuned = []
    for number, (steps, rate, text) in enumerate(zip(plan.steps, RATES, others), 1):
        one = base.copy()
        losses = train(one, Batches(text, plan.rows, plan.seed + number), steps, rate)
        tuned.append(rounded(one))
        yield "fine-tune", 0, as_bf16(one), {"steps": steps, "rate": rate, "losses": losses}
    text = others[plan.number % len(others)]
    one = base.copy()
    train_adapter(one, Batches(text, plan.rows, plan.seed + 7), plan.other_steps, 1e-3, 8, plan.seed + 7)
    yield "LoRA", 0, as_bf16(one), {"steps": plan.other_steps, "rate": 1e-3}
    yield "pruned", 0, as_bf16(pruned(base, plan.pruned_share)), {"share": plan.pruned_share}
    one = with_more_words(base, plan.more_words, plan.seed + 8)
    train(one, Batches(text, plan.rows, plan.seed + 8), plan.other_steps, 3e-5)
    yield "vocabulary", 0, as_bf16(one), {"steps": plan.other_steps, "rate": 3e-5, "rows": plan.more_words}
    yield "F16 copy", 0, as_f16(base), {}
    yield "FP8 copy", 0, as_fp8(base), {}
    yield "F32 master", None, as_f32(master), {}
    yield "average", 5, as_bf16(average((tuned[4], tuned[3]), (0.6, 0.4))), {"of": [5, 4]}
    yield "average", 3, as_bf16(average(tuned[:3][::-1], (0.4, 0.3, 0.3))), {"of": [3, 2, 1]}
    prefix = PREFIXES[plan.number % 2]
    yield "renamed", 0, {prefix + name: one for name, one in as_bf16(base).items()}, {"prefix": prefix}
    yield "duplicate", 2, as_bf16(tuned[1]), {}


# ---- files ----

def write_model(place, tensors, file_count):
    """One file, or a directory with so many shards of about equal size and their index."""
    if file_count == 1:
        write_tensors(place, tensors)
        return
    os.makedirs(place)
    total, at, shards = sum(len(content) for _, _, content in tensors.values()), 0, {}
    for name, one in tensors.items():
        shards.setdefault(min(file_count * at // total, file_count - 1), {})[name] = one
        at += len(one[2])
    places = {}
    for number, part in enumerate(shards.values(), 1):
        file = SHARDS.format(number, len(shards))
        write_tensors(os.path.join(place, file), part)
        places.update(dict.fromkeys(part, file))
    with open(os.path.join(place, FILE + ".index.json"), "w", encoding="ascii") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": places}, file, indent=1)
        file.write("\n")


def write_family(work, number, is_small):
    """Returns what is true of each model; bases are names."""
    plan, names, facts = Plan(number, is_small), random.Random(f"names {number}"), []
    for kind, base, tensors, more in make_family(plan):
        file_count = plan.file_count + 2 if kind == "renamed" else plan.file_count
        name = f"{names.getrandbits(32):08x}" + (".safetensors" if file_count == 1 else "")
        write_model(os.path.join(work, "models", name), tensors, file_count)
        facts.append({"name": name, "family": number, "kind": kind, "base": base, **more,
                      "parameters": sum(int(np.prod(shape)) for _, shape, _ in tensors.values()),
                      "nbytes": sum(len(content) for _, _, content in tensors.values())})
    for one in facts:
        one["base"] = None if one["base"] is None else facts[one["base"]]["name"]
        if "of" in one:
            one["of"] = [facts[place]["name"] for place in one["of"]]
    return facts


def make(work, family_count, is_small, job_count):
    """Writes all of it, unless it is there; returns what is in truth.json."""
    path = os.path.join(work, "truth.json")
    options = {"families": family_count, "is_small": is_small}
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            truth = json.load(file)
        if truth["options"] == options:
            return truth
        os.unlink(path)
    shutil.rmtree(os.path.join(work, "models"), ignore_errors=True)
    os.makedirs(os.path.join(work, "models"))
    begin = time.perf_counter()
    with concurrent.futures.ProcessPoolExecutor(job_count) as pool:
        jobs = [pool.submit(write_family, work, number, is_small) for number in reversed(range(family_count))]
        models = [one for job in reversed(jobs) for one in job.result()]
    order = [one["name"] for one in models]
    random.Random(5).shuffle(order)
    truth = {"options": options, "numpy": np.__version__, "seconds": round(time.perf_counter() - begin, 1),
             "models": models, "order": order}
    with open(path, "w", encoding="ascii") as file:
        json.dump(truth, file, indent=1)
        file.write("\n")
    return truth


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("--families", type=int, choices=(1, 2, 3, 4), default=3)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    truth = make(arguments.work, arguments.families, arguments.small, arguments.jobs)
    for one in truth["models"]:
        print(f"{one['name']:24} {one['family']} {one['kind']:11} {one['nbytes']:10} {one['base'] or '-'}")


if __name__ == "__main__":
    main()
