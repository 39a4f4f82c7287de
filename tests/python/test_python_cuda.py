"""load_file() and safe_open() for tensors that a GPU decodes, without one: the driver is a fake one, its kernel the
emulation on the host, and the device's tensors are torch's of the host (cuda_stand_in.py)."""
import ctypes
import os
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")

import lmcodec
import lmcodec.torch
from lmcodec._arrays import torch_tensors
from lmcodec._cuda import cuda_abi, cuda_batch, torch_cuda
from lmcodec._cuda.cuda_load import Loader

from cuda_stand_in import FakeDriver, StandIn

NO_DEVICE, LAUNCH_FAILED = 100, 719
BLOCK_NBYTES = 32768


@pytest.fixture(scope="session")
def libraries(pytestconfig):
    """Paths of the fake driver, and of liblmc_cuda with kernels for it."""
    folder = os.path.join(os.path.abspath(pytestconfig.getoption("--build")), "tests")
    paths = [os.path.join(folder, name) for name in ("libfake_cuda.so", "liblmc_cuda_fake_kernels.so")]
    if not all(map(os.path.exists, paths)):
        pytest.skip("the build has no liblmc_cuda")
    return paths


@pytest.fixture
def driver(libraries, monkeypatch):
    """The fake driver in a context of its own."""
    monkeypatch.setenv("LMC_CUDA_DRIVER", libraries[0])
    driver = FakeDriver(libraries[0])
    driver.reset()
    context = driver.new("cuCtxCreate_v2", 0, 0)
    yield driver
    driver.reset()
    driver.call("cuCtxDestroy_v2", context)


@pytest.fixture
def calls(libraries):
    return cuda_abi.Calls(ctypes.CDLL(libraries[1]))


class Bench:
    """Loads through the stand-in whenever a tensor is loaded. The rest goes to the memory of the host."""

    def __init__(self, driver, calls, monkeypatch):
        self.driver, self.calls = driver, calls
        self.buffer_nbytes, self.memory_nbytes = 1 << 16, 1 << 40
        self.devices = []
        bench = self

        class Tensors(torch_tensors.TorchTensors):
            @property
            def loader(self):
                return Loader(bench.calls, bench.make_device, cuda_batch.init(bench.calls), bench.buffer_nbytes, 0)

        monkeypatch.setattr(torch_tensors, "arrays", lambda device: Tensors("cpu"))

    def make_device(self):
        self.devices.append(StandIn(self.driver, self.memory_nbytes))
        return self.devices[-1]


@pytest.fixture
def bench(driver, calls, monkeypatch):
    return Bench(driver, calls, monkeypatch)


def dense_tensors():
    """Tensors of many dtypes and sizes."""
    torch.manual_seed(3)
    tensors = {"w%d" % n: torch.randn(50 + 37 * n, 96).to(torch.bfloat16) * 0.02 for n in range(6)}
    tensors["f32"] = torch.randn(400, 33)
    tensors["f16"] = torch.randn(3000).to(torch.float16)
    tensors["bytes"] = torch.randint(0, 256, (5001,), dtype=torch.uint8)
    tensors["zeros"] = torch.zeros(9000, dtype=torch.bfloat16)
    tensors["masked"] = torch.randn(90, 90).to(torch.bfloat16).relu()
    tensors["scalar"] = torch.tensor(7.5, dtype=torch.float64)
    tensors["none"] = torch.zeros(0, 5)
    tensors["flags"] = torch.randint(0, 2, (5, 7, 9)).bool()
    tensors["complex"] = torch.randn(40, dtype=torch.complex64)
    if hasattr(torch, "float8_e4m3fn"):
        tensors["f8"] = torch.randn(7000).to(torch.float8_e4m3fn)
    tensors["again"] = tensors["w1"].clone()  # stored once
    return tensors


@pytest.fixture
def tensors():
    return dense_tensors()


@pytest.fixture
def path(directory, tensors):
    path = os.path.join(directory, "a.safetensors.lmc")
    lmcodec.torch.save_file(tensors, path)
    return path


