"""Finds and loads the native library.

An installed package has its files in the folder `_native`, and the HDF5 plugin alone in `_native/hdf5`. A source tree
has them in a build below `build/`.
LMCODEC_LIBRARY_DIR names a folder that is looked at first, and alone.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Iterator

VERSION = (1, 0)  # MAJOR, MINOR of the library that this package is made for

_HERE = os.path.dirname(os.path.abspath(__file__))
_TREE = os.path.dirname(os.path.dirname(_HERE))
_SUBFOLDERS = ("", "hdf5", "lib",  # installed; built: the last of them, and
               os.path.join("filter", "plugin"), "tool")


def _folders() -> Iterator[str]:
    named = os.environ.get("LMCODEC_LIBRARY_DIR")
    if named:
        yield named
        return
    yield os.path.join(_HERE, "_native")
    if os.path.isfile(os.path.join(_TREE, "include", "lmc_st.h")):
        builds = os.path.join(_TREE, "build")
        names = sorted(os.listdir(builds)) if os.path.isdir(builds) else []
        yield from (os.path.join(builds, name) for name in sorted(names, key=lambda name: name != "test"))


def library_names(name: str) -> tuple[str, ...]:
    """The names that a library, such as "lmc_st", may have on this system."""
    if sys.platform == "win32":
        return name + ".dll", "lib%s.dll" % name
    if sys.platform == "darwin":
        return "lib%s.dylib" % name, "lib%s.%d.dylib" % (name, VERSION[0]), "lib%s.so" % name  # the last: a module
    return "lib%s.so" % name, "lib%s.so.%d" % (name, VERSION[0])


def program_name(name: str) -> str:
    """The name of a program on this system."""
    return name + ".exe" if sys.platform == "win32" else name


def find(*names: str) -> str | None:
    """Path of the first file of the package's native files that has one of these names, or None."""
    for folder in _folders():
        for subfolder in _SUBFOLDERS:
            for name in names:
                path = os.path.join(folder, subfolder, name)
                if os.path.isfile(path):
                    return path
    return None


def load() -> ctypes.CDLL:
    """The library, with every call of lmc.h and lmc_st.h. ImportError if it is missing or of another version."""
    path = find(*library_names("lmc_st"))
    if path is None:
        raise ImportError("lmcodec: liblmc_st is not in %s" % ", ".join(_folders()))
    library = ctypes.CDLL(os.path.realpath(path))  # of a link, the loader would look beside the link for what it needs
    library.lmc_version_number.restype = ctypes.c_uint
    number = library.lmc_version_number()
    if (number // 10000, number // 100 % 100) != VERSION:
        raise ImportError("lmcodec needs version %d.%d of the library: %s has number %d" % (*VERSION, path, number))
    return library
