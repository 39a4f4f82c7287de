"""The examples of docs/zarr.md run, one after another, in an empty folder, beside a server that speaks S3. The program
that measures for it runs, too."""
import json
import os
import subprocess
import sys

import pytest

for module in ("zarr", "dask", "xarray", "ml_dtypes", "moto", "s3fs", "obstore"):
    pytest.importorskip(module, reason="%s is not installed" % module)

from documents import run_examples, text_of
from s3_server import s3_server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


@pytest.mark.filterwarnings("ignore")
def test_every_example_runs(directory, monkeypatch):
    monkeypatch.chdir(directory)
    import lmcodec.zarr  # noqa: F401: in the place of the entry point, which has a test of its own
    with s3_server("bucket") as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert run_examples("zarr.md") == 10


def test_every_setting_is_told():
    import dataclasses
    from lmcodec.zarr import LmcCodec
    text = text_of("zarr.md")
    for field in dataclasses.fields(LmcCodec):
        default = '"%s"' % field.default if isinstance(field.default, str) else field.default
        assert "| `%s` | `%s` |" % (field.name, default) in text


def test_bench(directory):
    """bench/zarr_codecs.py runs. Speeds are not judged."""
    path = os.path.join(directory, "numbers.json")
    data = os.path.join(ROOT, "examples", "data")
    snapshots = [os.path.join(data, "step%s.bf16.safetensors" % step) for step in ("03000", "03010")]
    done = subprocess.run([sys.executable, os.path.join(ROOT, "bench", "zarr_codecs.py"), "--mib", "1", "--rounds", "1",
                           "--only", "none,LMC default", "--json", path, *snapshots], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    with open(path) as file:
        found = json.load(file)
    ratios = {(row["file"], row["codec"]): row["ratio"] for row in found["ratios"]}
    together = "2 snapshots like the first"
    assert ratios["step03000.bf16.safetensors", "none"] == 1
    assert ratios["step03000.bf16.safetensors", "LMC default"] < 0.67 and ratios[together, "LMC default"] < 0.67
    assert ratios[together, "LMC default, rows"] < 0.45
    assert {(row["dtype"], row["codec"]) for row in found["speeds"]} == {
        (dtype, codec) for dtype in ("f4", "bfloat16") for codec in ("none", "LMC default")}
    assert min(row["write_gib_s"] for row in found["speeds"]) > 0