def check_equal(found, expected):
    assert list(found) == sorted(expected, key=list(found).index) and set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        assert bytes_of(found[name]) == bytes_of(tensor), name


def bytes_of(tensor):
    return bytes(tensor.reshape(-1).view(torch.uint8).tolist())


def damage(path, tensor, offset=-1):
    """Changes a byte in the middle of a tensor's frame, or at this offset of it."""
    with lmcodec.File(path) as file:
        first, nbytes = file.place(file.find(tensor))
    with open(path, "r+b") as file:
        file.seek(first + (nbytes // 2 if offset < 0 else offset))
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x10]))


# ---- what comes out ----

@pytest.mark.parametrize("buffer_nbytes", [1, 20000, 1 << 16, 1 << 26], ids=["one tensor", "20 KB", "64 KiB", "all"])
def test_all_tensors(bench, path, tensors, buffer_nbytes):
    bench.buffer_nbytes = buffer_nbytes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_equal(lmcodec.torch.load_file(path, device="cuda"), tensors)
    assert bench.driver.calls("cuLaunchKernel") > (0 if buffer_nbytes > 1 else 10)
    assert bench.devices[0].settled == 1


def test_order_and_names(bench, path, tensors):
    with lmcodec.safe_open(path, "pt", device="cuda") as file:
        assert list(file.get_tensors(["w3", "none", "w0"])) == ["w3", "none", "w0"]
        assert bytes_of(file.get_tensor("w2")) == bytes_of(tensors["w2"])
        assert bytes_of(file.get_slice("w2")[3:5]) == bytes_of(tensors["w2"][3:5])
        with pytest.raises(lmcodec.TensorNotFound):
            file.get_tensor("absent")


def test_several_blocks_of_a_tensor(bench, directory):
    tensor = {"w": (torch.randn(6 * BLOCK_NBYTES) * 0.02).to(torch.bfloat16)}
    path = os.path.join(directory, "b.lmc")
    lmcodec.torch.save_file(tensor, path)
    check_equal(lmcodec.torch.load_file(path, "cuda"), tensor)
    assert bench.devices[0].written_nbytes == 0


def test_progress(bench, path, tensors):
    seen = []
    lmcodec.torch.load_file(path, "cuda", progress=lambda done, total: seen.append((done, total)))
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    assert seen == sorted(seen) and seen[-1] == (total, total) and len(seen) > 2
    assert all(entry[1] == total for entry in seen)


class Stop(Exception):
    pass


def test_progress_that_raises_ends_the_call(bench, path):
    def progress(done, total):
        raise Stop

    with pytest.raises(Stop):
        lmcodec.torch.load_file(path, "cuda", progress=progress)
    assert bench.devices[0].settled == 1  # nothing is at work in memory that is freed


# ---- what the host does ----

def test_plain_files(bench, directory, tensors):
    path = os.path.join(directory, "plain.safetensors")
    lmcodec.torch.save_file(tensors, path)
    check_equal(lmcodec.torch.load_file(path, "cuda"), tensors)
    assert not bench.devices


def test_deltas(bench, directory, tensors):
    base, path = os.path.join(directory, "base.safetensors.lmc"), os.path.join(directory, "next.safetensors.lmc")
    changed = dict(tensors)
    changed["w1"] = tensors["w1"].clone()
    changed["w1"][3, 4] = 1.0
    changed["again"] = changed["w1"].clone()
    changed["new"] = torch.randn(300, 20).to(torch.bfloat16)
    lmcodec.torch.save_file(tensors, base)
    lmcodec.torch.save_file(changed, path, base=base)
    check_equal(lmcodec.torch.load_file(path, "cuda"), changed)
    with lmcodec.File(path) as file:
        has_base = {name for name, info in file.tensors.items() if file.has_base(info)}
    assert "w0" in has_base and "new" not in has_base
    assert len(has_base & {"w1", "again"}) == 1  # the other one is stored as this one


