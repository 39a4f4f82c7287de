"""bench/peers.py measures LMC beside peers that are installed and leaves others out, and its pictures are drawn. Peers
that give other bytes back, or crash, have a fault and no numbers: stand-ins take their places. Speeds are not
judged."""

import json
import os
import sys
import tempfile

from check_bench_studies import PYTHON
from tree import Skip, run

TENSORS = 3
PICTURES = {"peers_encode.svg", "peers_decode.svg"}
# packages of these names, of which one changes a byte, and one kills its process
STAND_INS = {
    "lz4/__init__.py": "",
    "lz4/frame.py": "def compress(data):\n    return b'x' + data\n\n\ndef decompress(data):\n"
                    "    return bytes([data[1] ^ 1]) + data[2:]\n",
    "glyd.py": "import os\nimport signal\n\n\ndef version():\n    return '0'\n\n\ndef compress(*_, **__):\n"
               "    os.kill(os.getpid(), signal.SIGSEGV)\n",
    "openzl.py": "raise ImportError('this one is not for you')\n",
    "lz4-0.dist-info/METADATA": "Metadata-Version: 2.1\nName: lz4\nVersion: 0\n",
    "glyd-0.dist-info/METADATA": "Metadata-Version: 2.1\nName: glyd\nVersion: 0\n",
}


def write_inputs(tree, folder):
    """The first tensors of two snapshots."""
    sys.path.insert(0, tree.path("bench"))
    from common import read_tensors, write_tensors
    paths = []
    for step in ("03000", "03010"):
        tensors = list(read_tensors(tree.path(f"examples/data/step{step}.bf16.safetensors")))[:TENSORS]
        paths.append(os.path.join(folder, step + ".safetensors"))
        write_tensors(paths[-1], {name: each for name, *each in tensors})
    return paths


def write_stand_ins(folder):
    for name, text in STAND_INS.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)


def faults_of_rows(report, has_zstandard):
    rows = {(row["data"], row["peer"], row["thread_count"]): row for row in report["rows"]}
    levels = ["LMC fast", "LMC default", "LMC max"]
    wanted = levels + (["zstd 3, byte groups", "zstd 19, byte groups"] if has_zstandard else [])
    if set(rows) != {(data, peer, threads) for data in ("03000", "03000 -> 03010") for peer in wanted
                     for threads in (1, 2)}:
        yield f"bench/peers.py: rows {sorted(rows)}"
        return
    if any(row["is_input_changed"] or row["tensor_count"] != TENSORS or min(row["encode_s"], row["decode_s"]) <= 0
           for row in rows.values()):
        yield "bench/peers.py: a row says what cannot be"
    for peer in wanted:
        alone, delta = (rows[data, peer, 1] for data in ("03000", "03000 -> 03010"))
        if not 0 < delta["ratio"] < alone["ratio"] < 0.8 or alone["delta"] is not None \
                or delta["delta"] != ("own" if peer in levels else "XOR"):
            yield f"bench/peers.py: {peer}: {alone}, {delta}"


def faults_of_peers(report, has_zstandard):
    found = {(fault["data"], fault["peer"]): fault["fault"] for fault in report["faults"]}
    for data in ("03000", "03000 -> 03010"):
        if "DIFFERENT" not in found.pop((data, "LZ4, byte groups"), ""):
            yield f"bench/peers.py: {data}: other bytes are not noticed"
    for level in ("glyd", "glyd max"):
        if found.pop(("03000", level), "") != "killed by SIGSEGV":
            yield f"bench/peers.py: {level}: a crash is not noticed"
        found.pop(("03000 -> 03010", level), None)  # the stand-in has no deltas
    if found:
        yield f"bench/peers.py: {found}"
    reasons = report["left_out"]
    if reasons.get("OpenZL, FSE") != "this one is not for you" or ("zstd 3, byte groups" in reasons) == has_zstandard:
        yield f"bench/peers.py: left out: {reasons}"


def check(tree):
    if run(PYTHON, "-c", "import numpy")[0] != 0:
        raise Skip("no numpy (Debian: python3-numpy)")
    has_zstandard = run(PYTHON, "-c", "import zstandard")[0] == 0
    with tempfile.TemporaryDirectory(prefix="lmc-check-peers-") as folder:
        base, new = write_inputs(tree, folder)
        stand_ins, report = os.path.join(folder, "stand-ins"), os.path.join(folder, "peers.json")
        pictures = os.path.join(folder, "pictures")
        write_stand_ins(stand_ins)
        has_matplotlib = run("/usr/bin/python3", "-c", "import matplotlib")[0] == 0
        status, output = run(
            PYTHON, tree.path("bench/peers.py"), tree.build, "--python", PYTHON, "--rounds", "1", "--json", report,
            *(word for name in ("zstd 3, byte", "zstd 19, byte", "LZ4, byte", "glyd", "OpenZL")
              for word in ("--only", name)),
            *(("--pictures", pictures) if has_matplotlib else ()), base, "--delta", base, new,
            env={**os.environ, "PYTHONPATH": stand_ins})
        if status != 0 or "Smaller than LMC's level default" not in output:
            yield f"bench/peers.py: exit status {status}: {output.strip()[-500:]}"
            return
        with open(report, encoding="utf-8") as file:
            measured = json.load(file)
        yield from faults_of_rows(measured, has_zstandard)
        yield from faults_of_peers(measured, has_zstandard)
        if has_matplotlib and set(os.listdir(pictures)) != PICTURES:
            yield f"bench/plots/draw_peers.py: pictures {os.listdir(pictures)}"
    if not has_matplotlib:
        raise Skip("no pictures: no matplotlib (Debian: python3-matplotlib)")
