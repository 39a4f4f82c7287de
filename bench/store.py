"""store.py - families of small models in `lmc-st store`, which finds bases itself, beside other ways to keep them.

    python3 bench/store.py BUILD [--work build/store-study] [--families 3] [--small] [--without-store] [--exhaustive]
                           [--jobs N] [--json FILE]
    python3 bench/store.py BUILD --dedupe [--work build/store-study] [--small] [--json FILE]

BUILD is a build folder. The models are made in --work, unless they are there: bench/store/families.py says what they
are. All are small (2 to 5 million parameters; --small: 0.2). Ways:

  plain files      copies
  zstd -3          each file
  chunks, LZ4      chunks cut by content, 64 KiB on average; each is stored once (bench/store/chunks.py)
  XOR zstd, raw    XOR with the tensor of equal name, dtype and shape of the true base; byte planes, zstd -1, pieces of
                   2 MiB. Other tensors are stored as they are
  XOR zstd, LMC    the same; lmc-st convert packs the other tensors
  FM-Delta         sizes only: the entropy of sign and bit length of the differences from the true base, and the bits
                   below; other tensors as in the row before
  LMC alone        lmc-st convert of each model
  LMC, true base   lmc-st convert --base, with chains
  LMC, best base   --exhaustive: the smallest of `alone` and all earlier models as base, each tried; sizes only
  LMC store        lmc-st store add in the order of arrival, which is random
  LMC store, plan  the same after lmc-st store plan --apply

Stored bytes of FM-Delta and of the best base are computed. For every other way each model is restored and compared.
Seconds are CPU seconds of this process and its commands, which use one core; a base is read from the store. `reads`
are the files that one restore needs, its bases' files as a whole; the mean of all models. The chunks' hash and the
XOR are NumPy, so speeds of these ways say little. A wrong base is one with which the store takes 1 % more than with
the best. --without-store leaves the last two ways out.

--dedupe: one of the 28 tensors of a model is replaced. How many bytes are new to a store of chunks that has the model,
as a plain file and as an archive? Needs numpy and zstandard.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402

from common import check_same, circumstances, command_line, write_report, write_tensors  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "store"))
import families  # noqa: E402
from chunks import ChunkStore, Lz4  # noqa: E402
from ways import Chunks, FmDelta, Lmc, Model, Plain, Store, Xor, Zstd, best_base, changed_share  # noqa: E402

DUPLICATE_SHARE = 0.02   # a model with a base that takes less is a duplicate
WRONG_SHARE = 0.01
CAUSES = ("alone", "delta", "duplicate")
BEST = "LMC, best base"
DEDUPE_TENSORS = 28
REPLACED = 13


# ---- measuring ----

def cpu_seconds():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def seconds_of(call, *arguments):
    begin = cpu_seconds()
    call(*arguments)
    return cpu_seconds() - begin


def use_one_core():
    """Commands inherit it, and start one thread a core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def by_lineage(models):
    """Each after its base."""
    ordered = {}
    while len(ordered) < len(models):
        ordered.update({name: None for name, one in models.items() if not one.base or one.base in ordered})
    return list(ordered)


def cause_of(stored_nbytes, nbytes, base):
    if stored_nbytes < DUPLICATE_SHARE * nbytes:
        return "duplicate"
    return "delta" if base else "alone"


def row_of(way_name, model, stored_nbytes, base, **more):
    return {"way": way_name, "model": model.name, "nbytes": model.nbytes, "stored_nbytes": stored_nbytes, "base": base,
            "cause": cause_of(stored_nbytes, model.nbytes, base), **more}


def measure(way, order, name=None, is_there=False):
    """Adds and restores all models; yields a row for each."""
    added = {one: None if is_there else seconds_of(way.add, way.models[one]) for one in order}
    for one in order:
        model, restored = way.models[one], None
        if way.is_verified:
            with tempfile.TemporaryDirectory(prefix="lmc-store-") as folder:
                back = os.path.join(folder, "back")
                restored = seconds_of(way.restore, model, back)
                check_same(model.place, back)
        yield row_of(name or way.name, model, way.stored_nbytes(model), way.base_of(model),
                     read_nbytes=way.read_nbytes(model), in_s=added[one], out_s=restored)


