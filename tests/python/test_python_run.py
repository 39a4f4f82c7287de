"""lmcodec.Run: the snapshots of a training that never was, with NumPy and PyTorch."""
import errno
import json
import os
import shutil

import numpy
import pytest

import lmcodec
import lmcodec.numpy
from lmcodec import Run, Step

from kept import add_from_threads, interrupt_waiting_add


def arrays_at(step, rows=200):
    """What the training has at a step: one value of 50 changes in ten steps."""
    random = numpy.random.default_rng(1)
    weights = random.standard_normal((rows, 300)).astype("f4")
    for earlier in range(10, step + 1, 10):
        changes = numpy.random.default_rng(earlier)
        rows_of, columns = changes.integers(0, rows, rows * 6), changes.integers(0, 300, rows * 6)
        weights[rows_of, columns] *= numpy.float32(1.001)
    return {"w": weights, "step": numpy.int64(step)}


def write_file(folder, step, name="step%d.safetensors"):
    path = os.path.join(folder, name % step)
    lmcodec.numpy.save_file(arrays_at(step), path, {"format": "pt"})
    return path


def write_checkpoint(folder, step):
    """A directory with two files of tensors that share names, and others."""
    root = os.path.join(folder, "checkpoint-%d" % step)
    os.makedirs(os.path.join(root, "global_step%d" % step))
    lmcodec.numpy.save_file(arrays_at(step), os.path.join(root, "model.safetensors"))
    moments = {"w": arrays_at(step, 100)["w"], "m": arrays_at(step, 50)["w"]}
    lmcodec.numpy.save_file(moments, os.path.join(root, "global_step%d" % step, "state.safetensors"))
    with open(os.path.join(root, "trainer_state.json"), "w") as file:
        json.dump({"global_step": step}, file)
    with open(os.path.join(root, "note.lmc"), "w") as file:
        file.write("named as an archive, but none")
    return root


def tree_of(root):
    return {os.path.relpath(os.path.join(folder, name), root): open(os.path.join(folder, name), "rb").read()
            for folder, _, names in os.walk(root) for name in names}


@pytest.fixture
def files(directory):
    """A run of single files, 10 to 50, and the paths of these."""
    run = Run(os.path.join(directory, "run"))
    paths = {step: write_file(directory, step) for step in range(10, 60, 10)}
    for path in paths.values():
        run.add(path, key_every=3, fsync=False)
    return run, paths


@pytest.fixture
def folders(directory):
    """A run of checkpoint directories, 100 and 200."""
    run = Run(os.path.join(directory, "run"))
    paths = {step: write_checkpoint(directory, step) for step in (100, 200)}
    for path in paths.values():
        run.add(path, fsync=False)
    return run, paths


# ---- steps ----

def test_steps(files):
    run, paths = files
    steps = run.steps()
    assert [step.step for step in steps] == sorted(paths) and len(run) == 5 and list(run) == steps
    assert list(reversed(run)) == steps[::-1]
    assert [step.chain for step in steps] == [0, 1, 2, 0, 1]
    assert [step.base for step in steps] == [None, 10, 20, None, 40]
    for step in steps:
        assert not step.is_directory and step.files == 1
        assert step.nbytes == os.path.getsize(paths[step.step]) and step.time == int(os.path.getmtime(paths[step.step]))
        assert step.stored_nbytes == os.path.getsize(run.path(step, "step%d.safetensors" % step.step))
        assert step.ratio == step.stored_nbytes / step.nbytes and (step.ratio < 0.4) == (step.chain > 0)
    assert 30 in run and numpy.int64(30) in run and steps[0] in run
    assert not any(other in run for other in (31, -1, 2**70, "30", 30.0, None))
    with pytest.raises(AttributeError):
        steps[0].step = 5


def test_info(files):
    run, paths = files
    info, steps = run.info(), run.steps()
    assert (info.steps, info.key_frames, info.first, info.last, info.chain, info.key_every) == (5, 2, 10, 50, 2, 3)
    assert (info.files, info.nbytes) == (5, sum(map(os.path.getsize, paths.values())))
    assert info.stored_nbytes == sum(step.stored_nbytes for step in steps) and 0 < info.ratio < 1


