"""store.py - families of small models in `lmc-st store`, which finds bases itself, beside other ways to keep them.

    python3 bench/store.py BUILD [--work build/store-study] [--families 3] [--small] [--without-store] [--exhaustive]
                           [--depth N] [--jobs N] [--json FILE]
    python3 bench/store.py BUILD --dedupe [--work build/store-study] [--small] [--json FILE]

BUILD is a build folder. The models are made in --work, unless they are there: bench/store/families.py says what they
are. All are small (2 to 5 million parameters; --small: 0.2). Ways:

  plain files      copies
  zstd -3          each file
  chunks, LZ4      chunks cut by content, 64 KiB on average; each is stored once (bench/store/chunks.py)
  XOR zstd, raw    XOR with the tensor of equal name, dtype and shape of the true base; byte planes, zstd -1,
                   pieces of 2 MiB. Other tensors are stored as they are
  XOR zstd, LMC    the same; lmc-st convert packs the other tensors
  FM-Delta         sizes only: the entropy of sign and bit length of the differences from the true base, and the bits
                   below; other tensors as in the row before
  LMC alone        lmc-st convert of each model
  LMC, true base   lmc-st convert --base, with chains
  LMC, best base   --exhaustive: the smallest of `alone` and all earlier models as base, each tried; sizes only
  LMC store        lmc-st store add in the order of arrival, which is random
  LMC store, plan  the same after lmc-st store plan --apply

A base counts as the true one if at least half of the tensors have one of equal name, shape and dtype there; BF16
tensors may be based on F32 ones. The cause of a model's size: it is a duplicate of a base (or its chunks were there), a
delta, or stands alone. A wrong base is one with which the store takes 1 % more than with the best.

Sizes of FM-Delta and of the best base are computed; for every other way each model is restored and compared. Seconds
are CPU seconds of this process and its commands, which use one core; bases are read from the store. The chunks' hash
and the XOR are NumPy, so seconds of these ways say little. `reads` are the files that one restore needs, with those of
its bases as a whole: the mean of all models. --without-store leaves the last two ways out.

--dedupe: one of 28 matrices of a model is replaced. How many bytes are new to a store of chunks that has the model, as
a plain file and as an archive? Needs numpy and zstandard.
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

from common import check_same, circumstances, command_line, size_text, write_report, write_tensors  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "store"))
import families  # noqa: E402
from chunks import ChunkStore, Lz4  # noqa: E402
from ways import Chunks, FmDelta, Lmc, Model, Plain, Store, Xor, Zstd  # noqa: E402
from ways import ALONE, best_base, changed_share, may_be_base  # noqa: E402

DUPLICATE_SHARE = 0.001  # a model without a base that takes less was there before
WRONG_SHARE = 0.01
CAUSES = ("alone", "delta", "duplicate")
BEST = "LMC, best base"
DEDUPE_TENSORS = 28
DEDUPE_WIDTHS = (256, 28), (512, 28), (1024, 7)  # of a matrix, and how many models with another one replaced


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


class Study:
    """The models, what is known of pairs of them, and the rows."""

    def __init__(self, tool, work, truth):
        self.tool, self.work, self.truth, self.rows, self.shares = tool, work, truth, [], {}
        self.models = {one["name"]: Model(os.path.join(work, "models", one["name"]), one) for one in truth["models"]}
        for model in self.models.values():
            if model.base and not may_be_base(model.shapes(), self.models[model.base].shapes()):
                model.base = None
        self.order, self.lineage = truth["order"], by_lineage(self.models)

    def changed_share(self, name, base):
        """Of the values of a model; None if the base has another dtype."""
        if (name, base) not in self.shares:
            self.shares[name, base] = changed_share(*(self.models[one].tensors() for one in (name, base)))
        return self.shares[name, base]

    def cause_of(self, name, share, bases):
        if not bases:
            return "duplicate" if share < DUPLICATE_SHARE else "alone"
        return "duplicate" if any(self.changed_share(name, base) == 0 for base in bases) else "delta"

    def add_row(self, way, name, stored_nbytes, bases, **more):
        nbytes = self.models[name].nbytes
        self.rows.append({"way": way, "model": name, "nbytes": nbytes, "stored_nbytes": stored_nbytes, "bases": bases,
                          "cause": self.cause_of(name, stored_nbytes / nbytes, bases), **more})

    def measure(self, way, order, name=None, is_there=False):
        """Adds all models, restores and compares them."""
        added = {one: None if is_there else seconds_of(way.add, self.models[one]) for one in order}
        for one in order:
            model, restored = self.models[one], None
            if way.is_verified:
                with tempfile.TemporaryDirectory(prefix="lmc-store-") as folder:
                    back = os.path.join(folder, "back")
                    restored = seconds_of(way.restore, model, back)
                    check_same(model.place, back)
            self.add_row(name or way.name, one, way.stored_nbytes(model), way.bases_of(model),
                         read_nbytes=way.read_nbytes(model), in_s=added[one], out_s=restored)
        print(f"{name or way.name}: measured", file=sys.stderr)

    def measure_best(self):
        """The best base of each, and bytes with all that were tried."""
        for place, name in enumerate(self.order):
            sizes = best_base(self.tool, self.models[name], [self.models[other] for other in self.order[:place]])
            base = min(sizes, key=sizes.get)
            self.add_row(BEST, name, sizes[base], [] if base == ALONE else [base], tried=sizes)
        print(f"{BEST}: measured", file=sys.stderr)

    def measure_store(self, folder, depth):
        """Returns the seconds of the plan."""
        way = Store(folder, self.models, self.tool, depth)
        self.measure(way, self.order)
        seconds = seconds_of(way.call, "plan", "--apply", *way.depth)
        self.measure(way, self.order, "LMC store, plan", is_there=True)
        return seconds

    def measure_others(self, folder):
        """All ways but the store; the files of a way are removed after it."""
        for way, order in ((Plain, self.order), (Zstd, self.order), (Chunks, self.order), (Xor, self.lineage)):
            way = way(folder, self.models)
            self.measure(way, order)
            shutil.rmtree(way.folder)
        packed = Xor(folder, self.models, self.tool)
        self.measure(packed, self.lineage)
        self.measure(FmDelta(folder, self.models, packed), self.lineage)
        shutil.rmtree(packed.folder)
        for is_based in (False, True):
            way = Lmc(folder, self.models, self.tool, is_based)
            self.measure(way, self.lineage)
            shutil.rmtree(way.folder)

    def changed_shares(self):
        """Name -> the share of values that differ from the true base."""
        return {one["name"]: one["base"] and self.changed_share(one["name"], one["base"]) for one in
                self.truth["models"]}

    def wrong_bases(self):
        """Way -> models with a wrong base: what it takes, and the best base. A base that was tried counts as it was
        tried, so that the store's own bytes (names, hashes) do not."""
        best, found = {row["model"]: row for row in self.rows if row["way"] == BEST}, {}
        for row in self.rows:
            if best and row["way"].startswith("LMC store"):
                wrong, one = found.setdefault(row["way"], []), best[row["model"]]
                tried = one["tried"].get(row["bases"][0] if row["bases"] else ALONE) if len(row["bases"]) < 2 else None
                nbytes = min(row["stored_nbytes"], tried or row["stored_nbytes"])
                if nbytes > (1 + WRONG_SHARE) * one["stored_nbytes"]:
                    wrong.append({"model": row["model"], "bases": row["bases"], "nbytes": nbytes,
                                  "best_bases": one["bases"], "best_nbytes": one["stored_nbytes"]})
        return found


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