def measure_store(tool, folder, models, order):
    way = Store(folder, models, tool)
    yield from measure(way, order)
    seconds = seconds_of(way.call, "plan", "--apply")
    for row in measure(way, order, "LMC store, plan", is_there=True):
        yield {**row, "plan_s": seconds}


def measure_best(tool, models, order):
    """The best base of each, and how many were tried."""
    for place, name in enumerate(order):
        sizes = best_base(tool, models[name], [models[other] for other in order[:place]])
        base = min(sizes, key=sizes.get)
        yield row_of(BEST, models[name], sizes[base], base, tried=len(sizes) - 1)


def measure_all(tool, work, truth, is_exhaustive, has_store):
    """Yields rows; a way's files are removed after it."""
    models = {one["name"]: Model(os.path.join(work, "models", one["name"]), one) for one in truth["models"]}
    order, lineage = truth["order"], by_lineage(models)
    with tempfile.TemporaryDirectory(prefix="ways-", dir=work) as folder:
        def finish(way, in_order):
            yield from measure(way, in_order)
            shutil.rmtree(way.folder, ignore_errors=True)
            print(f"{way.name}: measured", file=sys.stderr)
        for kind in (Plain, Zstd, Chunks):
            yield from finish(kind(folder, models), order)
        yield from finish(Xor(folder, models), lineage)
        packed = Xor(folder, models, tool)
        yield from measure(packed, lineage)
        yield from finish(FmDelta(folder, models, packed), lineage)
        shutil.rmtree(packed.folder)
        yield from finish(Lmc(folder, models, tool, False), order)
        yield from finish(Lmc(folder, models, tool, True), lineage)
        if is_exhaustive:
            yield from measure_best(tool, models, order)
            print(f"{BEST}: measured", file=sys.stderr)
        if has_store:
            yield from measure_store(tool, folder, models, order)


def wrong_bases(rows):
    """way -> models that take 1 % more than with the best base."""
    best = {row["model"]: row["stored_nbytes"] for row in rows if row["way"] == BEST}
    return {way: [row["model"] for row in rows if row["way"] == way
                  and row["stored_nbytes"] > (1 + WRONG_SHARE) * best[row["model"]]]
            for way in dict.fromkeys(row["way"] for row in rows) if best and way.startswith("LMC store")}


# ---- tables ----

def mean_text(values, factor, digits):
    """Blank if there are none."""
    values = [value for value in values if value is not None]
    return f"{factor * sum(values) / len(values):.{digits}f}" if values else ""


def show_ways(rows):
    print(f"\n{'way':16} {'stored MB':>10} {'ratio':>7} {'in, s':>7} {'out, s':>7} {'reads MB':>9}   "
          + "  ".join(f"{cause + ': models, MB':>20}" for cause in CAUSES))
    for way in dict.fromkeys(row["way"] for row in rows):
        here = [row for row in rows if row["way"] == way]
        stored = sum(row["stored_nbytes"] for row in here)
        causes = [[row["stored_nbytes"] for row in here if row["cause"] == cause] for cause in CAUSES]
        print(f"{way:16} {stored / 1e6:10.2f} {stored / sum(row['nbytes'] for row in here):7.4f} "
              f"{mean_text([row.get('in_s') for row in here], len(here), 2):>7} "
              f"{mean_text([row.get('out_s') for row in here], len(here), 2):>7} "
              f"{mean_text([row.get('read_nbytes') for row in here], 1e-6, 2):>9}   "
              + "  ".join(f"{len(sizes):10} {sum(sizes) / 1e6:9.2f}" for sizes in causes))


def show_models(truth, rows, changed):
    """A line a model: what it is, the share of values that differ from the true base, and ratios."""
    ways = [way for way in dict.fromkeys(row["way"] for row in rows) if way not in ("plain files", "XOR zstd, raw")]
    ratios = {(row["way"], row["model"]): row["stored_nbytes"] / row["nbytes"] for row in rows}
    print(f"\n{'family':6} {'model':11} {'steps':>5} {'rate':>6} {'changed':>8}  "
          + "  ".join(f"{way.replace(', ', ' '):>15}" for way in ways))
    for one in truth["models"]:
        share = changed[one["name"]]
        print(f"{one['family']:6} {one['kind']:11} {one.get('steps', ''):5} {one.get('rate', ''):6} "
              f"{'' if share is None else f'{100 * share:.2f} %':>8}  "
              + "  ".join(f"{ratios[way, one['name']]:15.4f}" for way in ways))


