"""scale.py - what a save of many ranks costs: raw, with LMC's key frames, and with deltas.

    python3 bench/scale.py BUILD [--data DIR] [--mib 128] [--rounds 2] [--python PYTHON] [--gb 5] [--total 100]
                           [--node-link 6.25] [--items 200,1000] [--json FILE]

Needs numpy. BUILD is a build folder with the shared libraries. The states are those of bench/distributed/states.py: the
weights in bf16 of examples/data, 10 steps apart; where DIR has f32 and optim files of both steps, a whole state too.

1. Speeds. Ranks save --mib MiB each, 1 rank and 2 ranks at once, each with one thread.
   - torch.distributed.checkpoint: processes of bench/distributed/dcp_rank.py, with torch's FileSystemWriter (raw) and
     lmcodec.dcp.Writer. Files are in memory (/dev/shm) and nothing is flushed. A chain has 7 deltas after a key frame.
     A delta reads its base: `delta 1` a key frame, `delta 7` a chain of all before. Left out where PYTHON (default:
     this one) has no torch with lmcodec.dcp.
   - plain processes (bench/distributed/throttled_save.py) that encode tensor by tensor and send through a pipe. The
     base is in memory.
   The fastest round counts. GB/s are of the clock, all ranks together. GB / CPU s are those of one rank; the rest of
   the program takes these.
2. Metadata: dcp.save of --items tiny tensors; CPU seconds of the coordinator outside of write_data(), as a + b x (items
   of all ranks). Also with torch's cached plans. They are not in the seconds of the simulation.
3. A simulation to 1000 ranks; bench/distributed/simulation.py states what it assumes. --gb GB a rank, nodes of 8 ranks
   with a link of --node-link GB/s, a file system of --total GB/s.
4. Two of its points run for real: 2 ranks share a pipe whose reader takes so many bytes a second. At 0.2 GB/s the link
   is the limit. At 1 GB/s one rank's encoder takes 4 times as long (it sleeps). The simulation gets the seconds that
   encoding took in this run.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy

from common import MIB, circumstances, command_line, write_report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for folder in ("bench/tool", "bench/distributed", "python"):
    sys.path.insert(0, os.path.join(ROOT, folder))
from simulation import NEVER, Cluster, Way, save_seconds  # noqa: E402
from states import NEW, OLD, nbytes_of, read_state, state_of_rank, states_in  # noqa: E402
from throttled import GB  # noqa: E402
from throttled_save import save_ranks  # noqa: E402

RANKS = (1, 2)                    # that are real
KEY_EVERY = 8
LAST = f"delta {KEY_EVERY - 1}"
SIMULATED_ITEMS = 300             # of a rank
SIMULATED_RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
RANK_LINKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)  # GB/s that each of 1000 ranks has
CORES = (1, 2, 4)
STRAGGLER_SHARE, SLOW_PROCESSOR, SLOW_LINK = 0.01, 5, 0.2  # SLOW_LINK: of the even share of a rank
CONFIRMED = ((0.2, 1), (1, 4))    # GB/s of the link, seconds of the second rank's encoder / seconds of the first's


# ---- ranks of torch.distributed.checkpoint ----

def run_dcp(python, build, settings, rank_count):
    """What rank 0 printed."""
    folder = tempfile.mkdtemp(prefix="lmc-scale-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    variables = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "LMCODEC_LIBRARY_DIR": build}
    script = os.path.join(ROOT, "bench", "distributed", "dcp_rank.py")
    ranks = [subprocess.Popen([python, "-W", "ignore", script, json.dumps({
        **settings, "rank": rank, "rank_count": rank_count, "folder": folder})], env=variables, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(rank_count)]
    try:
        outputs = [rank.communicate() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
        shutil.rmtree(folder)
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"scale.py: {rank_count} ranks of dcp_rank.py failed\n{outputs[0][1].strip()}")
    return json.loads(outputs[0][0].strip().splitlines()[-1])


def why_no_dcp(python, build):
    """None if the ranks can run."""
    variables = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "LMCODEC_LIBRARY_DIR": build}
    tried = subprocess.run([python, "-W", "ignore", "-c", "import lmcodec.dcp"], env=variables, text=True, check=False,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return tried.stdout.strip().splitlines()[-1] if tried.returncode else None


def measure_dcp(arguments, states):
    """Rows of speeds, rows of metadata, the version of torch."""
    rows, metadata, torch = [], [], None
    for state, rank_count in itertools.product(states, RANKS):
        settings = {"data": arguments.data, "state": state, "mib": arguments.mib, "rounds": arguments.rounds,
                    "key_every": KEY_EVERY, "item_counts": arguments.items if state == states[0] else ()}
        found = run_dcp(arguments.python, arguments.build, settings, rank_count)
        torch = found["torch"]
        metadata += found["metadata"]
        gigabytes = found["rank_nbytes"] / GB
        rows += [{"by": "dcp", "state": state, "ranks": rank_count, "way": way, "rank_nbytes": found["rank_nbytes"],
                  "ratio": times["stored_nbytes"] / rank_count / found["rank_nbytes"],
                  "GB_s": rank_count * gigabytes / times["write_seconds"],
                  "cpu_GB_s": gigabytes / times["cpu_seconds"], "save_seconds": times["save_seconds"],
                  "other_seconds": times["other_seconds"]} for way, times in found["ways"].items()]
    return rows, metadata, torch


def fit_metadata(rows):
    """CPU seconds of a save beside the data: fixed, and of each item of all ranks."""
    fitted = {}
    for way, is_cached in {(row["way"], row["is_cached"]) for row in rows}:
        own = [row for row in rows if (row["way"], row["is_cached"]) == (way, is_cached)]
        terms = numpy.array([(1, row["items"] * row["ranks"]) for row in own], float)
        (fixed, of_item), *_ = numpy.linalg.lstsq(terms, [row["other_cpu_seconds"] for row in own], rcond=None)
        fitted[way + (", cached" if is_cached else "")] = {"fixed_s": fixed, "item_s": of_item}
    return dict(sorted(fitted.items()))


# ---- plain processes ----

def encoders():
    """What each way sends for a tensor."""
    import lmcodec

    def raw(tensor, _):
        return tensor[3]

    def lmc(tensor, base):
        _, dtype, shape, content = tensor
        row_nbytes = len(content) // shape[0] if len(shape) > 1 else 0
        return lmcodec.encode(content, dtype, row_nbytes=row_nbytes, base=base and base[3])

    return {"raw": raw, "key": lmc, "delta": lmc}


def paired(old, new, way):
    return list(zip(new, old if way == "delta" else itertools.repeat(None)))


def ranks_of(arguments, state, rank_count):
    """The tensors of both steps for each rank."""
    snapshots = [read_state(arguments.data, state, step) for step in (OLD, NEW)]
    return [[state_of_rank(tensors, arguments.mib * MIB, rank) for tensors in snapshots] for rank in range(rank_count)]


def measure_plain(arguments, states):
    rows = []
    for state, rank_count in itertools.product(states, RANKS):
        ranks = ranks_of(arguments, state, rank_count)
        gigabytes = nbytes_of(ranks[0][1]) / GB
        best = {}
        for _, (way, encode) in itertools.product(range(arguments.rounds), encoders().items()):
            seconds, found = save_ranks(encode, [paired(*rank, way) for rank in ranks], (1,) * rank_count, NEVER)
            cpu = max(rank["cpu_seconds"] + rank["send_cpu_seconds"] for rank in found)
            stored = sum(rank["sent_nbytes"] for rank in found) / GB / rank_count
            old = best.get(way, (seconds, cpu))
            best[way] = min(seconds, old[0]), min(cpu, old[1]), stored
        rows += [{"by": "processes", "state": state, "ranks": rank_count, "way": way,
                  "rank_nbytes": round(gigabytes * GB), "ratio": stored / gigabytes,
                  "GB_s": rank_count * gigabytes / seconds, "cpu_GB_s": gigabytes / cpu}
                 for way, (seconds, cpu, stored) in best.items()]
    return rows


def confirm(arguments):
    """Two ranks behind one throttled pipe, and what the simulation says of them."""
    ranks, rows = ranks_of(arguments, "weights", 2), []
    gigabytes = nbytes_of(ranks[0][1]) / GB
    piece = gigabytes / len(ranks[0][1])
    for (link, factor), (way, encode) in itertools.product(CONFIRMED, encoders().items()):
        best = None
        for _ in range(arguments.rounds):
            seconds, found = save_ranks(encode, [paired(*rank, way) for rank in ranks], (1, factor), link)
            traffic = sum(rank["sent_nbytes"] for rank in found) / GB / 2 / gigabytes
            factors = [max(rank["seconds"], 1e-9) / gigabytes for rank in found]
            computed = save_seconds(Way(1.0, traffic), gigabytes, 1, Cluster(2, node_ranks=2, total=link), piece,
                                    factors).max()
            row = {"link_GB_s": link, "straggler": factor, "way": way, "seconds": seconds, "computed_seconds": computed}
            best = row if best is None or seconds < best["seconds"] else best
        rows.append(best)
    return rows


# ---- the simulation ----

def ways_of(speeds, state):
    """What the simulation takes from the rows of one rank."""
    rows = {row["way"]: row for row in speeds if (row["state"], row["ranks"]) == (state, 1) and row["by"] == "dcp"}
    rows = rows or {row["way"]: row for row in speeds if (row["state"], row["ranks"]) == (state, 1)}
    first = rows.get("delta 1") or rows["delta"]
    ways = {"raw": Way(rows["raw"]["cpu_GB_s"], 1.0), "key": Way(rows["key"]["cpu_GB_s"], rows["key"]["ratio"]),
            "delta": Way(first["cpu_GB_s"], first["ratio"]),
            "delta, base read": Way(first["cpu_GB_s"], first["ratio"], rows["key"]["ratio"])}
    if LAST in rows:
        ways[LAST] = Way(rows[LAST]["cpu_GB_s"], rows[LAST]["ratio"])
    return ways


def slowest(way, gigabytes, cores, cluster):
    return float(save_seconds(way, gigabytes, cores, cluster).max())


def simulate(arguments, speeds, states):
    """Rows by number of ranks, by bandwidth of a rank, and by stragglers."""
    by_ranks, by_link, by_straggler, limits = [], [], [], []
    even = {"node_link": arguments.node_link, "total": arguments.total}
    for state in states:
        for name, way in ways_of(speeds, state).items():
            head = {"state": state, "way": name}
            for cores in CORES:
                by_ranks += [{**head, "cores": cores, "ranks": count,
                              "seconds": slowest(way, arguments.gb, cores, Cluster(count, **even))}
                             for count in SIMULATED_RANKS]
                by_link += [{**head, "cores": cores, "link_GB_s": link,
                             "seconds": slowest(way, arguments.gb, cores, Cluster(1000, total=1000 * link))}
                            for link in RANK_LINKS]
            for count in (64, 1000):
                slow = {"straggler_share": STRAGGLER_SHARE, **even}
                share = min(arguments.node_link / 8, arguments.total / count)
                kinds = {"none": Cluster(count, **even), "slow processor": Cluster(
                    count, slow_processor=SLOW_PROCESSOR, **slow), "slow link": Cluster(
                        count, slow_link=SLOW_LINK * share, **slow)}
                by_straggler += [{**head, "ranks": count, "straggler": kind,
                                  "seconds": slowest(way, arguments.gb, 1, cluster)} for kind, cluster in kinds.items()]
            if name != "raw":
                gains = way.traffic < 1
                limits.append({**head, "faster_below_GB_s": way.speed if gains else 0.0,
                               "all_gained_below_GB_s": way.speed * way.traffic if gains else 0.0,
                               "traffic": way.traffic, "cpu_seconds": arguments.gb / way.speed})
    return {"by_ranks": by_ranks, "by_link": by_link, "by_straggler": by_straggler, "limits": limits}


# ---- the report ----

def pivot(rows, down, across, value, text="{:9.2f}"):
    """A table of the rows' values."""
    columns = list(dict.fromkeys(row[across] for row in rows))
    widths = [max(9, len(str(column))) for column in columns]
    print(f"{'':24} " + " ".join(f"{column:>{width}}" for column, width in zip(columns, widths)))
    for name in dict.fromkeys(row[down] for row in rows):
        found = {row[across]: row[value] for row in rows if row[down] == name}
        print(f"{name:24} " + " ".join(f"{text.format(found[column]):>{width}}" if column in found else width * " "
                                       for column, width in zip(columns, widths)))