def test_views(bench, directory):
    """What is decoded is the storage: the host picks the elements of views from it."""
    weight = torch.randn(300, 80)
    tensors = {"weight": weight, "turned": weight.t(), "row": weight[7], "tied": weight.detach(),
               "other": torch.ones(99)}
    path = os.path.join(directory, "views.pt")
    torch.save(tensors, path)
    lmcodec.convert(path)
    check_equal(lmcodec.torch.load_file(path + ".lmc", "cuda"), {name: tensor.contiguous()
                                                                 for name, tensor in tensors.items()})
    assert bench.driver.calls("cuLaunchKernel") > 0


def test_a_device_without_memory(bench, path, tensors):
    for memory_nbytes in (0, 50000, 250000, 2000000):
        bench.memory_nbytes = memory_nbytes
        check_equal(lmcodec.torch.load_file(path, "cuda"), tensors)
        assert bench.devices[-1].settled == 1


def test_blocks_that_the_device_leaves(bench, path, tensors, monkeypatch):
    """The kernel does not run: the results stay as they are, and the host decodes everything."""
    monkeypatch.setattr(bench.calls, "decode", lambda *arguments: 0)
    check_equal(lmcodec.torch.load_file(path, "cuda"), tensors)
    assert bench.devices[0].written_nbytes >= sum(t.numel() * t.element_size() for t in tensors.values()) - 8


# ---- faults ----

def test_damaged_tensors(bench, path):
    damage(path, "w4")
    with pytest.raises(lmcodec.DataError) as caught:
        lmcodec.torch.load_file(path, "cuda")
    assert caught.value.tensor == "w4" and caught.value.file == path and caught.value.offset is not None
    with lmcodec.safe_open(path, "pt", device="cuda") as file:
        file.get_tensor("w3")


def test_damaged_heads(bench, path):
    damage(path, "w4", 5)
    with pytest.raises(lmcodec.LMCError) as caught:
        lmcodec.torch.load_file(path, "cuda")
    assert caught.value.tensor == "w4" and caught.value.file == path


def test_exchanged_frames(bench, directory):
    """Two frames of one kind that were exchanged are sound by themselves."""
    path = os.path.join(directory, "c.lmc")
    both = [torch.zeros(4000, dtype=torch.uint8), torch.ones(4000, dtype=torch.uint8)]
    lmcodec.torch.save_file({"a": both[0], "b": both[1]}, path)
    with lmcodec.File(path) as file:
        places = [file.place(file.find(name)) for name in "ab"]
    assert places[0][1] == places[1][1]
    with open(path, "r+b") as file:
        frames = []
        for offset, nbytes in places:
            file.seek(offset)
            frames.append(file.read(nbytes))
        for (offset, _), frame in zip(places, reversed(frames)):
            file.seek(offset)
            file.write(frame)
    with pytest.raises(lmcodec.ChecksumError, match="it belongs elsewhere"):
        lmcodec.torch.load_file(path, "cuda")