def show_wrong(way, models, faults):
    def text(names):
        return ", ".join(models[name].facts["kind"] for name in names) or ALONE
    print(f"\n{way}: {len(faults)} wrong bases of {len(models)}")
    for one in faults:
        facts = models[one["model"]].facts
        print(f"  {facts['family']} {facts['kind']:11} {one['nbytes']:9} bytes ({text(one['bases'])}); "
              f"the best {one['best_nbytes']:9} ({text(one['best_bases'])})")


def study(tool, arguments):
    truth = families.make(arguments.work, arguments.families, arguments.small, arguments.jobs)
    use_one_core()
    one = Study(tool, arguments.work, truth)
    plan_s = None
    with tempfile.TemporaryDirectory(prefix="ways-", dir=arguments.work) as folder:
        one.measure_others(folder)
        if arguments.exhaustive:
            one.measure_best()
        if not arguments.without_store:
            plan_s = one.measure_store(folder, arguments.depth)
    wrong, changed = one.wrong_bases(), one.changed_shares()
    parameters = [facts["parameters"] / 1e6 for facts in truth["models"]]
    print(f"{len(one.models)} models of {arguments.families} families, "
          f"{sum(model.nbytes for model in one.models.values()) / 1e6:.1f} MB; all are small: {min(parameters):.1f} to "
          f"{max(parameters):.1f} million parameters")
    show_ways(one.rows)
    show_models(truth, one.rows, changed)
    for way, faults in wrong.items():
        show_wrong(way, one.models, faults)
    if plan_s is not None:
        print(f"\nlmc-st store plan --apply: {plan_s:.2f} s")
    return {"truth": truth, "chunks": Lz4().name, "changed": changed, "wrong_bases": wrong, "plan_s": plan_s,
            "rows": one.rows}


