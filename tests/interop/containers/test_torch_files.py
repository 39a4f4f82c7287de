"""Files of torch.save() and torch.jit.save(): what is listed, byte for byte back, and they load again."""

import io
import json
import os
import warnings
import zipfile

import pytest

from command import check, read, safetensors_of, write
from torch_objects import (DTYPES, OBJECTS, Training, adamw, expected_of, lightning, load, same, sgd, torch)

warnings.filterwarnings("ignore")


def save(value, directory, name="file.pt", **options):
    path = os.path.join(directory, name)
    torch.save(value, path, **options)
    return path


def check_loads(value, path):
    faults = list(same(value, load(path)))
    check(not faults, faults[:5])


@pytest.mark.parametrize("name", OBJECTS)
def test_objects(tool, directory, name):
    value = OBJECTS[name]()
    path = save(value, directory)
    _, back = tool.check_file(path, expected_of(value, path))
    check_loads(value, back)


@pytest.mark.parametrize("protocol", (2, 3, 4, 5))
@pytest.mark.parametrize("name", ("nested", "adamw", "module"))
def test_protocols(tool, directory, name, protocol):
    value = OBJECTS[name]()
    path = save(value, directory, pickle_protocol=protocol)
    _, back = tool.check_file(path, expected_of(value, path))
    check_loads(value, back)


def test_without_a_name(tool, directory):
    """A file that was written to a stream has another folder in it."""
    value = OBJECTS["adamw"]()
    stream = io.BytesIO()
    torch.save(value, stream)
    path = write(os.path.join(directory, "training_state"), stream.getvalue())
    tool.check_file(path, expected_of(value, path))


@pytest.mark.parametrize("name", ("model.bin", "model.ckpt", "optimizer.pth", "no_ending", "weights.npz", "x.gguf"))
def test_told_by_content(tool, directory, name):
    value = OBJECTS["tied"]()
    path = save(value, directory, name)
    tool.check_file(path, expected_of(value, path))


def test_never_read_as_safetensors(tool, directory):
    path = save(OBJECTS["tied"](), directory, "model.safetensors")
    tool.run("convert", path, status=1)
    check(os.listdir(directory) == ["model.safetensors"], "something is left")


# ---- modules, scripts, odd tensors ----

def test_script(tool, directory):
    model = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.ReLU(), torch.nn.BatchNorm1d(40)).eval()
    script = torch.jit.script(model)
    path = os.path.join(directory, "script.pt")
    torch.jit.save(script, path)
    archive, back = tool.check_file(path)
    listed = tool.listing(archive)
    for name, tensor in script.state_dict().items():
        dtype = DTYPES[str(tensor.dtype).split(".")[1]]
        check(listed[name][:2] == (dtype, list(tensor.shape)), f"{name}: {listed.get(name)}")
    sample = torch.randn(5, 30)
    check(torch.equal(torch.jit.load(back)(sample), script(sample)), "the script gives something else")


def test_trace_with_constants(tool, directory):
    constant = torch.randn(64, 8)
    trace = torch.jit.trace(lambda x: x @ constant, torch.randn(2, 64))
    path = os.path.join(directory, "trace.pt")
    torch.jit.save(trace, path)
    archive, back = tool.check_file(path)
    check((64 * 8 * 4) in [nbytes for _, _, nbytes in tool.listing(archive).values()], "the constant is no tensor")
    sample = torch.randn(3, 64)
    check(torch.equal(torch.jit.load(back)(sample), trace(sample)), "the trace gives something else")


