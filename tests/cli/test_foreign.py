"""Files that are no safetensors files are named for what they are; truncated ones with what is missing."""
import gzip
import io
import json
import pickle
import random
import struct
import zipfile

import pytest

from support import check, check_only, in_directory, read, small_model, write

LFS_POINTER = (b"version https://git-lfs.github.com/spec/v1\n"
               b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 4976698672\n")


def zip_of(name, content):
    """A zip archive with one file, as torch.save and numpy.savez make them."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def npy():
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }".ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(16)


def gguf():
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(64)


def tar():
    return b"model.bin".ljust(100, b"\0") + b"0000644\0".ljust(157, b"\0") + b"ustar\00000" + bytes(2000)


# name: (content, what the message must hold)
FOREIGN = {
    "git_lfs_pointer": (LFS_POINTER, "git-lfs"),
    "html_page": (b"<!DOCTYPE html>\n<html><head><title>404</title></head></html>\n", "HTML"),
    "html_after_space": (b"\n\n  <html><body>Access denied</body></html>\n", "HTML"),
    "html_with_mark": (b"\xef\xbb\xbf<html><body>Not found</body></html>\n", "HTML"),
    "xml_page": (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "XML"),
    "pickle_2": (pickle.dumps({"weight": [1.0] * 100}, 2), "pickle"),
    "pickle_3": (pickle.dumps({"weight": [1.0] * 100}, 3), "pickle"),
    "pickle_4": (pickle.dumps({"weight": [1.0] * 100}, 4), "pickle"),
    "pickle_5": (pickle.dumps({"weight": [1.0] * 100}, 5), "pickle"),
    "torch_zip": (zip_of("archive/data.pkl", pickle.dumps({})), "zip"),
    "npz": (zip_of("arr_0.npy", npy()), ".npz"),
    "empty_zip": (b"PK\x05\x06" + bytes(18), "zip"),
    "npy": (npy(), ".npy"),
    "gguf": (gguf(), "GGUF"),
    "gzip": (gzip.compress(small_model()), "gzip"),
    "zstd": (b"\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00" + bytes(20), "zstd"),
    "xz": (b"\xfd7zXZ\x00\x00\x04" + bytes(30), "xz"),
    "bzip2": (b"BZh91AY&SY" + bytes(30), "bzip2"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5"),
    "shard_index": (json.dumps({"metadata": {"total_size": 1}, "weight_map": {"a": "model-00001.safetensors"}},
                               indent=2).encode(), "JSON"),
    "json_config": (b'{"hidden_size": 4096}', "JSON"),
    "json_list": (b'[{"name": "x"}, 1, 2, 3]', "JSON"),
    "elf": (b"\x7fELF\x02\x01\x01" + bytes(100), "program"),
    "zeros": (bytes(100000), "header's length is 0"),
    "eight_zeros": (bytes(8), "header's length is 0"),
    "empty": (b"", "empty"),
    "one_byte": (b"x", "fewer than 8 bytes"),
    "seven_bytes": (b"1234567", "fewer than 8 bytes"),
    "short_html": (b"<p>", "HTML"),
    "text": (b"hello, this is a text file and no model at all\n" * 10, "no safetensors file"),
    "tar": (tar(), "no safetensors file"),
    "ones": (b"\xff" * 1000, "no safetensors file"),
    "noise": (b"\x01" + random.Random(3).randbytes(5000), "no safetensors file"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign(tool, directory, name):
    content, fragment = FOREIGN[name]
    path = in_directory(directory, content)
    for command in ("convert", "verify", "ls"):
        result = tool.run(command, path).expect(1, "m.safetensors: ", fragment)
        check(result.stderr.count("\n") == 1, "several lines: " + result.stderr)
    tool.run("restore", path, "-o", path + ".back").expect(1, fragment)
    check(read(path) == content, "the input was changed")
    check_only(directory, "m.safetensors")


def test_truncated_downloads(tool, directory):
    """The number of missing bytes is told; of a file cut within its header, at least that it was."""
    content = small_model()
    header_end = 8 + struct.unpack("<Q", content[:8])[0]
    for nbytes in (header_end, header_end + 1, header_end + 1000, len(content) - 1):
        path = in_directory(directory, content[:nbytes])
        for command in ("convert", "verify", "ls"):
            tool.run(command, path).expect(1, "%d bytes" % (len(content) - nbytes), "missing")
    for nbytes in (9, 20, header_end - 1):
        path = in_directory(directory, content[:nbytes])
        for command in ("convert", "verify", "ls"):
            tool.run(command, path).expect(1, "cut short within its header", "%d bytes" % (header_end - nbytes))
    check_only(directory, "m.safetensors")


def test_truncated_archives(tool, directory):
    path = in_directory(directory, small_model())
    tool.run("convert", path).expect(0)
    archive = read(path + ".lmc")
    for missing in (1, 100, 3000):
        write(path + ".lmc", archive[:-missing])
        for arguments in (("restore", path + ".lmc", "-f"), ("verify", path + ".lmc")):
            tool.run(*arguments).expect(1, "m.safetensors.lmc", "%d bytes" % missing, "missing")
    check(read(path) == small_model(), "the original was changed")


def test_download_with_a_tail(tool, directory):
    """More bytes than the header promises, as a resumed download may leave them."""
    path = in_directory(directory, small_model() + b"tail")
    for command in ("convert", "verify", "ls"):
        tool.run(command, path).expect(1, "m.safetensors: ")
    check_only(directory, "m.safetensors")


def test_preallocated_download(tool, directory):
    """The right size, but zeros from the start, or zeros in place of the header."""
    content = small_model()
    for start in (bytes(8), content[:8] + bytes(100)):
        path = in_directory(directory, start + bytes(len(content) - len(start)))
        tool.run("convert", path).expect(1, "m.safetensors: ")
    check_only(directory, "m.safetensors")


def test_wrong_command_for_the_file(tool, directory):
    """Archives to convert, plain files to restore: told apart."""
    path = in_directory(directory, small_model())
    tool.run("convert", path).expect(0)
    tool.run("convert", path + ".lmc").expect(1, "LMC archive already")
    tool.run("restore", path, "-o", path + ".back").expect(1, "plain safetensors file")
    check_only(directory, "m.safetensors", "m.safetensors.lmc")
