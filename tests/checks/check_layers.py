"""Who may include whom (CONTRIBUTING.md, "Layers"). A new file of codec/ or filter/ is given its layer here."""

import os
import re

LAYERS = [
    {"base", "checked", "bytes", "bits", "format"},
    {"kernels/*"},
    {"diag", "dtype", "content_hash", "scratch", "source", "table", "entropy", "code_plan", "coding", "symbols",
     "flags", "gap", "plane", "escape", "block", "sample", "plan", "frame", "ladder", "base_values", "delta",
     "delta_lists", "delta_encode", "delta_decode", "delta_coding", "delta_sample", "delta_plan"},
    {"ctx", "cores", "pool", "encode", "decode", "encode_frame", "decode_frame", "status", "version", "kernels_name"},
]

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
MEMORY_CALL = re.compile(r"\b(malloc|calloc|realloc|aligned_alloc|free)\s*\(")
PUBLIC = re.compile(r"^lmc(_\w+)?\.h$")

# System headers by layer: kernels and what they stand on know neither memory nor input and output.
C_HEADERS_LOW = {"assert.h", "limits.h", "stdbool.h", "stddef.h", "stdint.h", "string.h", "stdalign.h"}
INTRINSICS = {"immintrin.h", "arm_neon.h", "cpuid.h", "x86intrin.h"}
CODEC_FORBIDDEN = {"stdio.h", "hdf5.h", "unistd.h", "fcntl.h", "cjson/cJSON.h", "zstd.h"}
CODEC_ALLOWED = {("diag", "stdio.h"),   # vsnprintf of a diagnostic; nothing is printed
                 ("cores", "unistd.h"),  # what the system says of cores
                 ("cores", "fcntl.h")}


def layer_of(stem):
    for number, stems in enumerate(LAYERS):
        if stem in stems or (stem.startswith("kernels/") and "kernels/*" in stems):
            return number
    return None


OS_MAY_SEE = {"st_base.h", "st_memory.h"}
SYSTEM_CALLS = {"unistd.h", "fcntl.h", "dirent.h", "sys/stat.h", "sys/file.h", "sched.h"}
PRINT_CALL = re.compile(r"(?<![a-z_])(?:f|v|vf)?(?:printf|puts|putchar)\(")
ALLOCATION = re.compile(r"(?<![a-z_])(?:malloc|calloc|realloc|aligned_alloc)\(")


FILTER_LAYERS = [
    {"h5_wire", "h5_error", "h5_regroup", "h5_sample", "h5_params", "h5_head", "h5_context"},
    {"h5_chunk", "h5_encode", "h5_decode"},
    {"h5_abi", "h5_library", "h5_type", "h5_callbacks", "h5_set_local", "h5_filter", "h5_plugin"},
]
HDF5_HEADER = re.compile(r"^(hdf5|H5\w*)\.h$")


def stem_of(name):
    return os.path.splitext(name)[0]


def check_codec_file(tree, path):
    stem = stem_of(os.path.relpath(path, "codec"))
    layer = layer_of(stem)
    if layer is None:
        yield f"{path}: has no layer in tests/checks/check_layers.py"
        return
    if stem != "ctx" and MEMORY_CALL.search(tree.text(path)):
        yield f"{path}: memory comes from codec/ctx.c alone"
    for kind, header in INCLUDE.findall(tree.text(path)):
        if kind == "<":
            yield from check_system_header(path, stem, layer, header)
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(path), header))
        if PUBLIC.match(header):
            if header != "lmc.h":
                yield f"{path}: includes {header}, which belongs to an adapter"
            elif layer < 2 and stem != "kernels/select":
                yield f"{path}: layer {layer} must not see the public interface"
            continue
        if not tree.exists(target) or not target.startswith("codec/"):
            yield f"{path}: includes {header}, which is not a file of codec/"
            continue
        target_layer = layer_of(stem_of(os.path.relpath(target, "codec")))
        if target_layer is None or target_layer > layer:
            yield f"{path}: layer {layer} includes {header} of layer {target_layer}"


