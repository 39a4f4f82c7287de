"""optimizer_states.py - what other codes would bring for Adam's moments: prototypes on a pair of optimizer files.

    python3 bench/study/optimizer_states.py OLD NEW [--steps 10] [--betas 0.9 0.95] [--weights OLD NEW] [--tool LMC-ST]
                                            [--tensors]

OLD and NEW are safetensors files of one training, NEW so many --steps after OLD. Tensors with "exp_avg_sq" in their
names are second moments (v), others with "exp_avg" first moments (m). A row of the table is an idea, summed over the
F32 matrices of at least 16384 values: stored bits per value, and as a part of these tensors' bytes. --tensors has a
table for each of them. --weights: files with the F32 weights of the same steps, named like the moments without their
first part. --tool: an lmc-st, whose ratios are "today".

Three kinds of rows, to be compared within a kind only:

  size   bytes that a frame could have. The high part of a magnitude (exponent and 7 bits) less a prediction is cut into
         a symbol and p low bits, p = 3 to 6. Symbols cost Huffman codes of one table (or one for each class) and the
         bytes of the tables: 5 bits for each symbol of its range; symbols beyond 255 cost 16 bits more. Everything
         below is stored. Row and column values count, and 32 bytes of head, 24 of plan and check, 20 for each block of
         2^16. First keys of classes do not.
  today  what lmc-st makes of these matrices, in a file of their own (with its prefix codes and its own estimates).
  bound  a real-valued prediction and an ideal arithmetic coder: differential entropies with 200 bins, of which each
         costs half a logarithm of the count. No format reaches it; it says whether a format is worth the trouble.

Nothing here is decoded; predictions use only what a decoder has at that point, or what is counted. Needs numpy.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import huffman_nbits, read_tensors, write_tensors  # noqa: E402

VALUE_COUNT_MIN = 16384
BLOCK_LOG2 = 16
HEAD_NBYTES, PLAN_NBYTES, INDEX_ENTRY_NBYTES = 32, 24, 20  # the plan with the check
LOW_NBITS = (3, 4, 5, 6)
OCTAVE = 128  # steps of a high part
STEP = 16  # of a row or column value, in high parts: an eighth of an octave
CLASS_COUNT = 8
BIN_COUNT = 200


# ---- files ----

def read_matrices(path):
    """name -> an F32 array of two dimensions, for the matrices that count."""
    matrices = {}
    for name, dtype, shape, content in read_tensors(path):
        if dtype != "F32" or len(shape) < 2 or len(content) // 4 < VALUE_COUNT_MIN:
            continue
        matrices[name] = np.frombuffer(content, np.float32).reshape(-1, int(np.prod(shape[1:])))
    return matrices


def today(tool, old, new):
    """name -> ratio of lmc-st, alone and with a base, with more digits than it prints."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("old", "new")]
        for path, matrices in zip(paths, (old, new)):
            write_tensors(path, {name: ("F32", values.shape, values.tobytes()) for name, values in matrices.items()})
        ratios = []
        for files in (paths[1:], paths):
            text = subprocess.run([tool, "analyze", "--json", *files], stdout=subprocess.PIPE, check=True).stdout
            ratios.append({one["name"]: one["ratio"] for one in json.loads(text)[-1]["tensors"]})
    return {name: (ratios[0][name], ratios[1][name]) for name in new}


# ---- sizes ----

def table_nbits(symbols):
    """Code words, table and escapes of the symbols of one class. The window of 255 is around the middle."""
    if symbols.size == 0:
        return 0
    first = max(int(symbols.min()), int(np.median(symbols)) - 127)
    inside = symbols[(symbols >= first) & (symbols < first + 255)] - first
    escape_count = symbols.size - inside.size
    counts = np.append(np.bincount(inside), escape_count)
    return huffman_nbits(counts) + 5 * counts.size + 8 * 3 + 16 * escape_count


