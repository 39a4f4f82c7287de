"""Writes a C file that holds the compiled kernels, for gpu/host/gpu_kernels.h.

    python3 gpu/embed_kernels.py [--nvrtc FILE] OUT.c
    python3 gpu/embed_kernels.py --find              # the NVRTC that is taken

A cubin serves devices of its major compute capability; the driver compiles the PTX of the lowest one for all others.
"""

import argparse
import os

import build_kernels

NUMBERS_IN_LINE = 24


def images_of(nvrtc):
    """For each image: its name, its compute capability, whether it is PTX, its bytes."""
    ptx_of_all = None
    for architecture in nvrtc.architectures():
        capability = int(architecture.split("_")[1])
        _, cubin, ptx = build_kernels.compile_kernels(nvrtc, architecture)
        ptx_of_all = ptx_of_all or (f"compute_{capability}", capability, 1, ptx)
        yield architecture, capability, 0, cubin
    yield ptx_of_all


def lines_of(content):
    for first in range(0, len(content), NUMBERS_IN_LINE):
        yield "    " + "".join("%d," % byte for byte in content[first:first + NUMBERS_IN_LINE])


def source_of(images):
    yield '#include "gpu/host/gpu_kernels.h"'
    for name, _, _, content in images:
        yield f"static const _Alignas(16) unsigned char {name}[] = {{"
        yield from lines_of(content)
        yield "};"
    yield "const lmc_cuda_image lmc_cuda_images[] = {"
    for name, capability, is_ptx, _ in images:
        yield f'    {{"{name}", {capability}, {is_ptx}, {name}}},'
    yield "};"
    yield f"const size_t lmc_cuda_image_count = {len(images)};"
    yield f"const unsigned lmc_cuda_thread_count = {build_kernels.THREADS};"
    yield 'const char lmc_cuda_images_text[] = "%s";' % " ".join(name for name, _, _, _ in images)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvrtc", help="libnvrtc.so of version 12 or later")
    parser.add_argument("--find", action="store_true", help="print the path of NVRTC")
    parser.add_argument("out", nargs="?", help="the C file")
    arguments = parser.parse_args()
    path = arguments.nvrtc or build_kernels.find_nvrtc()
    if not path:
        raise SystemExit("NVRTC was not found")
    if arguments.find:
        print(path)
        return
    if not arguments.out:
        parser.error("OUT.c is missing")
    images = list(images_of(build_kernels.Nvrtc(path)))
    with open(arguments.out + ".new", "w", encoding="ascii") as file:
        file.write("\n".join(source_of(images)) + "\n")
    os.replace(arguments.out + ".new", arguments.out)


if __name__ == "__main__":
    main()