ODD = {
    "sparse": lambda: {"s": torch.eye(50).to_sparse(), "d": torch.randn(50)},
    "sparse-csr": lambda: {"s": torch.eye(50).to_sparse_csr()},
    "quantized": lambda: {"q": torch.quantize_per_tensor(torch.randn(100, 10), 0.1, 0, torch.qint8),
                          "c": torch.quantize_per_channel(torch.randn(10, 10), torch.full((10,), 0.1),
                                                          torch.zeros(10), 0, torch.qint8)},
    "conjugated": lambda: {"c": torch.randn(50, dtype=torch.complex64).conj()},
    "negative": lambda: {"n": torch.randn(50, dtype=torch.complex64).conj().imag},
    "with-attributes": lambda: with_attributes(),
    "storage": lambda: {"s": torch.randn(100).storage()},
    "generator": lambda: {"rng": torch.get_rng_state(), "size": torch.Size([1, 2]), "device": torch.device("cpu"),
                          "dtype": torch.float16, "numpy": torch.randn(100).numpy()},
    "half-complex": lambda: {"h": torch.view_as_complex(torch.randn(50, 2)).to(torch.complex32)},
    "meta": lambda: {"m": torch.empty(5, device="meta"), "x": torch.randn(40)},
    "float4": lambda: {"f": torch.randint(255, (20, 8), dtype=torch.uint8).view(torch.float4_e2m1fn_x2)},
}


def with_attributes():
    tensor = torch.nn.Parameter(torch.randn(30))
    tensor.note = "text"
    tensor.more = torch.randn(20)
    return {"t": tensor}


@pytest.mark.parametrize("name", ODD)
def test_odd_tensors(tool, directory, name):
    """Byte for byte back; every storage is listed, under some name."""
    try:
        value = ODD[name]()
        path = save(value, directory)
    except (AttributeError, KeyError, RuntimeError, TypeError) as error:
        pytest.skip(f"left out: this torch has no such tensor: {error}")
    archive, _ = tool.check_file(path)
    with zipfile.ZipFile(path) as file:
        storages = sum(name.split("/", 1)[1].startswith("data/") for name in file.namelist())
    listed = json.loads(tool.run("ls", "--json", archive))
    first = [tensor["name"] for tensor in listed if not tensor.get("view_of")]
    check(len(first) == storages, f"listed: {first}, in the file: {storages} storages")
    if name == "conjugated" and load(path)["c"].is_conj():  # torch 1.13 forgets it
        check([tensor["dtype"] for tensor in listed] == ["U8"], f"conjugated values that are not: {listed}")


def test_views_are_marked(tool, directory):
    whole = torch.arange(60.0).reshape(6, 10)
    path = save({"all": whole, "row": whole[2], "turned": whole.t(), "same": whole, "one": torch.ones(3)}, directory)
    archive, _ = tool.check_file(path)
    listed = {tensor["name"]: tensor for tensor in json.loads(tool.run("ls", "--json", archive))}
    check(list(listed) == ["all", "one", "row", "turned", "same"], list(listed))
    found = {name: (tensor.get("view_of"), tensor.get("strides"), tensor.get("offset"))
             for name, tensor in listed.items()}
    check(found == {"all": (None, None, None), "one": (None, None, None), "row": ("all", [1], 20),
                    "turned": ("all", [1, 10], 0), "same": ("all", [10, 1], 0)}, found)
    check(sum(tensor["stored_nbytes"] > 0 for tensor in listed.values()) == 2, "stored more than once")
    lines = tool.run("ls", archive).decode().splitlines()
    check([line.split()[0] for line in lines if line.endswith(", view of all")] == ["row", "turned", "same"], lines)


# ---- the form before 1.6 ----

def test_legacy(tool, directory):
    value = OBJECTS["state-dict"]()
    path = save(value, directory, _use_new_zipfile_serialization=False)
    before = read(path)
    tool.run("convert", path, status=1)
    check(tool.message.count("\n") == 1, f"message: {tool.message}")
    check(os.listdir(directory) == ["file.pt"], "something is left")
    tool.run("convert", "--raw", path)
    tool.run("restore", path + ".lmc", "-o", path + ".back")
    check(read(path + ".back") == before, "the restored file differs")
    check_loads(value, path + ".back")
    tool.run("verify", path + ".lmc")


# ---- later snapshots ----

