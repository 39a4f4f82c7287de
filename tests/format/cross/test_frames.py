"""Frames of a build for another processor, run by an emulator: byte for byte those of the build for this machine, with
every kernel set that such a processor has.

    python3 -m pytest tests/format/cross --cross build/neon --emulator "qemu-aarch64 -L DIR" --sets neon,scalar

The test programs of such a build are run by ctest (programs.cmake).
"""
import filecmp
import os
import shlex
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "..", "..", "examples", "data")
TIMEOUT_S = 300

# Level, dtype, file, base: what encode_file.c is given.
FILES = [
    (0, "BF16", "step03000.bf16", None),
    (1, "BF16", "step03000.bf16", None),
    (2, "BF16", "step03000.bf16", None),
    (0, "F32", "step03000.f32-part", None),
    (1, "F32", "step03000.f32-part", None),
    (0, "F64", "step03000.f32-part", None),
    (0, "F8_E4M3", "step03000.bf16", None),
    (0, "U8", "step03000.f32-part", None),
    (0, "F32", "step03000.optim", None),
    (0, "BF16", "step03010.bf16", "step03000.bf16"),
    (1, "BF16", "step03010.bf16", "step03000.bf16"),
    (0, "U8", "step03010.bf16", "step03000.bf16"),
]


class Cross:
    """Programs of both builds. A kernel set of None stands for this machine."""

    def __init__(self, native, cross, emulator, sets):
        self.native, self.cross, self.emulator, self.sets = native, cross, emulator, sets

    def run(self, kernel_set, program, *arguments):
        build, emulator = (self.cross, self.emulator) if kernel_set else (self.native, [])
        path = os.path.join(build, "tests", program)
        path += "" if os.path.exists(path) else ".exe"
        done = subprocess.run([*emulator, path, *arguments], timeout=TIMEOUT_S,
                              env=dict(os.environ, LMC_KERNELS=kernel_set or ""), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, f"{kernel_set or 'native'}: exit status {done.returncode}\n{done.stdout.decode()}"

    def compare(self, work, program, arguments_for):
        """arguments_for(DIR): those that make the program write to DIR, which every set must fill alike."""
        folders = {kernel_set: os.path.join(work, kernel_set or "native") for kernel_set in [None, *self.sets]}
        for kernel_set, folder in folders.items():
            os.mkdir(folder)
            self.run(kernel_set, program, *arguments_for(folder))
        names = sorted(os.listdir(folders[None]))
        assert names
        for kernel_set in self.sets:
            assert sorted(os.listdir(folders[kernel_set])) == names
            _, differing, errors = filecmp.cmpfiles(folders[None], folders[kernel_set], names, shallow=False)
            assert not differing and not errors, f"{kernel_set}: not as of this machine: {differing + errors}"


@pytest.fixture(scope="session")
def cross(pytestconfig, build):
    return Cross(build, os.path.abspath(pytestconfig.getoption("--cross", skip=True)),
                 shlex.split(pytestconfig.getoption("--emulator")), pytestconfig.getoption("--sets").split(","))


@pytest.mark.parametrize("level, dtype, name, base", FILES)
def test_frame(cross, directory, level, dtype, name, base):
    path, *base_path = [os.path.join(DATA, stem + ".safetensors") for stem in (name, base) if stem]
    cross.compare(directory, "encode_file",
                  lambda folder: [str(level), dtype, path, os.path.join(folder, "frame"), *base_path])


@pytest.mark.parametrize("program", ["make_vectors", "make_delta_vectors"])
def test_vectors(cross, directory, program):
    cross.compare(directory, program, lambda folder: [folder])