def test_what_add_returns_and_tells(directory):
    run, seen = Run(os.path.join(directory, "run")), []
    first = run.add(write_file(directory, 10), step_done=lambda *event: seen.append(event))
    assert isinstance(first, Step) and seen == [("added", first)] and run.steps() == [first]
    again = run.add(write_file(directory, 10), step_done=lambda *event: seen.append(event))
    assert again.step == 10 and seen[1][0] == "already there"
    other = run.add(write_file(directory, 20), 7000, level="fast", threads=1)
    assert (other.step, other.base, other.chain) == (7000, 10, 1)
    planned = run.add(write_file(directory, 8000), dry_run=True)
    assert planned.step == 8000 and 8000 not in run and repr(run) == "Run(%r)" % os.path.join(directory, "run")


def test_a_step_with_other_content(files, directory):
    run, paths = files
    path = shutil.copy(paths[50], os.path.join(directory, "other.safetensors"))
    with pytest.raises(FileExistsError) as caught:
        run.add(path, 20)
    assert caught.value.filename == path and caught.value.errno == errno.EEXIST
    seen = []
    run.add(path, 20, force=True, step_done=lambda event, step: seen.append((event, step.step)))
    assert seen == [("re-based", 30), ("added", 20)]
    run.compare(20, path)
    run.compare(30, paths[30])


def test_wrong_requests(files, directory):
    run, paths = files
    nameless = shutil.copy(paths[10], os.path.join(directory, "weights.safetensors"))
    with pytest.raises(lmcodec.ArgumentError, match="step"):
        run.add(nameless)
    for key_every in (0, 64, -1):
        with pytest.raises(lmcodec.ArgumentError, match="^key_every is 1 to 63, not %d$" % key_every):
            run.add(nameless, 60, key_every=key_every)
    for step in (-1, 2**63 + 1, 2**64 + 10):
        with pytest.raises(lmcodec.ArgumentError, match="step"):
            run.restore(step, os.path.join(directory, "out"))
        with pytest.raises(lmcodec.ArgumentError, match="step"):
            run.add(nameless, step)
    for call in (run.path, run.load, run.drop, run.open, lambda step: run.verify([10, step]),
                 lambda step: run.compare(step, nameless), lambda step: run.get_tensor(step, "w")):
        with pytest.raises(lmcodec.ArgumentError, match="no step 31"):
            call(31)
    with pytest.raises(lmcodec.ArgumentError):
        run.verify([])
    with pytest.raises(lmcodec.ArgumentError):
        run.keep()
    with pytest.raises(lmcodec.ArgumentError):
        run.keep(last=-1)
    with pytest.raises(TypeError):
        run.load("10")
    with pytest.raises(FileNotFoundError):
        run.add(os.path.join(directory, "step60.safetensors"))
    assert len(run) == 5


def test_a_directory_that_is_no_run(directory):
    missing, other = Run(os.path.join(directory, "missing")), Run(directory)
    open(os.path.join(directory, "file"), "w").close()
    assert (missing.steps(), list(missing), len(missing), missing.latest, 5 in missing) == ([], [], 0, None, False)
    assert missing
    for call in (Run.steps, Run.info, len, Run.verify, lambda run: run.path(5), lambda run: run.load(5)):
        if call not in (Run.steps, len):
            with pytest.raises(FileNotFoundError):
                call(missing)
        with pytest.raises(lmcodec.ArgumentError):
            call(other)
    assert os.listdir(directory) == ["file"]
    with pytest.raises(FileNotFoundError):
        missing.repair()
    with pytest.raises(lmcodec.ArgumentError):
        other.repair()


# ---- changes ----

def test_drop(files):
    run, paths = files
    seen = []
    gone = run.drop(20, run.steps()[3], step_done=lambda event, step: seen.append((event, step.step)))
    assert [step.step for step in gone] == [20, 40] and ("re-based", 30) in seen and ("re-based", 50) in seen
    assert [step.step for step in run] == [10, 30, 50]
    run.verify()
    for step in (10, 30, 50):
        run.compare(step, paths[step])
    with pytest.raises(lmcodec.ArgumentError):
        run.drop()
    assert [step.step for step in run.drop([10, run[30]])] == [10, 30] and len(run) == 1
    with pytest.raises(lmcodec.ArgumentError):
        run.drop([])


def test_steps_by_their_numbers(files):
    run, paths = files
    assert run[30] == run.steps()[2] and run[run[30]].step == 30 and run.latest.step == 50
    for wrong, error in ((35, KeyError), (-1, lmcodec.ArgumentError), ("30", TypeError), (slice(3), TypeError)):
        with pytest.raises(error):
            run[wrong]