def show_speeds(rows):
    for (by, state), own in itertools.groupby(rows, key=lambda row: (row["by"], row["state"])):
        own = list(own)
        print(f"\n{by}, {state}, {own[0]['rank_nbytes'] / MIB:.0f} MiB a rank\n")
        print(f"{'':10} {'ranks':>5} {'ratio':>7} {'GB/s':>7} {'GB / CPU s':>11} {'of 1 rank':>10} {'by CPU time':>12}")
        for row in own:
            alone = next(other for other in own if (other["ranks"], other["way"]) == (1, row["way"]))
            print(f"{row['way']:10} {row['ranks']:5} {row['ratio']:7.4f} {row['GB_s']:7.2f} {row['cpu_GB_s']:11.2f} "
                  f"{row['GB_s'] / alone['GB_s']:10.2f} {row['ranks'] * row['cpu_GB_s'] / alone['cpu_GB_s']:12.2f}")


def show_metadata(fitted):
    print(f"\nplanning and metadata, CPU time of the coordinator\n\n{'':16} {'fixed ms':>9} {'us an item':>11}  "
          f"1000 ranks with {SIMULATED_ITEMS} items")
    for name, fit in fitted.items():
        seconds = fit["fixed_s"] + 1000 * SIMULATED_ITEMS * fit["item_s"]
        print(f"{name:16} {1e3 * fit['fixed_s']:9.1f} {1e6 * fit['item_s']:11.0f}  {seconds:.1f} s")


