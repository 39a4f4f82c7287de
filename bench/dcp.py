#!/usr/bin/env python3
"""dcp.py - checkpoints of torch.distributed.checkpoint: bytes, time and memory of several writers.

    python3 bench/dcp.py [--mib N] [--ranks N] [--rounds N] [--folder DIR] [--fsync]

The ranks are processes of this machine, which speak gloo. Without --mib the state has 24 MiB: 8 matrices of bf16 and 4
of f32, as weights and moments are distributed; with --mib it has larger matrices in the same proportion. Then a series
of real weights is saved: two snapshots of examples/data, ten steps of a training apart, in turn, as key frame and as
delta. Each round goes through all cases; the fastest save and the fastest load count. Memory is the most that a rank
has beside its state while it saves. ZStandard is measured if the package zstandard is installed.

Needs torch 2.7. Files are not waited for, unless --fsync. Results go to build/bench/dcp.json, too.
"""
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import warnings

from common import command_line, write_report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MIB, GIB = 1 << 20, 1 << 30
SNAPSHOTS = [os.path.join(ROOT, "examples", "data", "step%05d.bf16.safetensors" % step) for step in (3000, 3010)]


# ---- on every rank ----

def make_state(mib):
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    generator = torch.Generator().manual_seed(7)
    side = 1024 if mib is None else 4096
    count = 8 if mib is None else max(1, 2 * mib // 3 // (side * side * 2 // MIB))
    state = {"step": 17}
    for number in range(count):
        weights = (torch.randn(side, side, generator=generator) * 0.02).to(torch.bfloat16)
        state["layer.%d.weight" % number] = distribute_tensor(weights, mesh, [Shard(0)])
        if number % 2 == 0:
            moments = torch.randn(side // 2, side, generator=generator) * 1e-3
            state["layer.%d.moment" % number] = distribute_tensor(moments, mesh, [Shard(0)])
    return state


def make_series():
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    import lmcodec.torch
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    return [{name: distribute_tensor(tensor, mesh, [Shard(0)])
             for name, tensor in lmcodec.torch.load_file(path).items() if tensor.dim() > 0} for path in SNAPSHOTS]


def writers(fsync):
    """name -> (function of a path that gives a writer, function of a path that gives a reader)."""
    from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
    from torch.distributed.checkpoint._extension import ZStandard
    from lmcodec.dcp import Lmc, Reader, Writer, registry

    def by_torch(extensions):
        return (lambda path: FileSystemWriter(path, _extensions=extensions, sync_files=fsync),
                lambda path: FileSystemReader(path, _extension_registry=registry()))

    found = {"none": by_torch(None)}
    if ZStandard.is_available():
        found["ZStandard"] = by_torch([ZStandard()])
    found["Lmc"] = by_torch([Lmc()])
    for level in "default", "fast", "max":
        name = "Writer" if level == "default" else "Writer, level %s" % level
        found[name] = (lambda path, level=level: Writer(path, level=level, fsync=fsync), Reader)
    return found


def status_nbytes(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name + ":"))


def forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def timed(function):
    """Seconds until all ranks have done it, and the most bytes that this one has had more than before."""
    import torch.distributed as dist
    dist.barrier()
    forget_peak()
    before, begin = status_nbytes("VmRSS"), time.perf_counter()
    function()
    dist.barrier()
    return time.perf_counter() - begin, max(0, status_nbytes("VmHWM") - before)


def measure(path, state, blank, writer, reader):
    """A row: what the save and the load of a state take."""
    import torch.distributed.checkpoint as dcp
    save_s, memory = timed(lambda: dcp.save(state, storage_writer=writer(path)))
    load_s, _ = timed(lambda: dcp.load(blank, storage_reader=reader(path)))
    check(blank, state)
    return {"save_s": save_s, "load_s": load_s, "memory_nbytes": memory,
            "stored_nbytes": sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))}


def check(got, wanted):
    import torch
    for name, value in wanted.items():
        same = torch.equal(got[name].to_local(), value.to_local()) if hasattr(value, "to_local") else \
            got[name] == value
        if not same:
            sys.exit("%s came back with other values" % name)


def blank_of(state):
    import torch
    return {name: torch.ones_like(value) if hasattr(value, "to_local") else None for name, value in state.items()}