# ---- archives in stores of chunks ----

def random_matrix(random, width):
    values = random.standard_normal((width, width), np.float32) * 0.02
    return "BF16", values.shape, families.rounded_bits(values).tobytes()


def dedupe_width(tool, width, replaced_count):
    """A model of 28 equal matrices of normally distributed BF16 values. Yields a row for files and one for archives:
    the means for several models, in each of which another matrix is replaced."""
    random = np.random.default_rng(width)
    tensors = {f"layers.{number}.weight": random_matrix(random, width) for number in range(DEDUPE_TENSORS)}
    new_nbytes, nbytes = [0, 0], [0, 0]
    with tempfile.TemporaryDirectory(prefix="lmc-store-") as folder:
        paths = [os.path.join(folder, name) for name in ("model.safetensors", "model.safetensors.lmc")]
        stores = [ChunkStore(os.path.join(folder, name)) for name in ("plain", "archives")]

        def write(content):
            write_tensors(paths[0], content)
            subprocess.run([tool, "convert", "-q", "-f", "--no-fsync", *paths[:1], "-o", paths[1]], check=True)
        write(tensors)
        for store, path in zip(stores, paths):
            store.add(path, "model")
        for place in range(replaced_count):
            name = f"layers.{place * DEDUPE_TENSORS // replaced_count}.weight"
            write({**tensors, name: random_matrix(random, width)})
            for number, (store, path) in enumerate(zip(stores, paths)):
                new_nbytes[number] += store.new_nbytes(path) / replaced_count
                nbytes[number] += os.path.getsize(path) / replaced_count
    for what, new, total in zip(("plain files", "archives"), new_nbytes, nbytes):
        yield {"what": what, "tensor_nbytes": 2 * width * width, "nbytes": total, "new_nbytes": new,
               "new_share": new / total}


def dedupe(tool, arguments):
    rows = []
    print(f"one of {DEDUPE_TENSORS} equal matrices replaced: new bytes / all bytes, chunks of 64 KiB on average\n\n"
          f"{'a matrix':12} {'plain files':>12} {'archives':>12}")
    for width, replaced_count in DEDUPE_WIDTHS[:1] if arguments.small else DEDUPE_WIDTHS:
        rows += dedupe_width(tool, width, replaced_count)
        print(f"{size_text(2 * width * width):12} " + " ".join(f"{row['new_share']:12.4f}" for row in rows[-2:]))
    return {"tensor_count": DEDUPE_TENSORS, "rows": rows}


def main():
    parser = command_line(__doc__, 1, "build")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "store-study"))
    parser.add_argument("--families", type=int, choices=(1, 2, 3, 4), default=3)
    parser.add_argument("--depth", type=int, help="of the store; default: its own")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    for name in ("--small", "--without-store", "--exhaustive", "--dedupe"):
        parser.add_argument(name, action="store_true")
    arguments = parser.parse_args()
    tool = os.path.join(arguments.build, "tool", "lmc-st")
    report = {**circumstances(arguments.build), **(dedupe if arguments.dedupe else study)(tool, arguments)}
    write_report(arguments.json, report)


if __name__ == "__main__":
    main()