def show_simulation(simulated, arguments):
    for state in dict.fromkeys(row["state"] for row in simulated["by_ranks"]):
        own = {key: [row for row in rows if row["state"] == state] for key, rows in simulated.items()}
        print(f"\nsimulated, {state}: seconds by ranks, one core each; {arguments.gb:g} GB a rank, nodes of 8 with "
              f"{arguments.node_link:g} GB/s, file system {arguments.total:g} GB/s\n")
        pivot([row for row in own["by_ranks"] if row["cores"] == 1], "way", "ranks", "seconds")
        print("\nsimulated: seconds by GB/s of each of 1000 ranks, and cores\n")
        pivot([{**row, "what": f"{row['way']}, {row['cores']} cores"} for row in own["by_link"]
               if row["way"] in ("raw", "key", "delta") and (row["way"] != "raw" or row["cores"] == 1)],
              "what", "link_GB_s", "seconds")
        print(f"\nsimulated: seconds with {STRAGGLER_SHARE:.0%} of stragglers: processor {SLOW_PROCESSOR} times "
              f"slower, or {SLOW_LINK:g} of a share of the link\n")
        pivot([{**row, "what": f"{row['ranks']}, {row['straggler']}"} for row in own["by_straggler"]], "way", "what",
              "seconds")
        print(f"\nlimits for each core of a rank, GB/s of content or of its link\n\n{'':24} {'traffic':>8} "
              f"{'faster than raw below':>22} {'all gained below':>17} {'CPU s a rank':>13}")
        for row in own["limits"]:
            faster, all_gained = (f"{row[key]:.2f}" if row[key] else "never"
                                  for key in ("faster_below_GB_s", "all_gained_below_GB_s"))
            print(f"{row['way']:24} {row['traffic']:8.4f} {faster:>22} {all_gained:>17} {row['cpu_seconds']:13.1f}")


