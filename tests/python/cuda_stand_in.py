"""Devices of lmcodec._cuda.cuda_load without a GPU: torch's tensors of the host, and streams of the fake driver, whose
work is done when something waits for it and not before."""
import contextlib
import ctypes

import torch

from lmcodec._cuda.cuda_batch import Room
from lmcodec._arrays.torch_types import dtype_of, shape_of


class FakeDriver:
    """The library of tests/support/fake_cuda.c."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.fake_cuda_fail.argtypes = [ctypes.c_char_p, ctypes.c_int]
        self.library.fake_cuda_calls.argtypes = [ctypes.c_char_p]

    def reset(self):
        self.library.fake_cuda_reset()

    def fail(self, function, error):
        self.library.fake_cuda_fail(function.encode(), error)

    def calls(self, function):
        return self.library.fake_cuda_calls(function.encode())

    def call(self, name, *arguments):
        """A function of the driver. A copy that fails is a fault of the test."""
        error = getattr(self.library, name)(*arguments)
        if error:
            raise RuntimeError("CUDA error %d" % error)

    def new(self, name, *arguments):
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle


class NoMemory(Exception):
    pass


class StandIn:
    """Device of cuda_load. memory_nbytes: of the device."""

    no_memory = NoMemory

    def __init__(self, driver, memory_nbytes=1 << 40):
        self.driver, self.left_nbytes = driver, memory_nbytes
        self.kept = []  # frees wait for the stream on a device
        self.current, self.copies = driver.new("cuStreamCreate", 1), driver.new("cuStreamCreate", 1)
        self.written_nbytes = self.settled = 0

    def active(self):
        return contextlib.nullcontext()

    def _keep(self, tensor):
        self.kept.append(tensor)
        return Room(tensor, tensor.data_ptr(), tensor.numel())

    def pinned(self, nbytes):
        return self._keep(torch.full((nbytes,), 0xAA, dtype=torch.uint8))

    def memory(self, nbytes):
        self.left_nbytes -= nbytes
        if self.left_nbytes < 0:
            raise NoMemory
        return self._keep(torch.full((nbytes,), 0xBB, dtype=torch.uint8))

    def tensor(self, dtype, shape, nbytes):
        self.left_nbytes -= nbytes
        if self.left_nbytes < 0:
            raise NoMemory
        tensor = torch.empty(shape_of(dtype, shape), dtype=dtype_of(dtype))
        room = self._keep(tensor.reshape(-1).view(torch.uint8))
        room.owner.fill_(0xCC)
        assert room.address == tensor.data_ptr() and room.nbytes == nbytes
        return tensor, room

    def stream(self):
        return self.current.value

    def _copy(self, stream, destination, source, nbytes):
        assert nbytes <= min(destination.owner.numel(), source.owner.numel())
        self.driver.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(destination.address), ctypes.c_void_p(source.address),
                         ctypes.c_size_t(nbytes), stream)

    def copy_frames(self, device, host, nbytes):
        self._copy(self.copies, device, host, nbytes)
        event = self.driver.new("cuEventCreate", 0)
        self.driver.call("cuEventRecord", event, self.copies)
        self.driver.call("cuStreamWaitEvent", self.current, event, 0)
        self.driver.call("cuEventDestroy_v2", event)

    def copy_in(self, device, host, nbytes):
        self._copy(self.current, device, host, nbytes)

    def copy_out(self, host, device, nbytes):
        self._copy(self.current, host, device, nbytes)

    def mark(self):
        event = self.driver.new("cuEventCreate", 0)
        self.driver.call("cuEventRecord", event, self.current)
        return event

    def wait(self, mark):
        self.driver.call("cuEventSynchronize", mark)
        self.driver.call("cuEventDestroy_v2", mark)

    def write(self, device, offset, address, nbytes):
        assert offset + nbytes <= device.nbytes
        ctypes.memmove(device.address + offset, address, nbytes)
        self.written_nbytes += nbytes

    def settle(self):
        for stream in (self.copies, self.current):
            self.driver.library.cuStreamSynchronize(stream)
        self.settled += 1