def check_system_header(path, stem, layer, header):
    if PUBLIC.match(header):
        if layer < 2 and stem != "kernels/select":
            yield f"{path}: layer {layer} must not see the public interface"
    elif header in INTRINSICS and layer != 1:
        yield f"{path}: intrinsics belong in codec/kernels/"
    elif header in CODEC_FORBIDDEN and (stem, header) not in CODEC_ALLOWED:
        yield f"{path}: <{header}> has no place in codec/"
    elif layer == 0 and header not in C_HEADERS_LOW:
        yield f"{path}: <{header}> has no place in layer 0"


def check_safetensors_file(tree, path):
    """Within safetensors/: the system below, the library above it, the command on top."""
    name = os.path.basename(path)
    text = tree.text(path)
    if name.startswith("cli_") or name == "cli.h":
        return
    for _, header in INCLUDE.findall(text):
        if header.startswith("cli"):
            yield f"{path}: the library includes {header}, a file of the command"
        if name.startswith("os_") and header.startswith("st_") and header not in OS_MAY_SEE:
            yield f"{path}: includes {header}; os_ files see {', '.join(sorted(OS_MAY_SEE))}"
        if header in SYSTEM_CALLS and not name.startswith("os_"):
            yield f"{path}: includes {header}; the system is called from os_ files alone"
    if PRINT_CALL.search(text):
        yield f"{path}: prints; only the command does"
    if not name.startswith("st_memory.") and ALLOCATION.search(text):
        yield f"{path}: memory comes through st_memory.h"


def filter_layer_of(stem):
    return next((number for number, stems in enumerate(FILTER_LAYERS) if stem in stems), None)


def check_filter_file(tree, path):
    """Within filter/: chunks know nothing of HDF5; what HDF5 calls stands on them, and is built without it."""
    stem = stem_of(os.path.basename(path))
    layer = filter_layer_of(stem)
    if layer is None:
        yield f"{path}: has no layer in tests/checks/check_layers.py"
        return
    for kind, header in INCLUDE.findall(tree.text(path)):
        included = filter_layer_of(stem_of(header))
        if kind == '"' and not PUBLIC.match(header) and (included is None or included > layer):
            yield f"{path}: layer {layer} includes {header} of layer {included}"
        if HDF5_HEADER.match(os.path.basename(header)):
            yield f"{path}: includes {header}; the filter is built without HDF5 (h5_abi.h)"
    if stem != "h5_error" and PRINT_CALL.search(tree.text(path)):
        yield f"{path}: prints; only h5_error.c does, when it is asked to"


def check_adapter_file(tree, path, folder):
    """Adapters see the public headers and their own, never codec/ and never each other."""
    for kind, header in INCLUDE.findall(tree.text(path)):
        if PUBLIC.match(os.path.basename(header)):
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(path), header))
        if kind == '"' and not (target.startswith(folder + "/") and tree.exists(target)):
            yield f"{path}: includes {header}, which is neither public nor of {folder}/"


def check_user_file(tree, path):
    for kind, header in INCLUDE.findall(tree.text(path)):
        if kind == '"' and not PUBLIC.match(header):
            yield f"{path}: includes {header}; an example sees what is installed"


def check(tree):
    for path in tree.files(".c", ".h", under=["codec"]):
        yield from check_codec_file(tree, path)
    for folder in ("safetensors", "filter", "python"):
        for path in tree.files(".c", ".h", under=[folder]):
            yield from check_adapter_file(tree, path, folder)
            if folder == "safetensors":
                yield from check_safetensors_file(tree, path)
            if folder == "filter":
                yield from check_filter_file(tree, path)
    for path in tree.files(".c", ".h", under=["examples"]):
        yield from check_user_file(tree, path)
    for path in tree.files(".c", ".h", under=["include"]):
        for _, header in INCLUDE.findall(tree.text(path)):
            if header not in ("stddef.h", "stdint.h", "lmc.h"):
                yield f"{path}: includes {header}"