def study(tool, arguments):
    truth = families.make(arguments.work, arguments.families, arguments.small, arguments.jobs)
    use_one_core()
    rows = list(measure_all(tool, arguments.work, truth, arguments.exhaustive, not arguments.without_store))
    models = {one["name"]: Model(os.path.join(arguments.work, "models", one["name"])) for one in truth["models"]}
    changed = {one["name"]: changed_share(models[one["name"]].tensors(), models[one["base"]].tensors())
               if one["base"] else None for one in truth["models"]}
    wrong = wrong_bases(rows)
    parameters = [one["parameters"] / 1e6 for one in truth["models"]]
    print(f"{len(truth['models'])} models of {arguments.families} families, "
          f"{sum(one.nbytes for one in models.values()) / 1e6:.1f} MB; all are small: {min(parameters):.1f} to "
          f"{max(parameters):.1f} million parameters")
    show_ways(rows)
    show_models(truth, rows, changed)
    for way, names in wrong.items():
        print(f"\n{way}: {len(names)} wrong bases{': ' if names else ''}{', '.join(names)}")
    return {"truth": truth, "chunks": Lz4().name, "changed": changed, "wrong_bases": wrong, "rows": rows}


# ---- archives in stores of chunks ----

def new_nbytes(paths):
    """Of the second file: bytes of chunks that the first does not have, and all its bytes."""
    with tempfile.TemporaryDirectory(prefix="lmc-store-") as folder:
        store = ChunkStore(os.path.join(folder, "chunks"))
        store.add(paths[0], "old")
        return store.add(paths[1], "new")[0], os.path.getsize(paths[1])


def dedupe(tool, arguments):
    """One of 28 equal matrices of normally distributed BF16 values is replaced."""
    width, random = 256 if arguments.small else 1024, np.random.default_rng(1)

    def matrix():
        values = random.standard_normal((width, width), np.float32) * 0.02
        return "BF16", values.shape, families.rounded_bits(values).tobytes()
    tensors = {f"layers.{number}.weight": matrix() for number in range(DEDUPE_TENSORS)}
    changed = {**tensors, f"layers.{REPLACED}.weight": matrix()}
    rows = []
    with tempfile.TemporaryDirectory(prefix="lmc-store-") as folder:
        plain, archives = ([os.path.join(folder, name + suffix) for name in ("old", "new")]
                           for suffix in (".safetensors", ".lmc"))
        for path, archive, content in zip(plain, archives, (tensors, changed)):
            write_tensors(path, content)
            subprocess.run([tool, "convert", "-q", path, "-o", archive], check=True)
        for name, paths in (("plain files", plain), ("archives", archives)):
            new, total = new_nbytes(paths)
            rows.append({"what": name, "nbytes": total, "new_nbytes": new})
    print(f"one of {DEDUPE_TENSORS} tensors of {width} x {width} BF16 values replaced, chunks of 64 KiB on average\n")
    for row in rows:
        print(f"{row['what']:12} {row['nbytes']:10} bytes, new {row['new_nbytes']:9}: "
              f"{row['new_nbytes'] / row['nbytes']:.4f}")
    return {"tensors": DEDUPE_TENSORS, "tensor_nbytes": 2 * width * width, "rows": rows}


def main():
    parser = command_line(__doc__, 1, "build")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "store-study"))
    parser.add_argument("--families", type=int, choices=(1, 2, 3, 4), default=3)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    for name in ("--small", "--without-store", "--exhaustive", "--dedupe"):
        parser.add_argument(name, action="store_true")
    arguments = parser.parse_args()
    tool = os.path.join(arguments.build, "tool", "lmc-st")
    report = {**circumstances(arguments.build), **(dedupe if arguments.dedupe else study)(tool, arguments)}
    write_report(arguments.json, report)


if __name__ == "__main__":
    main()
