"""The package passes mypy --strict, and so does a program that uses it."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("mypy", reason="mypy is not installed")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


PROGRAM = """
from pathlib import Path
import lmcodec
import lmcodec.dcp
import lmcodec.fsspec
import lmcodec.remote
import lmcodec.rl
import lmcodec.torch
from lmcodec import (File, Result, Run, RunInfo, Step, Store, StoredModel, StorePlan, TensorCoding, TensorInfo,
                     safe_open)
from lmcodec.numpy import load_file, save_file

def progress(done: int, total: int) -> None:
    print(done, total)

def main(path: Path) -> int:
    lmcodec.torch.save_file(lmcodec.torch.load_file(path, device="cpu", progress=progress), "a.lmc", {"a": "b"})
    save_file(load_file(path, dtype="float32"), str(path), level="fast", threads=None)
    writer = lmcodec.dcp.Writer(path, base="before", key_every=4, threads=None)
    reader = lmcodec.dcp.Reader(writer.checkpoint_id, threads=2, base_dirs=[path])
    print(reader.threads, lmcodec.dcp.Lmc(level="fast").get_descriptor(), lmcodec.dcp.HuggingFaceReader(path))
    result: Result = lmcodec.convert(path, threads=2, file_done=lambda name, event, before, after: None)
    with safe_open(path, framework="pt") as file:
        names: list[str] = file.keys()
        shape: list[int] = file.get_slice(names[0]).get_shape()
        lmcodec.torch.load_into({"a": file.get_tensor("a", out=file.get_tensors(out={}, dtype=None)["a"])}, path)
    with File(path, base_dirs=[path.parent]) as opened:
        tensor: TensorInfo = opened.tensors["a"]
        frame: bytearray = lmcodec.encode(opened.read("a"), tensor.dtype)
        base_name: str | None = opened.base_name
        coding: TensorCoding = opened.coding("a")
        form: str | None = coding.form or lmcodec.info(frame).form
        print(coding.mode, coding.has_rans, form)
    with lmcodec.remote.open("s3://a/b", "np", storage_options={"anon": True}, base_dirs=["s3://c", path]) as remote:
        names += remote.keys()
    with lmcodec.remote.File("s3://a/b", requests=2, timeout=1) as bare, safe_open(bare, "np") as from_file:
        names += from_file.keys()
    system = lmcodec.fsspec.LMCFileSystem(path, base_dirs=[path], target_options={"anon": True}, threads=2)
    names.append(system.protocol)
    with lmcodec.open_original(path) as original:
        original.read(3)
    run = Run(path)
    step: Step = run.add(path, 5, key_every=3, step_done=lambda event, step: print(event, step.ratio))
    step = lmcodec.rl.publish(path, "root", previous=None, last=2)
    version: int = lmcodec.rl.pull("root", path, step.step, force=True)
    names += [str(version), *(str(step.base) for step in lmcodec.rl.versions("root"))]
    step = run.add(6, {"w": lmcodec.torch.load_file(path)["w"]}) or run[6]
    latest: Step | None = run.latest
    with run.checkout(step, progress=True) as plain:
        names.append(plain if latest is None else str(latest.step))
    store = Store("s3://bucket/store", storage_options={"anon": True}) or lmcodec.remote.Store("s3://a/b", requests=2)
    model: StoredModel = store.add(path, "a@1", depth=2, model_done=lambda event, model: print(event, model.bases))
    model = store.add("b", {"w": lmcodec.torch.load_file(path)["w"]}) or store[model]
    with store.open(model) as opened, store.open("b", framework="pt") as by_name, store.checkout("b") as plain:
        names += [*opened.tensors, *by_name.keys(), plain, *store, store.get(model, "w")]
    removed: list[StoredModel] = store.drop("a", model) + store.drop([model]) + store.dependents("b")
    plan: StorePlan = store.plan(apply=bool(removed))
    print(plan.ratio, store.restore(model, path), store.verify(["b"]))
    data: bytes = lmcodec.torch.save(lmcodec.torch.load_file(path), {"a": "b"})
    data += lmcodec.serialize({"a": ("U8", (1,), b"a")})
    lmcodec.torch.save(lmcodec.torch.load(data), path, level="fast")
    dropped: list[Step] = run.drop([7, step]) + run.drop(7, step) + run.keep(last=3, dry_run=True)
    about: RunInfo = run.info()
    checked: Result = run.verify([step], progress=progress)
    with run.open(step) as one, run.open(5, "a.safetensors", framework="pt") as other:
        nbytes: int = one.nbytes + len(other.keys()) + len(dropped) + about.steps + checked.nbytes
    place: str = run.path(nbytes) if 3 in run else run.load(step)["a"]
    try:
        lmcodec.verify(place)
    except lmcodec.DataError as error:
        print(error.tensor, error.offset, [str(damage) for damage in error.damages], base_name)
    return len(frame) + result.nbytes + shape[0]
"""


def mypy(*arguments):
    done = subprocess.run([sys.executable, "-m", "mypy", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_types(directory, system):
    mypy("--config-file", os.path.join(ROOT, "python", "mypy.ini"), "--cache-dir", directory, "--platform", system)


def test_types_of_a_program(directory, monkeypatch):
    path = os.path.join(directory, "program.py")
    with open(path, "w") as file:
        file.write(PROGRAM)
    monkeypatch.setenv("MYPYPATH", os.path.join(ROOT, "python"))
    mypy("--strict", "--follow-imports", "silent", "--ignore-missing-imports", "--python-version", "3.10",
         "--cache-dir", directory, path)