@pytest.mark.parametrize("what", ("model", "adamw", "sgd", "lightning"))
def test_base(tool, directory, what):
    training = Training(sgd if what == "sgd" else adamw).steps(5)

    def snapshot(step):
        value = {"model": training.model.state_dict, "adamw": training.optimizer.state_dict,
                 "sgd": training.optimizer.state_dict, "lightning": lambda: lightning(training, step)}[what]()
        return save(value, directory, f"step{step}.pt")

    first = snapshot(5)
    training.steps(1)
    second = snapshot(6)
    training.steps(1)
    third = snapshot(7)
    tool.check_base(first, second, smaller=what == "model")
    tool.check_base(second, third, smaller=False)
    tool.run("diff", first, second, "-q", status=1)
    # a chain: the third against the second, that against the first, whose archive alone is left
    before = read(third)
    for path in (first, second, third):
        os.rename(path, path + ".away")
    tool.run("restore", third + ".lmc")
    check(read(third) == before, "the end of a chain differs")
    check_loads(load(third + ".away"), third)


def test_base_of_the_same(tool, directory):
    """A snapshot that has not changed but for a number in its pickle."""
    training = Training(adamw).steps(2)
    first = save(lightning(training, 2), directory, "a.ckpt")
    second = save(lightning(training, 3), directory, "b.ckpt")
    archive = tool.check_base(first, second)
    check(os.path.getsize(archive) < os.path.getsize(second) / 20, f"{os.path.getsize(archive)} bytes")


def test_base_in_another_container(tool, directory):
    """Names, dtypes and sizes agree: a safetensors file and a file of torch are bases of each other."""
    training = Training(adamw).steps(5)
    old = training.model.state_dict()
    torch_old = save(old, directory, "old.pt")
    expected = expected_of(old, torch_old)
    plain_old = write(os.path.join(directory, "old.safetensors"), safetensors_of(expected))
    training.steps(1)
    new = training.model.state_dict()
    torch_new = save(new, directory, "new.pt")
    plain_new = write(os.path.join(directory, "new.safetensors"), safetensors_of(expected_of(new, torch_new)))
    tool.check_base(plain_old, torch_new)
    tool.check_base(torch_old, plain_new)
    tool.run("diff", plain_new, torch_new)


@pytest.mark.parametrize("rename", (lambda name: "module." + name, lambda name: name.replace(".", "._orig_mod.", 1)),
                         ids=("prefix", "inside"))
def test_base_with_other_names(tool, directory, rename):
    training = Training(adamw).steps(5)
    old = save(training.model.state_dict(), directory, "old.pt")
    training.steps(1)
    new = {rename(name): value for name, value in training.model.state_dict().items()}
    expected = os.path.getsize(tool.check_base(old, save(training.model.state_dict(), directory, "exact.pt")))
    archive = tool.check_base(old, save(new, directory, "new.pt"))
    check(os.path.getsize(archive) < expected + 500, f"{os.path.getsize(archive)} bytes, with equal names {expected}")


def test_diff_names_what_changed(tool, directory):
    one = OBJECTS["state-dict"]()
    first = save(one, directory, "a.pt")
    one["blocks.1.up.bias"][3] += 1
    one["more"] = torch.randn(5)
    del one["positions"]
    second = save(one, directory, "b.pt")
    tool.run("convert", first)
    said = tool.run("diff", first + ".lmc", second, status=1).decode()
    for line in ("~ blocks.1.up.bias", "- positions", "+ more"):
        check(line in said, said)
    check(said.count("~ ") == 1, said)


def test_as_small_as_safetensors(tool, directory):
    """archive / file of an optimizer's state: as for the same tensors in a safetensors file, within 0.002."""
    value = Training(adamw).steps(10).optimizer.state_dict()
    # a state of a real size: what stands around tensors must not count
    for state in value["state"].values():
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = state[name].repeat(*[4] * state[name].dim())
    path = save(value, directory)
    plain = write(os.path.join(directory, "same.safetensors"), safetensors_of(expected_of(value, path)))
    ratios = []
    for name in (path, plain):
        tool.run("convert", name, "-o", name + ".lmc")
        ratios.append(os.path.getsize(name + ".lmc") / os.path.getsize(name))
    check(abs(ratios[0] - ratios[1]) <= 0.002, f"torch {ratios[0]:.4f}, safetensors {ratios[1]:.4f}")