def coded_nbits(differences, classes=None, low_nbits=LOW_NBITS):
    """Bits of high parts less their prediction; the best number of low bits. Below 16 bits are stored."""
    differences = differences.ravel()
    classes = np.zeros(differences.size, int) if classes is None else classes.ravel()
    best = None
    for p in low_nbits:
        symbols = differences >> p
        nbits = p * symbols.size + sum(table_nbits(symbols[classes == c]) for c in range(classes.max() + 1))
        best = nbits if best is None else min(best, nbits)
    return best + 16 * differences.size


def frame_nbits(value_count):
    blocks = -(-value_count >> BLOCK_LOG2)
    return 8 * (HEAD_NBYTES + PLAN_NBYTES + INDEX_ENTRY_NBYTES * blocks)


class Offsets:
    """Row and column values of high parts, as format.md 4.1 has them."""

    def __init__(self, high):
        centre = high.mean()
        self.rows = np.rint((high.mean(1) - centre) / STEP).astype(int)
        self.columns = np.rint((high.mean(0) - centre) / STEP).astype(int)
        self.sum = int(centre) + STEP * (self.rows[:, None] + self.columns)
        self.nbits = sum(values.size * int(np.ptp(values)).bit_length() for values in (self.rows, self.columns))


def high_parts(values):
    """Exponent and 7 bits of the mantissa, as integers."""
    return (values.view(np.uint32) >> 16 & 0x7fff).astype(int)


def classes_of(key, count=CLASS_COUNT):
    """Classes of equal size by a key that the decoder has; their first keys are in the plan."""
    return np.searchsorted(np.quantile(key, np.arange(1, count) / count), key, side="right")


# ---- bounds ----

