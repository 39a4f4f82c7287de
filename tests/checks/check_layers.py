"""Who may include whom (CONTRIBUTING.md, "Layers"). Every part sees common/ and os/. A folder sees
the folders before it in its list, and itself. Inside a folder, and over all of the tree, includes have no circle: a
header and its source count as one file."""

import os
import re

FOLDERS = {  # each list from the ground up
    "common": ["."],
    "os": [".", "posix", "windows"],
    "codec": ["common", "kernels", "prefix", "rans", "bitset", "plain", "narrow", "delta", "frame"],
    "safetensors": ["common", "files", "header", "container", "archive", "base", "read", "engine", "convert", "restore",
                    "tree", "store", "run", "."],
    "filter": ["chunk", "plugin"],
    "tool": [".", "commands"],
    "gpu": ["device", "host", "emulate"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
PUBLIC = re.compile(r"^lmc(_\w+)?\.h$")
PUBLIC_SEEN = {"common": {"lmc.h"}, "os": {"lmc.h"}, "codec": {"lmc.h", "lmc_experimental.h"},
               "filter": {"lmc.h", "lmc_experimental.h", "lmc_h5.h"},
               "gpu": {"lmc.h", "lmc_cuda.h"}}  # others see all of include/

COMMON_SOURCES_SEEN = {"common", "safetensors", "tool"}  # they are linked with the sources of common/
CODEC_ALLOCATOR = ("codec/frame/ctx", "common/allocator.h")  # whose malloc() is the codec's only one
PARTS_SEEN = {"gpu": "codec"}  # its wire constants, and what an opened frame holds
GPU_PURE_HEADERS = {"stdint.h"}  # of gpu/device, which NVRTC compiles without a system

# System headers. Kernels and what they stand on know neither memory nor input and output.
PURE_HEADERS = {"assert.h", "limits.h", "stdbool.h", "stddef.h", "stdint.h", "string.h", "stdalign.h"}
INTRINSICS = {"immintrin.h", "arm_neon.h", "cpuid.h", "x86intrin.h"}
CODEC_FORBIDDEN = {"stdio.h", "hdf5.h", "unistd.h", "fcntl.h", "cjson/cJSON.h", "zstd.h"}
CODEC_ALLOWED = {("codec/common/diag", "stdio.h"),    # vsnprintf of a diagnostic; nothing is printed
                 ("codec/frame/form", "stdio.h"),     # snprintf of a form's name
                 ("codec/narrow/narrow", "stdio.h")}  # snprintf of a form's name
CODEC_OS = "codec/common/cores"  # all that the codec asks of the system, but for its threads
CODEC_THREADS = "os/thread.h"
SYSTEM_CALLS = {"unistd.h", "fcntl.h", "dirent.h", "sched.h", "signal.h", "poll.h", "dlfcn.h", "fnmatch.h", "glob.h",
                "time.h", "windows.h"}
SYSTEM_CALLS_ALLOWED = {("tool/commands/kept", "time.h")}  # gmtime_r() and strftime() of a time that is shown
SYSTEM_MACRO = re.compile(r"^\s*#.*\b(_WIN32|__APPLE__|__linux__|__unix__|__MINGW32__|_GNU_SOURCE)\b", re.M)
SYSTEM_MACRO_ALLOWED = {"common/compiler"}  # which printf a format is checked against
HDF5_HEADER = re.compile(r"^(hdf5|H5\w*)\.h$")

MEMORY_CALL = re.compile(r"(?<![\w.>])(?:malloc|calloc|realloc|aligned_alloc|free)\s*\(")
ALLOCATION = re.compile(r"(?<![a-z_])(?:malloc|calloc|realloc|aligned_alloc)\(")
PRINT_CALL = re.compile(r"(?<![a-z_])(?:f|v|vf)?(?:printf|puts|putchar)\(")


def stem_of(path):
    return os.path.splitext(path)[0]


def place_of(path):
    """The part of the project and the folder in it: ("codec", "prefix"); "." for a file that lies in none."""
    parts = path.split("/")
    return parts[0], parts[1] if len(parts) > 2 else "."


def is_public(name):
    return PUBLIC.match(os.path.basename(name)) is not None


# ---- files of the project ----

def check_common_include(tree, path, header):
    """Every part sees common/: headers that have a source only if the part is linked with it, the codec pure ones."""
    part = place_of(path)[0]
    if part not in COMMON_SOURCES_SEEN and tree.exists(stem_of(header) + ".c"):
        yield f"{path}: includes {header}, whose source is not linked with {part}/"
    system = {name for kind, name in INCLUDE.findall(tree.text(header)) if kind == "<"}
    if part == "codec" and system - PURE_HEADERS and (stem_of(path), header) != CODEC_ALLOCATOR:
        yield f"{path}: includes {header}, which needs <{min(system - PURE_HEADERS)}>"


def check_own_include(tree, path, header):
    """An include in quotes: a public header, or a file of the same part in a folder at or before this one's."""
    part, folder = place_of(path)
    if is_public(header):
        seen = PUBLIC_SEEN.get(part)
        if seen and header not in seen:
            yield f"{path}: includes {header}, which belongs to another part"
        return
    if not tree.exists(header):
        yield f"{path}: includes {header}; files of the project are named by their path from its root"
        return
    other_part, other_folder = place_of(header)
    if other_part == "os" and part != "os":
        if part == "codec" and stem_of(path) != CODEC_OS and header != CODEC_THREADS:
            yield f"{path}: includes {header}; only {CODEC_OS}.c asks the system"
        return
    if other_part == "common":
        yield from check_common_include(tree, path, header)
        return
    if other_part != part and other_part == PARTS_SEEN.get(part):
        return
    if other_part != part:
        yield f"{path}: includes {header}, which is of {other_part}/"
    elif FOLDERS[part].index(other_folder) > FOLDERS[part].index(folder):
        yield f"{path}: {folder}/ must not see {other_folder}/, but includes {header}"


def circles(tree, paths):
    """Each circle of includes once, as a list of files without their suffix."""
    edges = {}
    for path in paths:
        for _, header in INCLUDE.findall(tree.text(path)):
            if tree.exists(header) and stem_of(header) != stem_of(path):
                edges.setdefault(stem_of(path), set()).add(stem_of(header))
    done, found = set(), []

    def visit(stem, way):
        if stem in way:
            found.append(way[way.index(stem):] + [stem])
            return
        if stem in done:
            return
        for other in sorted(edges.get(stem, ())):
            visit(other, way + [stem])
        done.add(stem)

    for stem in sorted(edges):
        visit(stem, [])
    return found


# ---- what each part may ask of the system ----

def check_codec_header(path, folder, header):
    if header in INTRINSICS and folder != "kernels":
        yield f"{path}: intrinsics belong in codec/kernels/"
    elif header in CODEC_FORBIDDEN and (stem_of(path), header) not in CODEC_ALLOWED:
        yield f"{path}: <{header}> has no place in codec/"
    elif folder == "kernels" and header not in PURE_HEADERS | INTRINSICS and path != "codec/kernels/select.c":
        if not header.startswith("xxhash"):
            yield f"{path}: <{header}> has no place beside kernels"


def check_system(tree, path):
    part, folder = place_of(path)
    text = tree.text(path)
    headers = [header for kind, header in INCLUDE.findall(text) if kind == "<"]
    if part == "codec":
        for header in headers:
            yield from check_codec_header(path, folder, header)
        if stem_of(path) != "codec/frame/ctx" and MEMORY_CALL.search(text):
            yield f"{path}: memory comes from codec/frame/ctx.c alone"
    if part not in ("os", "gpu"):
        for header in headers:
            if (header in SYSTEM_CALLS or header.startswith("sys/")) and \
                    (stem_of(path), header) not in SYSTEM_CALLS_ALLOWED:
                yield f"{path}: includes <{header}>; only os/ calls the system"
        if SYSTEM_MACRO.search(text) and stem_of(path) not in SYSTEM_MACRO_ALLOWED:
            yield f"{path}: only os/ asks which system this is"
    if part == "common" and path != "common/allocator.h" and MEMORY_CALL.search(text):
        yield f"{path}: memory comes through an lmc_allocator"
    if part == "gpu" and folder == "device":
        for header in sorted(set(headers) - GPU_PURE_HEADERS):
            yield f"{path}: includes <{header}>, which a compiler for devices has not"
    if part == "safetensors":
        if stem_of(path) != "safetensors/common/memory" and ALLOCATION.search(text):
            yield f"{path}: memory comes through safetensors/common/memory.h"
    if part == "filter" and any(HDF5_HEADER.match(os.path.basename(header)) for header in headers):
        yield f"{path}: the filter is built without HDF5 (filter/plugin/hdf5_abi.h)"
    if part != "tool" and stem_of(path) != "filter/chunk/error" and PRINT_CALL.search(text):
        yield f"{path}: prints; only the command does"


def check_user_file(tree, path):
    for kind, header in INCLUDE.findall(tree.text(path)):
        if kind == '"' and not is_public(header):
            yield f"{path}: includes {header}; an example sees only installed headers"


def check(tree):
    paths = tree.files(".c", ".h", ".cu", ".cuh", under=FOLDERS)
    for path in paths:
        part, folder = place_of(path)
        if folder not in FOLDERS[part]:
            yield f"{path}: the folder {folder} has no place in tests/checks/check_layers.py"
            continue
        for kind, header in INCLUDE.findall(tree.text(path)):
            if kind == '"':
                yield from check_own_include(tree, path, header)
        yield from check_system(tree, path)
    for circle in circles(tree, paths):
        yield "a circle of includes: " + " > ".join(circle)
    for path in tree.files(".c", ".h", under=["examples"]):
        yield from check_user_file(tree, path)
    for path in tree.files(".c", ".h", under=["include"]):
        for _, header in INCLUDE.findall(tree.text(path)):
            if header not in ("stddef.h", "stdint.h", "lmc.h", "lmc_experimental.h", "lmc_st.h"):
                yield f"{path}: includes {header}"
