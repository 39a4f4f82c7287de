"""without_cuda.py - lets this environment's torch, which has CUDA, be imported without the libraries of CUDA.

torch is linked with libraries of 2 GB. Those that are not there get a library without content. Their functions are
looked up when they are called, and nothing calls them on a machine without such a GPU; the data that one of torch's
libraries takes from NVSHMEM is there, and is empty. Needs a C compiler.
"""

import os
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile

PACKAGES = sysconfig.get_path("platlib")
TORCH = os.path.join(PACKAGES, "torch", "lib")
CUDA = os.path.join(PACKAGES, "nvidia", "cu13", "lib")
IS_CUDA = re.compile(r"lib(cu|nv|nccl)")
NVSHMEM = "libnvshmem_host.so.3"
NVSHMEM_DATA = ("char nvshmem_init[1], nvshmemi_get_device_state_ptrs[1], "
                "nvshmem_selected_device_transport[4096], nvshmemi_device_only_state[4096];\n")


def needed_libraries():
    """Libraries that torch's are linked with."""
    found = set()
    for name in os.listdir(TORCH):
        if ".so" in name:
            text = subprocess.run(["readelf", "-dW", os.path.join(TORCH, name)], capture_output=True, text=True,
                                  check=True).stdout
            found.update(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
    return found


def make_empty(name, folder):
    source, versions = os.path.join(folder, "empty.c"), os.path.join(folder, "versions")
    with open(source, "w", encoding="ascii") as file:
        file.write(NVSHMEM_DATA if name == NVSHMEM else "\n")
    with open(versions, "w", encoding="ascii") as file:
        file.write("%s { global: *; };\n" % ("NVSHMEM" if name == NVSHMEM else name))
    subprocess.run(["cc", "-shared", f"-Wl,-soname,{name}", f"-Wl,--version-script={versions}", source, "-o",
                    os.path.join(TORCH, name)], check=True)


def main():
    if platform.machine() != "x86_64":  # the index has torch without CUDA for the others
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in needed_libraries():
            if IS_CUDA.match(name) and not any(os.path.exists(os.path.join(at, name)) for at in (TORCH, CUDA)):
                make_empty(name, folder)
    # Python has functions looked up when a library is loaded, unless it is told otherwise.
    with open(os.path.join(PACKAGES, "lazy.pth"), "w", encoding="ascii") as file:
        file.write("import os, sys; sys.setdlopenflags(os.RTLD_LAZY)\n")
    done = subprocess.run([sys.executable, "-c", "import torch; torch.ones(2).sum()"])
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