def entropy(values, classes=None):
    """Differential entropy in bits a value, with the cost of its bins."""
    values = np.asarray(values).ravel()
    classes = np.zeros(values.size, int) if classes is None else np.asarray(classes).ravel()
    total = 0.0
    for c in np.unique(classes):
        part = np.sort(values[classes == c])
        bins = min(BIN_COUNT, max(8, part.size // 100))
        places = np.linspace(0, part.size - 1, bins + 1).astype(int)
        counts, widths = np.diff(places), np.maximum(np.diff(part[places]), 1e-12)
        used = counts > 0
        total += (counts[used] * np.log2(widths[used] * part.size / counts[used])).sum()
        total += bins * np.log2(part.size) / 2
    return total / values.size


def logarithm(values):
    return np.log2(np.maximum(np.abs(values), 2.0**-149))


def resolution(values):
    """Mean of log2 of the unit in the last place."""
    return (np.maximum(np.floor(logarithm(values)), -126) - 23).mean()


def logarithm_bound(values, differences, classes=None):
    """Bits a magnitude, if log2 of it less a prediction is coded: the density of x is that of log2 x, over x ln 2."""
    return entropy(differences, classes) + (logarithm(values) + np.log2(np.log(2))).mean() - resolution(values)


def linear_bound(values, prediction, scale, classes=None):
    """Bits a value with its sign, if (x - prediction) / 2^scale is coded."""
    return entropy((values - prediction) / 2.0**scale, classes) + scale.mean() - resolution(values)


# ---- ideas ----

def both_moments(high, old_high):
    """Yields (idea, kind, bits without signs) that serve m and v: alone, and with the base's magnitudes."""
    count = high.size
    frame = frame_nbits(count)
    offsets = Offsets(high)
    residue, old_residue = high - offsets.sum, old_high - offsets.sum
    yield "alone, no offsets", "size", coded_nbits(high) + frame
    yield "alone, offsets", "size", coded_nbits(residue) + offsets.nbits + frame
    yield "A2 offsets, classes by base - offsets", "size", \
        coded_nbits(residue, classes_of(old_residue)) + offsets.nbits + frame
    difference = high - old_high
    exponents = np.clip((old_high >> 7) - int(np.quantile(old_high >> 7, 0.01)), 0, 15)
    zigzag = np.where(difference < 0, -2 * difference - 1, 2 * difference)
    yield "today's delta, a table for each class", "size", coded_nbits(zigzag, exponents) + frame
    yield "B1 high part - base", "size", coded_nbits(difference) + frame
    yield "B2 high part - base, classes by exponent", "size", coded_nbits(difference, exponents) + frame
    yield "B3 high part given the base's, adaptive", "size", conditional_nbits(high, old_high) + frame
    for name, classes in (("A1 high part - blend of base, offsets", None),
                          ("A3 the same, 4 classes by base - offsets", classes_of(old_residue, 4))):
        blends = [offsets.sum + (eighths * old_residue >> 3) for eighths in range(1, 9)]
        yield name, "size", min(coded_nbits(high - blend, classes) for blend in blends) + offsets.nbits + frame
    old_offsets = Offsets(old_high)
    yield "A4 as A1, offsets from the base itself", "size", frame + min(
        coded_nbits(high - old_offsets.sum - (eighths * (old_high - old_offsets.sum) >> 3)) for eighths in range(1, 9))


def conditional_nbits(high, old_high):
    """An adaptive code for eighths of an octave, given the quarter octave of the base, without tables."""
    symbols, contexts = (high >> 4).ravel(), (old_high >> 5).ravel()
    symbols, contexts = symbols - symbols.min(), contexts - contexts.min()
    total = 0.0
    alphabet = symbols.max() + 1
    for context in np.unique(contexts):
        counts = np.bincount(symbols[contexts == context], minlength=alphabet)
        total += adaptive_nbits(counts, 1 / 16)
    return total + (16 + 4) * high.size


def adaptive_nbits(counts, first):
    """-log2 of the product of (count so far + first) / (all so far + first * alphabet); order does not matter."""
    def log2_rising(start, count):
        return np.log2(start + np.arange(count)).sum()
    apart = sum(log2_rising(first, count) for count in counts[counts > 0])
    return log2_rising(first * counts.size, counts.sum()) - apart


def gained_since(x, base, decay):
    """What v gained: x - decay * base, at least half a unit in the last place."""
    return np.maximum(x - decay * base.astype(float), x * 2.0**-24)


def second_moment(new, old, decay):
    """Yields (idea, kind, bits) for v. x is decay times the base plus a sum of squares, which is not negative."""
    count = new.size
    high, old_high = high_parts(new), high_parts(old)
    yield from both_moments(high, old_high)
    x, b = new.astype(float), old.astype(float)
    log_x, log_b = logarithm(x), logarithm(b)
    offsets = Offsets(high)
    mean = offsets.sum / OCTAVE - 127
    yield "alone, offsets", "bound", logarithm_bound(x, log_x - mean) * count + offsets.nbits
    yield "B log - log of base", "bound", logarithm_bound(x, log_x - log_b) * count
    columns = [log_b.ravel(), mean.ravel(), np.ones(count)]
    fit = np.linalg.lstsq(np.stack(columns, 1), log_x.ravel(), rcond=None)[0]
    blend = (fit[0] * log_b + fit[1] * mean + fit[2])
    yield "A1 log - blend of logs", "bound", logarithm_bound(x, log_x - blend) * count + offsets.nbits
    yield "A3 the same, 4 classes", "bound", \
        logarithm_bound(x, log_x - blend, classes_of(log_b - mean, 4)) * count + offsets.nbits
    gained = gained_since(x, b, decay)
    log_gained = logarithm(gained)
    gained_offsets = Offsets((log_gained * OCTAVE).astype(int))
    residue = log_gained - gained_offsets.sum / OCTAVE
    bits = entropy(residue) + (log_gained + np.log2(np.log(2))).mean() - resolution(x)
    yield "E x - decay * base, offsets of that", "bound", bits * count + gained_offsets.nbits
    gained_high = high_parts(gained.astype(np.float32))
    gained_offsets = Offsets(gained_high)
    fewer_bits = ((high >> 7) - (gained_high >> 7)).sum()  # below a symbol, as its unit is smaller than that of x
    yield "E x - decay * base, offsets of that", "size", \
        coded_nbits(gained_high - gained_offsets.sum) - fewer_bits + gained_offsets.nbits + frame_nbits(count)


def first_moment(new, old, v, old_v, decays):
    """Yields (idea, kind, bits) for m. v: the second moment at the same step, known before."""
    count = new.size
    high, old_high = high_parts(new), high_parts(old)
    for idea, kind, nbits in both_moments(high, old_high):
        yield idea, kind, nbits + count
    frame = frame_nbits(count)
    offsets = Offsets(high)
    residue, old_residue = high - offsets.sum, old_high - offsets.sum
    flips = (new < 0) != (old < 0)
    large = classes_of(old_residue, 4)
    yield "D signs given base's, by its size; offsets", "size", \
        coded_nbits(residue) + sign_nbits(flips, large) + offsets.nbits + frame
    yield "D the same, classes by base's size and sign", "size", \
        coded_nbits(residue, 2 * large + flips) + sign_nbits(flips, large) + offsets.nbits + frame
    x, b = new.astype(float), old.astype(float)
    mean = offsets.sum / OCTAVE - 127
    yield "alone, offsets", "bound", linear_bound(x, 0, mean) * count + offsets.nbits
    share = decays[0]
    yield "D x - decay * base, offsets", "bound", linear_bound(x, share * 0.75 * b, mean) * count + offsets.nbits
    if v is None:
        return
    half_high = high_parts(v) >> 1
    yield "C1 high part - half of v's", "size", coded_nbits(high - half_high) + count + frame
    joint = high - half_high
    joint_offsets = Offsets(joint)
    yield "C1 the same, offsets", "size", coded_nbits(joint - joint_offsets.sum) + joint_offsets.nbits + count + frame
    v_residue = half_high - Offsets(half_high).sum
    yield "C2 offsets, classes by v - its offsets", "size", \
        coded_nbits(residue, classes_of(v_residue)) + offsets.nbits + count + frame
    scale, old_scale = logarithm(v) / 2, logarithm(old_v) / 2
    yield "C x / sqrt v", "bound", linear_bound(x, 0, scale) * count
    yield "C x - decay * base, / sqrt v", "bound", linear_bound(x, share * 0.75 * b, scale) * count
    yield "C x / sqrt of v's base", "bound", linear_bound(x, 0, old_scale) * count
    gained = logarithm(gained_since(v, old_v, decays[1])) / 2
    yield "E x - decay * base, / sqrt(v - decay v's base)", "bound", linear_bound(x, share * b, gained) * count


def from_weights(new, old, v, old_v, weights, old_weights, decays):
    """Yields (idea, kind, bits) for m: the weights' change is a sum of m / sqrt v over the steps between."""
    x, b = new.astype(float), old.astype(float)
    scale = logarithm(v) / 2
    moved = (weights.astype(float) - old_weights) * np.sqrt(v.astype(float))
    parts = np.stack([(part / 2.0**scale).ravel() for part in (moved, b, old_weights * 2.0**scale)], 1)
    fit = np.linalg.lstsq(parts, (x / 2.0**scale).ravel(), rcond=None)[0]
    prediction = (parts @ fit).reshape(x.shape) * 2.0**scale
    gained = logarithm(gained_since(v, old_v, decays[1])) / 2
    high, half_high = high_parts(new), high_parts(v) >> 1
    flips = (new < 0) != (prediction < 0)
    large = classes_of(logarithm(prediction) - scale)
    yield "F high part - half of v's, classes and signs by fit", "size", \
        coded_nbits(high - half_high, 2 * large + flips) + sign_nbits(flips, large) + frame_nbits(x.size)
    yield "F x - fit of weights' change and base, / sqrt v", "bound", linear_bound(x, prediction, scale) * x.size
    yield "F the same, / sqrt(v - decay v's base)", "bound", linear_bound(x, prediction, gained) * x.size


def from_gradient(new_v, old_v, new, old, betas):
    """Yields (idea, kind, bits) for v one step later: both moments of the base and m tell the gradient."""
    beta1, beta2 = betas
    gradient = (new.astype(float) - beta1 * old) / (1 - beta1)
    guess = (beta2 * old_v + (1 - beta2) * gradient**2).astype(np.float32)
    difference = new_v.view(np.uint32).astype(int) - guess.view(np.uint32).astype(int)
    zigzag = np.where(difference < 0, -2 * difference - 1, 2 * difference)
    key = np.abs(new) / np.maximum(np.abs(gradient), 1e-30)  # large: the gradient is known to few bits
    classes = classes_of(key.ravel())
    nbits = 0
    for c in range(CLASS_COUNT):
        part = zigzag.ravel()[classes == c]
        nbits += min(table_nbits(part >> k) + k * part.size for k in range(24)) if part.size else 0
    yield "G difference from the step computed again", "size", nbits + frame_nbits(new_v.size)


def sign_nbits(flips, classes):
    """Flags of signs that are not as predicted, by class."""
    total = 0.0
    for c in range(classes.max() + 1):
        part = flips[classes == c]
        share = part.mean() if part.size else 0.0
        if 0 < share < 1:
            total -= part.size * (share * np.log2(share) + (1 - share) * np.log2(1 - share))
    return total


# ---- the table ----

def partner(name, moments):
    """The second moment of a first moment."""
    return moments.get(name.replace("exp_avg", "exp_avg_sq"))


def weight_of(name, weights):
    return weights.get(name.split(".", 1)[-1]) if weights else None


def measure(arguments):
    """Yields (tensor, moment, values, idea, kind, bits)."""
    old, new = read_matrices(arguments.old), read_matrices(arguments.new)
    names = [name for name in new if "exp_avg" in name and name in old and old[name].shape == new[name].shape]
    weights = [read_matrices(path) for path in arguments.weights or ()]
    beta1, beta2 = arguments.betas
    decays = beta1**arguments.steps, beta2**arguments.steps
    ratios = today(arguments.tool, {k: old[k] for k in names}, {k: new[k] for k in names}) if arguments.tool else {}
    for name in names:
        moment = "v" if "exp_avg_sq" in name else "m"
        x, b = new[name], old[name]
        for text, ratio in zip(("today alone (lmc-st)", "today with a base (lmc-st)"), ratios.get(name, ())):
            yield name, moment, x.size, text, "today", ratio * 32 * x.size
        if moment == "v":
            rows = list(second_moment(x, b, decays[1]))
            m = name.replace("exp_avg_sq", "exp_avg")
            if arguments.steps == 1 and m in names:
                rows += from_gradient(x, b, new[m], old[m], arguments.betas)
        else:
            v, old_v = partner(name, new), partner(name, old)
            rows = list(first_moment(x, b, v, old_v, decays))
            both = [weight_of(name, one) for one in weights]
            if v is not None and both and all(one is not None for one in both):
                rows += from_weights(x, b, v, old_v, both[1], both[0], decays)
        for idea, kind, nbits in rows:
            yield name, moment, x.size, idea, kind, nbits


def show(title, rows):
    """rows: (moment, values, idea, kind, bits)"""
    print(f"\n{title}\n\n{'':2}{'idea':50} {'kind':6} {'bits/value':>10} {'ratio':>8}")
    sums = {}
    for moment, count, idea, kind, nbits in rows:
        total = sums.setdefault((moment, idea, kind), [0, 0])
        total[0] += count
        total[1] += nbits
    for (moment, idea, kind), (count, nbits) in sorted(sums.items(), key=lambda item: item[0][0]):
        print(f"{moment} {idea:50} {kind:6} {nbits / count:10.3f} {nbits / count / 32:8.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--betas", type=float, nargs=2, default=(0.9, 0.95))
    parser.add_argument("--weights", nargs=2, metavar=("OLD", "NEW"))
    parser.add_argument("--tool", metavar="LMC-ST")
    parser.add_argument("--tensors", action="store_true")
    arguments = parser.parse_args()
    rows = list(measure(arguments))
    if not rows:
        raise SystemExit("optimizer_states.py: the files have no common moments")
    if arguments.tensors:
        for name in dict.fromkeys(row[0] for row in rows):
            show(name, [row[1:] for row in rows if row[0] == name])
    show(f"all {len({row[0] for row in rows})} matrices, {arguments.steps} steps apart", [row[1:] for row in rows])


if __name__ == "__main__":
    main()
