"""What torch's HuggingFaceStorageWriter has written, plain and converted to archives."""
import os

from dcp_ranks import (PLACEMENTS, blank, dcp, differences, distributed, error_of, numbers, on_ranks, torch)

import pytest

import lmcodec
from lmcodec.dcp import HuggingFaceReader

pytest.importorskip("safetensors", reason="safetensors is not installed")
storage = pytest.importorskip("torch.distributed.checkpoint.hf_storage", reason="this torch has no such storage")


def state(step=0):
    big = numbers(1, 64, 96, dtype=torch.bfloat16)
    big[0] += step
    return {"model": {"big": big, "uneven": numbers(2, 7, 5), "one_row": numbers(3, 1, 300),
                      "columns": numbers(4, 40, 33, dtype=torch.float16)}}


def save(path, step, options):
    dcp.save(distributed(state(step))["model"],
             storage_writer=storage.HuggingFaceStorageWriter(path, save_distributed=True, **options))


def load(path, step=0, base_dirs=()):
    read = distributed(blank(state()), PLACEMENTS)["model"]
    dcp.load(read, storage_reader=HuggingFaceReader(path, base_dirs=base_dirs))
    return differences(read, state(step)["model"])


@pytest.mark.parametrize("options, folder", [({}, ""), ({"enable_consolidation": True}, ""),
                                             ({"enable_consolidation": True}, "sharded")],
                         ids=["distributed", "consolidated", "shards"])
def test_plain_and_converted(directory, options, folder):
    plain, archives = os.path.join(directory, "plain"), os.path.join(directory, "archives")
    on_ranks(2, save, plain, 0, options)
    lmcodec.convert(plain, archives)
    assert any(name.endswith(".safetensors.lmc") for name in os.listdir(os.path.join(archives, folder)))
    for path in plain, archives:
        for count in 1, 2, 3:
            assert on_ranks(count, load, os.path.join(path, folder)) == [[]] * count


def test_with_a_base(directory):
    paths = [os.path.join(directory, name) for name in ("plain-0", "plain-1", "lmc-0", "lmc-1")]
    on_ranks(2, save, paths[0], 0, {})
    on_ranks(2, save, paths[1], 1, {})
    lmcodec.convert(paths[0], paths[2])
    lmcodec.convert(paths[1], paths[3], base=paths[2])
    assert on_ranks(2, load, paths[3], 1, [paths[2]]) == [[]] * 2


def error_of_load(path):
    return error_of(load, path)


def test_nothing_to_read(directory):
    assert "has no safetensors files" in on_ranks(1, error_of_load, directory)[0]
    assert "No such file" in on_ranks(1, error_of_load, os.path.join(directory, "none"))[0]