def show(report, arguments):
    print(f"{report['machine']}, {report['core_count']} cores, torch {report['torch']}, fastest of "
          f"{report['round_count']}")
    show_speeds(report["speeds"])
    if report["metadata_fit"]:
        show_metadata(report["metadata_fit"])
    show_simulation(report["simulated"], arguments)
    print(f"\n2 ranks behind a throttled pipe, weights\n\n{'GB/s':>5} {'straggler':>10} {'way':>6} {'seconds':>8} "
          f"{'computed':>9}")
    for row in report["confirmed"]:
        print(f"{row['link_GB_s']:5g} {row['straggler']:9g}x {row['way']:>6} {row['seconds']:8.2f} "
              f"{row['computed_seconds']:9.2f}")


def main():
    parser = command_line(__doc__, 2, "build")
    parser.add_argument("--data", default=os.path.join(ROOT, "examples", "data"))
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--items", type=lambda text: [int(count) for count in text.split(",")], default=[200, 1000])
    parser.add_argument("--gb", type=float, default=5)
    parser.add_argument("--total", type=float, default=100)
    parser.add_argument("--node-link", type=float, default=6.25)
    arguments = parser.parse_args()
    os.environ["LMCODEC_LIBRARY_DIR"] = arguments.build
    states, speeds, metadata, torch = states_in(arguments.data), [], [], None
    missing = why_no_dcp(arguments.python, arguments.build)
    if missing:
        print(f"scale.py: torch.distributed.checkpoint is left out: {missing}", file=sys.stderr)
    else:
        speeds, metadata, torch = measure_dcp(arguments, states)
    speeds += measure_plain(arguments, states)
    report = {**circumstances(), "torch": torch, "round_count": arguments.rounds, "gb": arguments.gb,
              "total": arguments.total, "node_link": arguments.node_link, "speeds": speeds, "metadata": metadata,
              "metadata_fit": fit_metadata(metadata) if metadata else {},
              "simulated": simulate(arguments, speeds, states), "confirmed": confirm(arguments)}
    show(report, arguments)
    write_report(arguments.json, report)


if __name__ == "__main__":
    main()
