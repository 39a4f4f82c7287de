"""How lmcodec.dcp reads parts of tensors, and supplies contents that are not in memory. Without ranks."""
import ctypes
import os
from types import SimpleNamespace

from dcp_ranks import numbers, torch

import pytest
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import LoadItemType, ReadItem

import lmcodec
import lmcodec.torch
from lmcodec._files import file as file_module
from lmcodec.dcp import _content, _layout, _reader


class Planner:
    """Parts of tensors that are wanted: those of `targets`, by their names."""

    def __init__(self, targets):
        self.targets, self.committed = targets, []

    def resolve_tensor(self, item):
        return self.targets[item.dest_index.fqn]

    def commit_tensor(self, item, tensor):
        self.committed.append(item.dest_index.fqn)


def item(target, source, offsets, lengths):
    zeros = [0] * len(offsets)
    return ReadItem(LoadItemType.TENSOR, MetadataIndex(target, zeros), torch.Size(zeros), MetadataIndex(source, zeros),
                    torch.Size(offsets), torch.Size(lengths))


@pytest.fixture
def source(directory):
    """An archive with a tensor of 4 MiB, and what .metadata says of it."""
    whole = numbers(1, 1024, 1024)
    path = os.path.join(directory, "a.lmc")
    lmcodec.torch.save_file({"w": whole}, path)
    info = _layout.stored_item("a.lmc", "w", whole.shape, whole.nbytes)
    return SimpleNamespace(path=path, whole=whole, stored={MetadataIndex("w", [0, 0]): info})


def read_items(items, path, stored, planner, threads):
    with lmcodec.File(path) as file:
        _reader._FileReader(file, stored, lambda name: torch.float32, planner, threads).read(items)


def read(source, targets, parts, monkeypatch):
    """Reads parts of the tensor; ranges of bytes that were read."""
    ranges, decode_range, read_part = [], lmcodec.File._decode_range, file_module.Handle.read_part

    def counted_range(file, handle, tensor, first, nbytes, address):
        ranges.append((first, nbytes))
        decode_range(file, handle, tensor, first, nbytes, address)

    def counted_part(handle, number, first, nbytes, address):
        is_read = read_part(handle, number, first, nbytes, address)
        ranges.extend([(first, nbytes)] if is_read else [])
        return is_read

    monkeypatch.setattr(lmcodec.File, "_decode_range", counted_range)
    monkeypatch.setattr(file_module.Handle, "read_part", counted_part)
    planner = Planner(targets)
    items = [item(name, "w", offsets, targets[name].shape) for name, offsets in parts.items()]
    read_items(items, source.path, source.stored, planner, 1)
    assert sorted(planner.committed) == sorted(targets)
    for name, offsets in parts.items():
        rows, columns = (slice(offset, offset + size) for offset, size in zip(offsets, targets[name].shape))
        assert torch.equal(targets[name].float(), source.whole[rows, columns])
    return ranges


def test_rows_are_read_straight_to_their_place(source, monkeypatch):
    assert read(source, {"a": torch.zeros(10, 1024)}, {"a": (5, 0)}, monkeypatch) == [(5 * 4096, 10 * 4096)]
    assert read(source, {"a": torch.zeros(1024, 1024)}, {"a": (0, 0)}, monkeypatch) == [(0, 1 << 22)]


def test_several_parts_are_read_once(source, monkeypatch):
    targets = {"left": torch.zeros(100, 512), "right": torch.zeros(100, 512), "rows": torch.zeros(50, 1024),
               "double": torch.zeros(30, 7, dtype=torch.float64), "strided": torch.zeros(9, 60).t(),
               "none": torch.zeros(0, 5)}
    parts = {"left": (100, 0), "right": (150, 512), "rows": (170, 0), "double": (201, 3), "strided": (140, 9),
             "none": (3, 3)}
    assert read(source, targets, parts, monkeypatch) == [(100 * 4096, 150 * 4096)]


def test_a_large_part_is_read_by_pieces(source, monkeypatch):
    monkeypatch.setattr(_reader, "_PIECE_NBYTES", 300 * 4096)
    ranges = read(source, {"a": torch.zeros(1000, 1000)}, {"a": (7, 11)}, monkeypatch)
    assert ranges == [(row * 4096, min(300, 1007 - row) * 4096) for row in (7, 307, 607, 907)]