def measure_rounds(arguments, rank, rounds):
    """Rows of every round, by case."""
    import torch.distributed as dist
    from lmcodec.dcp import Reader, Writer
    state, series = make_state(arguments.mib), make_series()
    blank, blank_series = blank_of(state), blank_of(series[0])
    cases, rows = writers(arguments.fsync), []
    key, delta = (os.path.join(arguments.folder, name) for name in ("key", "delta"))
    for number in range(rounds):
        for name, (writer, reader) in cases.items():
            path = os.path.join(arguments.folder, "case")
            rows.append(("state", name, measure(path, state, blank, writer, reader)))
            remove(path, rank)
        for name, (writer, reader) in {"none": cases["none"], "Writer": cases["Writer"]}.items():
            rows.append(("real", name, measure(key, series[0], blank_series, writer, reader)))
            if name == "none":
                remove(key, rank)
        rows.append(("real", "Writer, base", measure(
            delta, series[1], blank_series, lambda path: Writer(path, base=key, fsync=arguments.fsync), Reader)))
        remove(key, rank)
        remove(delta, rank)
    dist.barrier()
    return rows, nbytes_of(state), nbytes_of(series[0])


def nbytes_of(state):
    return sum(value.numel() * value.element_size() for value in state.values() if hasattr(value, "to_local"))


def remove(path, rank):
    import torch.distributed as dist
    dist.barrier()
    if rank == 0:
        shutil.rmtree(path)
    dist.barrier()


def rank_main(arguments, rank, results):
    import torch
    import torch.distributed as dist
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.join(arguments.folder, "store"), rank=rank,
                            world_size=arguments.ranks)
    found = measure_rounds(arguments, rank, arguments.rounds)
    memory = [None] * arguments.ranks
    dist.all_gather_object(memory, [row["memory_nbytes"] for _, _, row in found[0]])
    if rank == 0:
        for at, (_, _, row) in enumerate(found[0]):
            row["memory_nbytes"] = max(of_rank[at] for of_rank in memory)
        results.put(found)
    dist.destroy_process_group()


# ---- results ----

def summary(rows, state_nbytes, real_nbytes, ranks):
    """The best of each case's rounds, beside `none`."""
    nbytes, best = {"state": state_nbytes, "real": real_nbytes}, {}
    for data, name, row in rows:
        kept = best.setdefault((data, name), dict(row))
        for key in row:
            kept[key] = (max if key == "memory_nbytes" else min)(kept[key], row[key])
    for (data, name), row in best.items():
        none = best[data, "none"]
        gib = nbytes[data] / GIB / ranks
        row.update(data=data, name=name, content_nbytes=nbytes[data], ratio=row["stored_nbytes"] / nbytes[data],
                   save_more_s_GiB=(row["save_s"] - none["save_s"]) / gib, load_factor=row["load_s"] / none["load_s"])
    return list(best.values())


def print_table(rows):
    print("%-6s %-20s %13s %6s %8s %10s %8s %7s %9s"
          % ("data", "writer", "bytes", "ratio", "save s", "+s/GiB", "load s", "load x", "more MiB"))
    for row in rows:
        print("%-6s %-20s %13d %6.3f %8.3f %10.2f %8.3f %7.2f %9.1f"
              % (row["data"], row["name"], row["stored_nbytes"], row["ratio"], row["save_s"], row["save_more_s_GiB"],
                 row["load_s"], row["load_factor"], row["memory_nbytes"] / MIB))
    print("+s/GiB: seconds of a save beside those of none, for a GiB of a rank; more MiB: memory beside the state")


def main():
    parser = command_line(__doc__, 5)
    parser.add_argument("--mib", type=int)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--folder")
    parser.set_defaults(json=os.path.join(ROOT, "build", "bench", "dcp.json"))
    parser.add_argument("--fsync", action="store_true")
    arguments = parser.parse_args()
    sys.path.insert(0, os.path.join(ROOT, "python"))
    os.environ["PYTHONPATH"] = os.path.join(ROOT, "python") + os.pathsep + os.environ.get("PYTHONPATH", "")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        arguments.folder = folder
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        ranks = [context.Process(target=rank_main, args=(arguments, rank, results)) for rank in range(arguments.ranks)]
        for rank in ranks:
            rank.start()
        while all(rank.exitcode in (None, 0) for rank in ranks) and results.empty():
            time.sleep(0.05)
        if any(rank.exitcode for rank in ranks):
            for rank in ranks:
                rank.kill()
            sys.exit("a rank has failed")
        rows, state_nbytes, real_nbytes = results.get()
        for rank in ranks:
            rank.join()
    table = summary(rows, state_nbytes, real_nbytes, arguments.ranks)
    print_table(table)
    import lmcodec
    write_report(arguments.json, {"lmc_version": lmcodec.__version__, "rank_count": arguments.ranks,
                                  "round_count": arguments.rounds, "is_fsync": arguments.fsync, "rows": table})


if __name__ == "__main__":
    main()