def test_checkout(files, directory):
    """A file has its name, and is gone after `with`, whatever happens in it."""
    run, paths = files
    with run.checkout(30) as path:
        assert open(path, "rb").read() == open(paths[30], "rb").read()
        assert os.path.basename(path) == os.path.basename(paths[30])
    with pytest.raises(ZeroDivisionError), run.checkout(run.latest, directory) as path:
        assert path.startswith(directory)
        1 / 0
    assert not os.path.exists(os.path.dirname(path))
    with pytest.raises(lmcodec.StepNotFound), run.checkout(31):
        raise AssertionError


@pytest.mark.parametrize("framework", ["np", "pt"])
def test_tensors_without_a_file(directory, framework):
    if framework == "pt":
        torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
        made = torch.randn(100, 300, generator=torch.Generator().manual_seed(1))
    else:
        made = numpy.random.default_rng(1).standard_normal((100, 300), dtype="f4")
    run = Run(os.path.join(directory, "run"))
    for step in (1, 2):
        made[step] += 1
        assert run.add(step, {"w": made, "b": made[0], "t": made.T},
                       key_every=2).base == (step - 1 or None)
    assert (run.load(2, framework=framework)["w"] == made).all()
    assert run.open(1).metadata == {"format": framework} and run.latest.step == 2
    with pytest.raises(FileExistsError) as caught:
        run.add(2, {"w": made + 1})
    assert caught.value.filename == "model.safetensors"
    with pytest.raises(FileNotFoundError, match="none'$"):
        Run(os.path.join(directory, "none", "run")).add(2, {"w": made})
    for wrong in ({"w": [1.0]}, {"w": made, "x": [1.0]}):
        with pytest.raises((TypeError, ValueError), match="Key `.` is invalid"):
            run.add(3, wrong)
    run.add(2, {"w": made + 1}, force=True)
    assert (run.get_tensor(2, "w", framework) == made + 1).all()
    assert os.listdir(directory) == ["run"]
    with pytest.raises(TypeError):
        run.add("2", {"w": made})


def test_keep(files):
    run, paths = files
    planned = run.keep(last=1, every=20, dry_run=True)
    assert [step.step for step in planned] == [10, 30] and len(run) == 5
    assert [step.step for step in run.keep(last=1, every=20)] == [10, 30]
    assert [step.step for step in run] == [20, 40, 50]
    run.compare(20, paths[20])


def test_repair(files):
    run, _ = files
    before = run.steps()
    place = os.path.join(os.path.dirname(run.path(10)), "run.json")
    with open(place, "w") as file:
        file.write("no json")
    with pytest.raises(lmcodec.DataError):
        run.steps()
    run.repair()
    assert run.steps() == before


# ---- contents ----

@pytest.mark.parametrize("kind", ["files", "folders"])
def test_restore(kind, request, directory):
    run, paths = request.getfixturevalue(kind)
    for step, path in paths.items():
        place = os.path.join(directory, "back%d" % step)
        result = run.restore(step, place)
        assert result.nbytes == next(one.nbytes for one in run if one.step == step)
        if os.path.isdir(path):
            assert tree_of(place) == tree_of(path)
        else:
            assert open(place, "rb").read() == open(path, "rb").read()
        with pytest.raises(FileExistsError):
            run.restore(step, place)
        assert run.restore(step, place, force=True, threads=1).nbytes == result.nbytes
        assert list(run.verify([step]).damages) == []


def test_files_of_a_step(folders):
    run, paths = folders
    assert run.path(200) == os.path.join(os.path.dirname(run.path(100)), "200")
    for name in ("model.safetensors", "global_step200/state.safetensors"):
        assert run.path(200, name) == os.path.join(run.path(200), name + ".lmc")
    for name in ("trainer_state.json", "note.lmc"):
        assert run.path(200, name) == os.path.join(run.path(200), name)
    for name in ("model.safetensors.lmc", "note", "nothing", "global_step200", "../run.json",
                 "../100/model.safetensors", run.path(200, "note.lmc")):
        with pytest.raises(FileNotFoundError) as caught:
            run.path(200, name)
        assert caught.value.filename == os.path.join(run.path(200), name)
    with run.open(200) as file:
        assert isinstance(file, lmcodec.File) and file.base_name == "model.safetensors"
        assert file.read("w") == arrays_at(200)["w"].tobytes()
    with run.open(200, "global_step200/state.safetensors", framework="np") as file:
        assert file.keys() == ["m", "w"] and (file.get_slice("m")[3:5] == arrays_at(200, 50)["w"][3:5]).all()