def test_whole_tensors_are_read_in_batches(directory, monkeypatch):
    path = os.path.join(directory, "a.lmc")
    tensors = {"t%d" % number: numbers(number, 10, 10) for number in range(7)}
    lmcodec.torch.save_file(tensors, path)
    stored = {MetadataIndex(name, [0, 0]): _layout.stored_item("a.lmc", name, (10, 10), 400) for name in tensors}
    counts, original = [], lmcodec.File.read_many

    def counted(file, batch, addresses, **options):
        counts.append(len(batch))
        original(file, batch, addresses, **options)

    monkeypatch.setattr(lmcodec.File, "read_many", counted)
    monkeypatch.setattr(_reader, "_BATCH_NBYTES", 1200)
    planner = Planner({name: torch.zeros(10, 10) for name in tensors})
    items = [item(name, name, (0, 0), (10, 10)) for name in tensors]
    read_items(items, path, stored, planner, 2)
    assert counts == [3, 3, 1] and sorted(planner.committed) == sorted(tensors)
    assert all(torch.equal(planner.targets[name], tensors[name]) for name in tensors)


def test_room_of_another_size(source):
    planner = Planner({"a": torch.zeros(3, 3)})
    with pytest.raises(lmcodec.LMCError, match=r"item 'w' at \[0, 0\]: \[4, 3\] are wanted, where \[3, 3\] have room"):
        read_items([item("a", "w", (0, 0), (4, 3))], source.path, source.stored, planner, 1)


def content_of(entry):
    """What the writer would get, in parts of 1000 bytes."""
    nbytes = int(torch.Size(entry.shape).numel()) * lmcodec._abi.DTYPE_NBITS[entry.dtype] // 8
    memory = ctypes.create_string_buffer(nbytes)
    for first in range(0, nbytes, 1000):
        entry.read(first, ctypes.addressof(memory) + first, min(1000, nbytes - first))
    return memory.raw


def test_what_is_in_memory_is_not_copied():
    tensor = numbers(1, 30, 20)
    entry = _content.tensor_entry("a", lambda: tensor, _content.Cache())
    assert entry.read is None and entry.address == tensor.data_ptr()


@pytest.mark.parametrize("tensor", [numbers(1, 300, 20).t(), numbers(2, 30, 20, dtype=torch.complex64).conj(),
                                    numbers(3, 30, 20, dtype=torch.bfloat16)[:, 1:]],
                         ids=["transposed", "conj", "part"])
def test_what_is_not_in_order_is_supplied(tensor):
    entry = _content.tensor_entry("a", lambda: tensor, _content.Cache())
    wanted = tensor.resolve_conj().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    assert entry.address == 0 and content_of(entry) == wanted


def test_what_is_made_each_time_is_supplied():
    made = []

    def resolve():
        made.append(numbers(1, 300, 20))
        return made[-1]

    entry = _content.tensor_entry("a", resolve, _content.Cache())
    assert entry.owner is None and len(made) == 2
    assert content_of(entry) == made[0].reshape(-1).view(torch.uint8).numpy().tobytes() and len(made) == 3


def test_a_device_gives_the_wanted_part():
    tensor = numbers(1, 300, 20, dtype=torch.bfloat16)
    entry = SimpleNamespace(read=_content._DeviceReader(tensor).read, shape=[300, 20], dtype="BF16")
    assert content_of(entry) == tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


def test_the_cache_has_a_bound(monkeypatch):
    monkeypatch.setattr(_content, "_CACHED_NBYTES", 100)
    cache, made = _content.Cache(), []

    def get(key, nbytes):
        def make():
            made.append(key)
            return torch.zeros(nbytes, dtype=torch.uint8)
        return cache.get(key, make)

    for key, nbytes in ("a", 40), ("b", 40), ("a", 40), ("c", 40), ("b", 40), ("big", 1000), ("a", 40), ("big", 1000):
        assert get(key, nbytes).nbytes == nbytes
        assert len(cache._items) <= 3
    assert made == ["a", "b", "c", "big", "a"] and list(cache._items) == ["a", "big"]
