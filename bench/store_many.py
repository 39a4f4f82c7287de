"""store_many.py - how long it takes to add many models to a store at a URL with many workers, and what limits it:
lmcodec.store.add_many(), from the speeds of its parts on this machine.

    python3 bench/store_many.py [--models 10000] [--gigabytes 15] [--tensors 300] [--family 20] [--workers 1 10 ...]
                                [--link 1.25] [--total 100] [--at-urls] [--index-models 300 3000] [--rounds 3]
                                [--json FILE]

Measured here: the tasks and the caller's calls of add_many() on small models of --tensors tensors (300): sketching one,
merging one into an index of --index-models models, two sizes; predicting one; arranging --models models in families of
--family; encoding alone and on a base, one thread. With the package distributed, also what its scheduler takes for a
task.

Computed: a call for --models models of --gigabytes GB each on --workers workers of one core. Assumptions:

- Models are on a file system that all workers read, of which sketches read little; --at-urls: in the object store, from
  which a model is fetched for its sketches, and again when it is stored.
- A worker has --link GB/s to object store and file system, and all together --total GB/s (0: no limit). Bytes that are
  read or put take that time, beside the work; a request takes 50 ms, and a task makes some one after another.
- Sizes of models vary: GB times exp(normal number with a standard deviation of 0.5).
- Tasks go to workers in order, as soon as one is free. The scheduler hands out one task after another. The caller
  takes results one after another, while tasks go on. A phase begins when the one before has ended.
- A merge into an index takes time in proportion to the two measured sizes between them, and beyond as from there on.
- One of --family models is stored alone, at 0.66 of its bytes, the others at 0.3 on that one.

Each phase tells its seconds, and what most of them are spent on: `workers` (their cores), `link`, `store` (its total
speed), `scheduler` or `caller`. Needs numpy; the library as for the package. Results go to --json, too.
"""

import heapq
import os
import sys
import tempfile
import time

import numpy

from common import circumstances, command_line, write_report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python"))
REQUEST_S = 0.05
ALONE_RATIO, DELTA_RATIO = 0.66, 0.3
SCHEDULER_S = 1e-3  # of a task, where `distributed` is not installed
TASKS_MAX = 256  # that predict, as in add_many()


# ---- what is measured ----