def test_a_file_that_was_cut(bench, path):
    file = lmcodec.safe_open(path, "pt", device="cuda")
    os.truncate(path, os.path.getsize(path) // 2)
    with pytest.raises(OSError):
        file.get_tensors()


def test_sound_tensors_that_the_device_refuses(bench, path, tensors, monkeypatch):
    def failed_block(batch, index, failure):
        struct = ctypes.cast(failure, ctypes.POINTER(cuda_abi.Failure)).contents
        struct.frame_index = 0
        return int(index == 0)

    monkeypatch.setattr(bench.calls, "failed_block", failed_block)
    with pytest.warns(RuntimeWarning, match="took sound tensors for damaged"):
        check_equal(lmcodec.torch.load_file(path, "cuda"), tensors)


def test_launches_that_fail(bench, path):
    cuda_batch.init(bench.calls)
    bench.driver.fail("cuLaunchKernel", LAUNCH_FAILED)
    with pytest.raises(lmcodec.DeviceError, match=r"cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED \(719\)"):
        lmcodec.torch.load_file(path, "cuda")


def test_work_that_fails(bench, path):
    bench.driver.fail("work", 1)
    with pytest.raises(RuntimeError, match="719"):
        lmcodec.torch.load_file(path, "cuda")


# ---- whether a device decodes ----

@pytest.fixture
def on_cuda(calls, driver, monkeypatch):
    """torch as if it had a device."""
    class Nothing:
        def __init__(self, *_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    torch_cuda._device_info.cache_clear()
    monkeypatch.setattr(cuda_abi, "calls", lambda: calls)
    monkeypatch.setattr(torch.cuda, "device", Nothing)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: None)
    monkeypatch.setenv("LMCODEC_CUDA_DECODE", "auto")
    yield driver
    torch_cuda._device_info.cache_clear()


def test_a_device_with_kernels_decodes(on_cuda, monkeypatch):
    assert torch_cuda.loader_of("cuda") is not None and torch_cuda.loader_of(0) is not None
    monkeypatch.setenv("LMCODEC_CUDA_DECODE", "1")
    assert torch_cuda.loader_of("cuda") is not None


def test_the_host_decodes_unless_the_device_is_asked_for(on_cuda, monkeypatch):
    monkeypatch.delenv("LMCODEC_CUDA_DECODE")
    assert torch_cuda.loader_of("cuda") is None
    monkeypatch.setenv("LMCODEC_CUDA_DECODE", "0")
    assert torch_cuda.loader_of("cuda") is None


def test_without_kernels_the_host_decodes(on_cuda, monkeypatch):
    on_cuda.library.fake_cuda_set_capability(7, 5)
    assert torch_cuda.loader_of("cuda:0") is None
    monkeypatch.setenv("LMCODEC_CUDA_DECODE", "1")
    with pytest.raises(lmcodec.UnsupportedError, match="fits compute capability 7.5"):
        torch_cuda.loader_of("cuda:0")


def test_without_the_library_the_host_decodes(on_cuda, monkeypatch):
    monkeypatch.setattr(cuda_abi, "calls", lambda: None)
    assert torch_cuda.loader_of("cuda:0") is None
    monkeypatch.setenv("LMCODEC_CUDA_DECODE", "1")
    with pytest.raises(lmcodec.UnsupportedError, match="built without liblmc_cuda: .*LMC_BUILD_CUDA=ON"):
        torch_cuda.loader_of("cuda:0")


def test_other_devices_have_no_loader():
    assert torch_tensors.TorchTensors("cpu").loader is None and torch_tensors.TorchTensors("mps").loader is None


# ---- on a device ----

def test_library_of_the_build(libraries):
    """The package finds liblmc_cuda itself: the other tests name the library, but a program does not."""
    calls = cuda_abi.calls()
    assert calls is not None and calls.kernels_text().startswith((b"sm_", b"none: ")), calls


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no device of CUDA")
@pytest.mark.parametrize("mode", ["0", "1"], ids=["by the host", "by the device"])
def test_on_a_device(path, tensors, monkeypatch, mode):
    loads = []

    class Watched(Loader):
        """Takes small tensors, too, and says what it has loaded."""

        def __init__(self, calls, make_device, device_info):
            super().__init__(calls, make_device, device_info, 1 << 16, 0)

        def load(self, *arguments, **options):
            loads.append(super().load(*arguments, **options))
            return loads[-1]

    monkeypatch.setattr(torch_cuda, "Loader", Watched)
    monkeypatch.setenv("LMCODEC_CUDA_DECODE", mode)
    found = lmcodec.torch.load_file(path, "cuda")
    assert all(tensor.is_cuda for tensor in found.values())
    check_equal({name: tensor.cpu() for name, tensor in found.items()}, tensors)
    assert not any(loaded.refused for loaded in loads)
    assert (sum(len(loaded.tensors) for loaded in loads) > 0) == (mode == "1")
