"""The kernels for a GPU, without one: what the compiler for devices makes of them; a GiB of blocks in the emulation."""

import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "gpu"))
import build_kernels  # noqa: E402
import embed_kernels  # noqa: E402

LARGE = ["bf16_default", "bf16_fast", "f32_default", "f16_max", "f8_default"]


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@pytest.fixture(scope="module")
def nvrtc():
    path = os.environ.get("LMC_NVRTC") or build_kernels.find_nvrtc()
    if not path:
        pytest.skip("needs NVRTC (pip install nvidia-cuda-nvrtc, or its path in LMC_NVRTC)")
    return path


def test_budget(nvrtc, directory):
    """No kernel spills registers, and as many thread blocks as are said fit a multiprocessor."""
    done = run(sys.executable, os.path.join(ROOT, "gpu", "build_kernels.py"), "--nvrtc", nvrtc, "--out", directory,
               "--check")
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()[1:]
    architectures = build_kernels.Nvrtc(nvrtc).architectures()
    assert len(lines) == len(architectures) * len(build_kernels.RESIDENT)
    for architecture in architectures:
        for suffix in ("cubin", "ptx"):
            assert os.path.getsize(os.path.join(directory, f"lmc_cuda_{architecture}.{suffix}")) > 0


class OldNvrtc(build_kernels.Nvrtc):
    """As that of CUDA 12.4, which torch 2.6 brings: it knows no sm_100."""

    def __init__(self):
        self.library = self
        self.numbers = [70, 75, 80, 86, 90]

    def nvrtcGetNumSupportedArchs(self, count):
        count._obj.value = len(self.numbers)
        return 0

    def nvrtcGetSupportedArchs(self, numbers):
        numbers[:] = self.numbers
        return 0

    def compile(self, source, headers, options):
        number = int(options[0].rpartition("_")[2])
        if number not in self.numbers:
            raise SystemExit("nvrtc: error: invalid value for --gpu-architecture (-arch)")
        return "", b"cubin %d" % number, b"ptx %d" % number


def test_older_nvrtc():
    """What an NVRTC is too old for is left out, and PTX serves it."""
    nvrtc = OldNvrtc()
    assert list(embed_kernels.images_of(nvrtc)) == [("sm_80", 80, 0, b"cubin 80"), ("sm_90", 90, 0, b"cubin 90"),
                                                    ("compute_80", 80, 1, b"ptx 80")]
    nvrtc.numbers = [50, 70]
    with pytest.raises(SystemExit, match="none of sm_80"):
        list(embed_kernels.images_of(nvrtc))


@pytest.mark.large
@pytest.mark.parametrize("name", LARGE)
def test_large(build, name):
    program = os.path.join(build, "tests", "gpu_large")
    if not os.path.exists(program):
        pytest.skip("the build has no liblmc_cuda")
    done = run(program, name)
    assert done.returncode == 0 and "passed=1 failed=0" in done.stdout, done.stdout