def seconds(function, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(folder, options):
    """Seconds of the parts, and bytes of an index."""
    import lmcodec.numpy
    from lmcodec._remote import add_many
    random, tensors, rounds = numpy.random.default_rng(1), options.tensors, options.rounds
    base = {"model.layers.%d.self_attn.q_proj.weight" % number: random.standard_normal((256, 256)).astype("f4")
            for number in range(tensors)}
    path = os.path.join(folder, "model.safetensors")
    lmcodec.numpy.save_file(base, path)
    nbytes = os.path.getsize(path)

    def sketch(name, path):
        made = add_many._index_of(folder, name, path, ())
        os.unlink(os.path.join(folder, add_many.INDEX_NAME))
        return made

    parts = {"sketch": seconds(lambda: sketch("model", path), rounds)}
    index, small = os.path.join(folder, "all.sqlite"), os.path.join(folder, "small.safetensors")
    merges, count = [], 0
    for wanted in options.index_models:
        last = []
        while count < wanted:
            values = random.standard_normal((tensors, 32, 64)).astype("f4")
            lmcodec.numpy.save_file(dict(zip(base, values)), small)
            made = sketch("model-%d" % count, small)
            last.append(seconds(lambda: add_many._merge(index, made, "model-%d" % count), 1))
            count += 1
        merges.append(float(numpy.mean(last[-options.index_models[0] // 2:])))
    parts["merge"] = merges
    parts["index_nbytes"] = os.path.getsize(index) / count
    names = ["model-%d" % number for number in range(0, count, -(-count // 10))]
    parts["predict"] = seconds(lambda: add_many._predict(index, names, None), 1) / len(names)
    parts["arrange"] = arrange_seconds(add_many, options.models, options.family)
    tuned = {name: array.copy() for name, array in base.items()}
    for array in tuned.values():
        array.reshape(-1)[::10] *= 1.001
    tuned_path = os.path.join(folder, "tuned.safetensors")
    lmcodec.numpy.save_file(tuned, tuned_path)
    how = {"threads": 1, "fsync": False, "force": True}
    parts["encode"] = nbytes / seconds(lambda: lmcodec.convert(path, **how), rounds)
    parts["encode_delta"] = nbytes / seconds(lambda: lmcodec.convert(tuned_path, base=path + ".lmc", **how), rounds)
    parts["scheduler"] = scheduler_seconds()
    return parts


def arrange_seconds(add_many, models, family):
    random = numpy.random.default_rng(2)
    alone = [int(nbytes) for nbytes in random.integers(600, 700, models)]
    costs = [(model, base, int(nbytes)) for model in range(models)
             for base, nbytes in zip(range(model // family * family, min(models, (model // family + 1) * family)),
                                     random.integers(100, 300, family)) if base != model]
    return seconds(lambda: add_many._arrange(alone, costs, 1), 1)


def scheduler_seconds(count=2000):
    """Seconds of a task that does nothing, with its result."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        return SCHEDULER_S
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster, \
            Client(cluster) as client:
        client.submit(abs, -1).result()
        start = time.perf_counter()
        for future in [client.submit(abs, number) for number in range(count)]:
            future.result()
        return (time.perf_counter() - start) / count


# ---- what is computed ----

class Task:
    """seconds: of a core. nbytes: that are read and put. requests: one after another. caller: seconds of the caller
    with the result."""

    def __init__(self, seconds, nbytes, requests, caller):
        self.seconds, self.nbytes, self.requests, self.caller = seconds, nbytes, requests, caller


def phase_seconds(tasks, workers, link, total, scheduler):
    """Seconds of a phase, and what they are spent on."""
    active = min(workers, max(1, len(tasks)))
    rate = min(link, total / active if total else link)
    free = [0.0] * active
    ends, handed = [], 0.0
    for task in tasks:
        handed += scheduler
        start = max(heapq.heappop(free), handed)
        end = start + task.seconds + task.nbytes / rate + task.requests * REQUEST_S
        heapq.heappush(free, end)
        ends.append(end)
    taken = 0.0
    for task, end in zip(tasks, ends):
        taken = max(taken, end) + task.caller
    sums = {"workers": sum(task.seconds for task in tasks) / active,
            "link" if rate == link else "store": sum(task.nbytes for task in tasks) / rate / active,
            "requests": sum(task.requests for task in tasks) * REQUEST_S / active,
            "scheduler": handed, "caller": sum(task.caller for task in tasks)}
    return taken, max(sums, key=sums.get)


def simulate(parts, options, workers):
    """Seconds of each phase, and what limits it."""
    random = numpy.random.default_rng(3)
    sizes = 1e9 * options.gigabytes * numpy.exp(random.normal(0, 0.5, options.models))
    low, high = parts["merge"]
    first, last = options.index_models
    slope = (high - low) / (last - first)
    merges = [max(low, low + slope * (count - first)) for count in range(options.models)]
    index_nbytes = parts["index_nbytes"] * options.models
    part_count = min(TASKS_MAX, options.models)
    predicting = [Task(parts["predict"] * options.models / part_count, index_nbytes, 2, 0.0)] * part_count
    is_key = [number % options.family == 0 for number in range(options.models)]
    keys = [Task(nbytes / parts["encode"], nbytes * (1 + ALONE_RATIO), 4, merge)
            for nbytes, merge, key in zip(sizes, merges, is_key) if key]
    others = [Task(nbytes / parts["encode_delta"], nbytes * (1 + ALONE_RATIO + DELTA_RATIO), 8, merge)
              for nbytes, merge, key in zip(sizes, merges, is_key) if not key]
    index = Task(0.0, index_nbytes, 2, 0.0)
    sketches = [Task(parts["sketch"], nbytes * options.at_urls, 2, merge) for nbytes, merge in zip(sizes, merges)]
    phases = {"sketches": sketches, "index, put": [index], "predictions": predicting,
              "arrangement": [Task(0.0, 0, 0, parts["arrange"])], "models alone": keys,
              "predictions again": predicting, "models on these": others, "index": [index]}
    return {name: phase_seconds(tasks, workers, 1e9 * options.link, 1e9 * options.total, parts["scheduler"])
            for name, tasks in phases.items()}


def main():
    parser = command_line(__doc__, 3)
    parser.add_argument("--models", type=int, default=10000)
    parser.add_argument("--gigabytes", type=float, default=15)
    parser.add_argument("--tensors", type=int, default=300)
    parser.add_argument("--family", type=int, default=20)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--index-models", type=int, nargs=2, default=[300, 3000])
    parser.add_argument("--link", type=float, default=1.25)
    parser.add_argument("--total", type=float, default=100)
    parser.add_argument("--at-urls", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parts = measure(folder, options)
    print("measured: " + ", ".join("%s %s" % (name, " ".join("%.3g" % one for one in numpy.atleast_1d(value)))
                                   for name, value in parts.items()))
    print("%d models of %g GB, %d tensors; seconds, and what most of them are spent on"
          % (options.models, options.gigabytes, options.tensors))
    rows = {workers: simulate(parts, options, workers) for workers in options.workers}
    print("%-18s" % "workers" + "".join("%20d" % workers for workers in rows))
    for phase in next(iter(rows.values())):
        print("%-18s" % phase + "".join("%10.0f %-9s" % row[phase] for row in rows.values()))
    print("%-18s" % "all" + "".join("%10.0f %-9s" % (sum(taken for taken, _ in row.values()), "")
                                    for row in rows.values()))
    write_report(options.json, {**circumstances(), "measured": parts, "options": vars(options), "rows": rows})


if __name__ == "__main__":
    main()