def same(found, expected):
    return list(found) and found.keys() == expected.keys() and all(
        (numpy.asarray(found[name]) == expected[name]).all() for name in expected)


def test_load(folders):
    run, _ = folders
    assert same(run.load(200, framework="np"), arrays_at(200))
    seen = []
    state = run.load(200, "global_step200/state.safetensors", "np", threads=1,
                     progress=lambda done, total: seen.append((done, total)))
    assert same(state, {"w": arrays_at(200, 100)["w"], "m": arrays_at(200, 50)["w"]})
    assert seen == sorted(seen) and seen[-1] == (150 * 300 * 4, 150 * 300 * 4)
    with pytest.raises(ZeroDivisionError):
        run.load(200, framework="np", progress=lambda done, total: 1 // 0)
    assert (run.get_tensor(200, "m", "np") == arrays_at(200, 50)["w"]).all()
    assert (run.get_tensor(200, "model.safetensors:w", "np") == arrays_at(200)["w"]).all()
    with pytest.raises(lmcodec.ArgumentError, match="FILE:NAME"):
        run.get_tensor(200, "w", "np")
    for name in ("x", "model.safetensors:m", "model.safetensors:", "other:w"):
        with pytest.raises(lmcodec.TensorNotFound):
            run.get_tensor(200, name, "np")


def test_load_of_single_files(files):
    run, _ = files
    for step in (10, 20, 30, 40, 50):
        assert same(run.load(step, framework="np"), arrays_at(step))
        assert same(run.load(step, "step%d.safetensors" % step, "np"), arrays_at(step))
        assert run.get_tensor(step, "step", "np") == step


def write_parts(folder, step):
    """A model in two files, with the index that names them."""
    root = os.path.join(folder, "checkpoint-%d" % step)
    os.mkdir(root)
    arrays = {"a": arrays_at(step, 100)["w"], "b": arrays_at(step, 60)["w"]}
    places = {name: "model-%05d-of-00002.safetensors" % (number + 1) for number, name in enumerate(arrays)}
    for name, place in places.items():
        lmcodec.numpy.save_file({name: arrays[name]}, os.path.join(root, place))
    with open(os.path.join(root, "model.safetensors.index.json"), "w") as file:
        json.dump({"weight_map": places}, file)
    lmcodec.numpy.save_file({"c": arrays["a"]}, os.path.join(root, "optimizer.safetensors"))
    return root, arrays


def test_load_of_a_model_in_parts(directory):
    run, seen = Run(os.path.join(directory, "run")), []
    for step in (10, 20):
        root, arrays = write_parts(directory, step)
        run.add(root)
    assert same(run.load(20, framework="np", progress=lambda *now: seen.append(now)), arrays)
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] == sum(array.nbytes for array in arrays.values())
    with pytest.raises(lmcodec.ArgumentError, match="optimizer.safetensors"):
        run.open(20)


def test_load_of_other_files(directory):
    root = os.path.join(directory, "checkpoint-5")
    os.mkdir(root)
    arrays = {"a": numpy.arange(5000.0), "b": numpy.arange(3000, dtype="i4")}
    numpy.savez(os.path.join(root, "state.npz"), **arrays)
    lmcodec.numpy.save_file(arrays, os.path.join(root, "ema.safetensors"))
    run = Run(os.path.join(directory, "run"))
    run.add(root, excludes=["ema*"])
    assert same(run.load(5, "ema.safetensors", "np"), arrays), "a copy"
    loaded = run.load(5, "state.npz", "np")
    assert sorted(array.size for array in loaded.values()) == [3000, 5000]
    assert same(dict(lmcodec.numpy.load(run.path(5, "state.npz"))), arrays)


def test_damage(files):
    run, paths = files
    path = run.path(20, "step20.safetensors")
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"damage" * 10)
    seen = []
    with pytest.raises(lmcodec.DataError) as caught:
        run.verify(step_done=lambda event, step: seen.append((event, step.step)))
    assert os.path.normpath(caught.value.file) == path and caught.value.tensor == "w" and caught.value.damages
    assert seen == [("verified", step) for step in (10, 40, 50)]
    with pytest.raises(lmcodec.DataError):
        run.load(30, framework="np")
    with pytest.raises(lmcodec.DataError):
        run.restore(30, paths[30], force=True)
    with pytest.raises(lmcodec.ChecksumError):
        run.compare(40, paths[50])
    assert same(run.load(50, framework="np"), arrays_at(50))


# ---- callbacks and threads ----

