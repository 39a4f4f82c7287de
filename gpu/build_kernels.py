"""Compiles the kernels with NVRTC for each architecture, and says what they take.

    python3 gpu/build_kernels.py [--nvrtc FILE] [--out FOLDER] [--check]

The columns are registers of a thread, bytes that it spills (stores and loads in the code), bytes of its stack, bytes of
shared memory of a thread block, all as the assembler says. NVRTC is a library of the Python package nvidia-cuda-nvrtc
and of CUDA toolkits; no GPU is needed. An architecture that NVRTC is too old for is left out.
"""

import argparse
import ctypes
import glob
import importlib.util
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = "gpu/device/kernels.cu"
TOOLKITS = "/usr/local/cuda*/lib*/libnvrtc.so.[0-9]*"
ARCHITECTURES = ["sm_80", "sm_90", "sm_100"]
THREADS = 512
RESIDENT = {"lmc_cuda_decode_any": 1, "lmc_cuda_decode_6_3_5": 2, "lmc_cuda_decode_8_2_2": 2}  # thread blocks
REGISTERS = 65536  # of a multiprocessor
ENTRY = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
                   r"(\d+) bytes spill loads.*?Used (\d+) registers([^\n]*)", re.S)


def find_nvrtc():
    """The path of libnvrtc in a Python package, else in an installed toolkit; or None."""
    for package in ("nvidia.cu13", "nvidia.cuda_nvrtc"):
        try:
            found = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for folder in found.submodule_search_locations if found else []:
            paths = sorted(glob.glob(os.path.join(folder, "lib", "libnvrtc.so.*")))
            if paths:
                return paths[0]
    toolkits = sorted(glob.glob(TOOLKITS))
    return toolkits[-1] if toolkits else None


def includes_of(path, found):
    """The files that a source includes by their path from the root, as name -> text."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = file.read()
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
        if name not in found:
            found[name] = None
            found[name] = includes_of(name, found)
    return text


class Nvrtc:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def architectures(self):
        """Those of ARCHITECTURES that it compiles for: one of CUDA 12.0 does not know sm_100, for example."""
        count = ctypes.c_int()
        if self.library.nvrtcGetNumSupportedArchs(ctypes.byref(count)) != 0:
            raise SystemExit("NVRTC names no architectures")
        numbers = (ctypes.c_int * count.value)()
        if self.library.nvrtcGetSupportedArchs(numbers) != 0:
            raise SystemExit("NVRTC names no architectures")
        known = {f"sm_{number}" for number in numbers}
        if not known.intersection(ARCHITECTURES):
            raise SystemExit("NVRTC compiles for none of " + ", ".join(ARCHITECTURES))
        return [name for name in ARCHITECTURES if name in known]

    def text(self, program, what):
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw

    def compile(self, source, headers, options):
        """Returns the log, the cubin and the PTX; raises SystemExit with the log if the source has errors."""
        program = ctypes.c_void_p()
        names = (ctypes.c_char_p * len(headers))(*[name.encode() for name in headers])
        texts = (ctypes.c_char_p * len(headers))(*[text.encode() for text in headers.values()])
        arguments = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        if self.library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), SOURCE.encode(), len(headers), texts,
                                           names) != 0:
            raise SystemExit("NVRTC takes no program")
        status = self.library.nvrtcCompileProgram(program, len(options), arguments)
        log = self.text(program, "ProgramLog").rstrip(b"\0").decode()
        if status != 0:
            raise SystemExit(log)
        result = log, self.text(program, "CUBIN"), self.text(program, "PTX")
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return result


def compile_kernels(nvrtc, architecture, *options):
    """The log, the cubin and the PTX of all kernels for an architecture."""
    headers = {}
    source = includes_of(SOURCE, headers)
    return nvrtc.compile(source, headers, [f"--gpu-architecture={architecture}", "-std=c++17",
                                           f"-DLMC_CUDA_THREADS={THREADS}", *options])


def properties_of(log):
    """For each kernel: name, registers, spilled bytes, bytes of stack, bytes of shared memory."""
    for name, stack, stores, loads, registers, rest in ENTRY.findall(log):
        shared = re.search(r"(\d+) bytes smem", rest)
        yield name, int(registers), int(stores) + int(loads), int(stack), int(shared.group(1)) if shared else 0


def faults_of(name, registers, spilled):
    if name not in RESIDENT:
        yield f"{name} has no budget in {os.path.basename(__file__)}"
    elif registers * THREADS * RESIDENT[name] > REGISTERS:
        yield f"{name} takes {registers} registers, and {RESIDENT[name]} thread blocks are to be resident"
    if spilled > 0:
        yield f"{name} spills {spilled} bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvrtc", default=find_nvrtc(), help="libnvrtc.so of version 12 or later")
    parser.add_argument("--out", help="folder for cubins and PTX")
    parser.add_argument("--check", action="store_true", help="fail where a kernel spills or is over its budget")
    arguments = parser.parse_args()
    if not arguments.nvrtc:
        raise SystemExit("NVRTC was not found: pip install nvidia-cuda-nvrtc, or --nvrtc FILE")
    nvrtc = Nvrtc(arguments.nvrtc)
    faults = []
    print("architecture  kernel                     registers  spilled  stack  shared")
    for architecture in nvrtc.architectures():
        log, cubin, ptx = compile_kernels(nvrtc, architecture, "--ptxas-options=-v")
        for name, registers, spilled, stack, shared in properties_of(log):
            print(f"{architecture:13} {name:26} {registers:9} {spilled:8} {stack:6} {shared:7}")
            faults += [f"{architecture}: {fault}" for fault in faults_of(name, registers, spilled)]
        if arguments.out:
            os.makedirs(arguments.out, exist_ok=True)
            for suffix, content in (("cubin", cubin), ("ptx", ptx)):
                with open(os.path.join(arguments.out, f"lmc_cuda_{architecture}.{suffix}"), "wb") as file:
                    file.write(content)
    if arguments.check and faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()
