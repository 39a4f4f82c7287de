#!/usr/bin/env python3
"""compare.py - is one lmc-bench slower than another? Runs both alternately and compares row by row.

    compare.py [--rounds 9] OLD_LMC_BENCH NEW_LMC_BENCH [lmc-bench option]...

OLD and NEW are programs build/.../bench/lmc-bench of two versions. Each round runs both, with the order changed from
round to round, so that a slow minute of the machine hits both. Every row has two ratios of speeds, new / old:

  best    the fastest round of new / the fastest round of old: what the machine can do
  median  of the rounds' ratios, with the quartiles: what one round can tell

Rows that only one version has are left out. Exit status 1 if both ratios of a row are below 0.98, else 0.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile

CASE = "what", "data", "codec", "kernels", "tensor_nbytes", "regime"
SLOWER = 0.98


def measure(program, options):
    """(case, direction) -> speed, of one run."""
    with tempfile.NamedTemporaryFile("r", encoding="ascii") as numbers:
        done = subprocess.run([program, *options, "--json", numbers.name], stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            sys.exit(f"compare.py: {program}: exit status {done.returncode}")
        speeds = {}
        for row in json.load(numbers)["rows"]:
            for key, value in row.items():
                if row["what"] != "peer" and "bare" not in key and "memcpy" not in key:
                    case = " ".join(str(row[name]) for name in CASE if name in row)
                    if key.endswith("_GiB_s"):
                        speeds[case, key[:-len("_GiB_s")]] = value
                    elif key.endswith("_us"):
                        speeds[case, key[:-len("_us")]] = 1 / value
        return speeds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("old")
    parser.add_argument("new")
    arguments, options = parser.parse_known_args()
    rounds = []
    for number in range(arguments.rounds):
        order = (arguments.old, arguments.new) if number % 2 == 0 else (arguments.new, arguments.old)
        first, second = measure(order[0], options), measure(order[1], options)
        rounds.append((first, second) if number % 2 == 0 else (second, first))
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)

    rows = []
    for key in rounds[0][0]:
        if key in rounds[0][1]:
            ratios = [new[key] / old[key] for old, new in rounds]
            best = max(new[key] for _, new in rounds) / max(old[key] for old, _ in rounds)
            low, median, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
            rows.append((best, median, low, high, key))
    print(f"{'best':>6} {'median':>6}  quartiles")
    for best, median, low, high, (case, direction) in sorted(rows):
        print(f"{best:6.3f} {median:6.3f}  {low:.3f} {high:.3f}  {case} {direction}")
    slower = [row for row in rows if max(row[:2]) < SLOWER]
    print(f"{len(rows)} rows; slower by more than {1 - SLOWER:.0%}: {len(slower)}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