def test_what_callbacks_raise(files, directory):
    run, paths = files
    out, new = os.path.join(directory, "out"), write_file(directory, 60)
    before = sorted(os.listdir(directory))
    for call in (lambda progress: run.add(new, progress=progress), lambda progress: run.verify(progress=progress),
                 lambda progress: run.restore(20, out, progress=progress),
                 lambda progress: run.compare(20, paths[20], progress=progress),
                 lambda progress: run.drop(10, progress=progress)):
        with pytest.raises(ZeroDivisionError):
            call(lambda done, total: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        run.verify(step_done=lambda event, step: 1 // 0)
    assert [step.step for step in run] == [10, 20, 30, 40, 50] and sorted(os.listdir(directory)) == before
    run.verify()


def test_several_threads(directory):
    run = Run(os.path.join(directory, "run"))
    paths = [write_file(directory, step) for step in range(10, 90, 10)]
    assert not add_from_threads(run, paths)
    assert len(run) == 8
    run.verify()


@pytest.mark.posix
def test_an_interrupt_ends_the_wait_for_the_lock(files, directory):
    run, _ = files
    path = write_file(directory, 60)
    assert interrupt_waiting_add("Run", os.path.dirname(run.path(10)), path) == "interrupted"
    assert len(run) == 5


# ---- a plain copy of the base ----

@pytest.mark.parametrize("restored", [False, True])
def test_base_snapshot(files, directory, restored):
    run, paths = files
    with open(run.path(40, "step40.safetensors"), "r+b") as file:  # the key frame of the newest step
        file.seek(-1000, os.SEEK_END)
        file.write(b"damage" * 10)
    if restored:  # as a step alone gives it
        os.mkdir(os.path.join(directory, "back"))
        paths[50] = os.path.join(directory, "back", "step50.safetensors")
        lmcodec.restore(run.path(50, "step50.safetensors"), paths[50],
                        base=os.path.join(directory, "step40.safetensors"))
    added = run.add(write_file(directory, 60), key_every=9, base_snapshot=paths[50])
    assert added.base == 50 and added.chain == 2
    shutil.copy2(os.path.join(directory, "step60.safetensors"), os.path.join(directory, "other.safetensors"))
    os.utime(os.path.join(directory, "step60.safetensors"))
    path = write_file(directory, 70)
    for name in ("step60.safetensors", "other.safetensors"):  # another time, another name: step 60 must be decoded
        assert run.add(path, base_snapshot=os.path.join(directory, name), force=True).base is None
    assert same(run.load(70, framework="np"), arrays_at(70))


@pytest.mark.parametrize("other", ["none", "checkpoint-100", "checkpoint-200/model.safetensors", "changed"])
def test_base_snapshot_that_is_another(folders, directory, other):
    run, paths = folders
    shutil.copytree(paths[200], os.path.join(directory, "changed"))
    with open(os.path.join(directory, "changed", "more"), "w"):
        pass
    path = write_checkpoint(directory, 300)
    assert run.add(path, base_snapshot=os.path.join(directory, other)).base == 200
    run.compare(300, path)


# ---- PyTorch ----

def test_torch(folders, directory):
    torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
    import lmcodec.torch
    run, _ = folders
    weights = run.load(200)
    assert weights["w"].dtype == torch.float32 and same(weights, arrays_at(200))
    assert torch.equal(run.get_tensor(100, "m"), torch.from_numpy(arrays_at(100, 50)["w"]))
    with run.open(100, framework="pt", device="cpu", threads=1) as file:
        assert torch.equal(file.get_slice("w")[5, ::7], torch.from_numpy(arrays_at(100)["w"])[5, ::7])
    assert same(lmcodec.torch.load_file(run.path(200, "model.safetensors")), arrays_at(200))


def test_files_of_torch(directory):
    torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
    import lmcodec.torch
    run, states = Run(os.path.join(directory, "run")), {}
    for step in (10, 20):
        states[step] = {"step": step, "exp_avg": torch.from_numpy(arrays_at(step)["w"])}
        path = os.path.join(directory, "optimizer-%d.pt" % step)
        torch.save(states[step], path)
        run.add(path)
    assert run.steps()[1].base == 10
    state = lmcodec.torch.load(run.path(20, "optimizer-20.pt"))
    assert state["step"] == 20 and torch.equal(state["exp_avg"], states[20]["exp_avg"])
    [tensor] = run.load(20).values()
    assert tensor.numel() == 200 * 300
