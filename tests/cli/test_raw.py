"""Files of no known kind: --raw takes them, and every command that reads tensors can read them."""
import json
import os
import random
import subprocess

import pytest

from support import check, check_only, in_directory, read, weights, write

PIECE_NBYTES = 1 << 20
SIZES = [0, 1, 7, 8, 4096, PIECE_NBYTES + 3, 2 * PIECE_NBYTES]


def content_of(nbytes, seed=1):
    begin = b"no known kind"[:nbytes]
    return begin + bytes(weights(random.Random(seed), nbytes // 2 + 1))[: nbytes - len(begin)]


def test_unknown_files_are_refused(tool, directory):
    path = in_directory(directory, content_of(4096), "x.bin")
    tool.run("convert", path).expect(1, "not a safetensors file")
    tool.run("ls", path).expect(1)
    check_only(directory, "x.bin")


@pytest.mark.parametrize("nbytes", SIZES)
def test_any_size(tool, directory, nbytes):
    path = in_directory(directory, content_of(nbytes), "x.bin")
    tool.run("convert", "--raw", path).expect(0)
    tool.run("verify", path + ".lmc").expect(0)
    pieces = json.loads(tool.run("ls", "--json", path + ".lmc").expect(0).output)
    check(sum(piece["nbytes"] for piece in pieces) == nbytes // 8 * 8, "the pieces have other bytes")
    check([piece["name"] for piece in pieces] == ["piece/%d" % i for i in range(len(pieces))], "other names")
    os.rename(path, path + ".original")
    tool.run("restore", path + ".lmc").expect(0)
    check(read(path) == read(path + ".original"), "the bytes differ")


def test_an_empty_file_has_no_ratio(tool, directory):
    path = in_directory(directory, b"", "x.bin")
    tool.run("convert", "--raw", path).expect(0)
    last = tool.run("ls", path + ".lmc").expect(0).stdout.splitlines()[-1]
    check(last.startswith("0 tensors, 0 bytes, ") and last.endswith(", ratio -"), last)


def test_plain_files_are_read_as_pieces(tool, directory):
    content = content_of(PIECE_NBYTES + 80)
    path = in_directory(directory, content, "x.bin")
    tool.run("convert", "--raw", path).expect(0)
    check(tool.run("get", "--raw", path, "piece/1").expect(0).output == content[PIECE_NBYTES:], "another piece")
    check(json.loads(tool.run("info", "--raw", "--json", path).expect(0).output)["container"] == "raw", "no raw file")
    tool.run("diff", "--raw", path, path + ".lmc").expect(0)
    write(path, content[:-1] + bytes([content[-1] ^ 1]))
    check(tool.run("diff", "--raw", path, path + ".lmc").status == 1, "no difference seen")


@pytest.mark.posix("/proc")
def test_files_without_a_size(tool, directory):
    """Files of /proc have content, but their size is 0: they are not taken for empty ones."""
    path = "/proc/version"
    if not os.path.exists(path) or os.path.getsize(path) > 0:
        pytest.skip("needs Linux's /proc")
    output = os.path.join(directory, "x.lmc")
    tool.run("convert", "--raw", path, "-o", output).expect(3, "the system gives its size as 0")
    check_only(directory)
    with open(path, "rb") as stream:
        subprocess.run([tool.path, "convert", "--raw", "-", "-o", output], stdin=stream, check=True)
    check(tool.run("restore", output, "-c").expect(0).output == read(path), "other bytes")


def test_a_damaged_safetensors_file_is_refused(tool, directory):
    path = in_directory(directory, content_of(4096), "x.safetensors")
    tool.run("convert", "--raw", path).expect(1, "not a safetensors file")
    check_only(directory, "x.safetensors")


def test_raw_against_raw(tool, directory):
    old = content_of(3 * PIECE_NBYTES)
    new = bytearray(old)
    for i in range(0, len(new), 5000):
        new[i] ^= 1
    in_directory(directory, old, "old.bin")
    path = in_directory(directory, bytes(new), "new.bin")
    tool.run("convert", "--raw", path, "--base", os.path.join(directory, "old.bin")).expect(0)
    check(os.path.getsize(path + ".lmc") < len(new) // 20, "the base was of no use")
    os.rename(path, path + ".original")
    tool.run("restore", path + ".lmc").expect(0)
    check(read(path) == bytes(new), "the bytes differ")
