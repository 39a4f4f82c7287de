"""What a checkpoint directory holds: names of files and tensors, and the manifest with the chain of bases."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Sequence

from .._errors import BaseError, DataError, LMCError, UnsupportedError, loads_untrusted
from .._files.options import Path
from .._files.whole import write_whole

METADATA_NAME = ".metadata"
MANIFEST_NAME = "lmc_dcp.json"
MANIFEST_NBYTES_MAX = 64 << 10
DATA_NAME = re.compile(r"__[0-9]+_[0-9]+\.lmc")
LAYOUT = 1
KEY_EVERY_MAX = 64  # files of a chain of bases, as lmc_st.h limits them

# A reader of torch takes this for the name of an extension. It says that it does not know it, instead of reading on.
DESCRIPTOR = "lmcodec.dcp.Reader/%d" % LAYOUT
_DESCRIPTORS = [DESCRIPTOR]  # one list for all items: a pickle has it once


def stored_item(relative_path: str, tensor: str, sizes: Sequence[int], nbytes: int) -> SimpleNamespace:
    """Where an item is stored, as `.metadata` holds it: of a type that every Python has.

    sizes: of the chunk; empty for an item that is not a tensor.
    """
    return SimpleNamespace(relative_path=relative_path, offset=0, length=nbytes, transform_descriptors=_DESCRIPTORS,
                           tensor=tensor, sizes=tuple(sizes))


def is_stored_item(info: Any) -> bool:
    """Whether the writer of this package has stored the item. UnsupportedError if a newer one has."""
    descriptors: Any = getattr(info, "transform_descriptors", None) or ()
    if not (len(descriptors) == 1 and isinstance(info, SimpleNamespace)):
        return False
    if descriptors[0] != DESCRIPTOR:
        raise UnsupportedError("the checkpoint was written for %s, this is %s" % (descriptors[0], DESCRIPTOR))
    return True


class Manifest:
    """`lmc_dcp.json`: which save the directory holds, and which one it was coded against.

    base: the directory of the base, relative to that of the checkpoint, or None. base_save_id: what that held.
    chain: how many bases follow one another.
    """

    def __init__(self, save_id: str, level: str, key_every: int, chain: int = 0, base: str | None = None,
                 base_save_id: str | None = None) -> None:
        self.save_id, self.level, self.key_every, self.chain = save_id, level, key_every, chain
        self.base, self.base_save_id = base, base_save_id

    def text(self) -> str:
        base = None if self.base is None else {"path": self.base, "save_id": self.base_save_id}
        return json.dumps({"lmc_dcp": LAYOUT, "save_id": self.save_id, "level": self.level,
                           "key_every": self.key_every, "chain": self.chain, "base": base}, indent=1) + "\n"

    def with_base(self, base: str | None, base_save_id: str | None, chain: int) -> Manifest:
        """The manifest of the same save, coded against another base, or against none."""
        return Manifest(self.save_id, self.level, self.key_every, chain, base, base_save_id)


def read_manifest(directory: str) -> Manifest | None:
    """The manifest of a directory; None if it has none. DataError, UnsupportedError, OSError."""
    path = os.path.join(directory, MANIFEST_NAME)
    try:
        with open(path, "rb") as file:
            text = file.read(MANIFEST_NBYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(text) > MANIFEST_NBYTES_MAX:
        raise DataError("%s: a manifest has at most %d bytes" % (path, MANIFEST_NBYTES_MAX))
    entries = loads_untrusted(text, path)
    layout = _value(path, entries, "lmc_dcp", int)
    if layout != LAYOUT:
        raise UnsupportedError("%s: layout %d is newer than this package" % (path, layout))
    manifest = Manifest(_value(path, entries, "save_id", str), _value(path, entries, "level", str),
                        _value(path, entries, "key_every", int), _value(path, entries, "chain", int))
    base = _value(path, entries, "base", (dict, type(None)))
    if base is not None:
        manifest.base, manifest.base_save_id = _value(path, base, "path", str), _value(path, base, "save_id", str)
    return manifest


def _value(path: str, entries: Any, key: str, kind: Any) -> Any:
    """A value of a manifest. DataError if it has none of this kind."""
    if not isinstance(entries, dict) or not isinstance(entries.get(key), kind) or isinstance(entries[key], bool):
        raise DataError("%s: the manifest has no %r, or one of another kind" % (path, key))
    return entries[key]


def readable_manifest(directory: str) -> Manifest | None:
    """The manifest of a directory; None if it has none that can be read."""
    with suppress(LMCError, OSError):
        return read_manifest(directory)
    return None


def write_manifest(directory: str, manifest: Manifest, fsync: bool) -> None:
    """Writes or replaces `lmc_dcp.json`. OSError."""
    write_whole(os.path.join(directory, MANIFEST_NAME), manifest.text().encode(), fsync)


def folders_of(base_dirs: Sequence[Path]) -> list[str]:
    """Names of the directories that a caller gives. TypeError if it is one alone."""
    if isinstance(base_dirs, (str, bytes, os.PathLike)):
        raise TypeError("base_dirs is a list of directories, not one")
    return [os.fsdecode(folder) for folder in base_dirs]


def chain_of(directory: str, base_dirs: Sequence[str] = (), manifest: Manifest | None = None) -> list[str]:
    """Directories of the bases of a checkpoint, the nearest first.

    base_dirs: where bases are searched for that are not where the manifest says. manifest: that of the directory.
    Raises BaseError with the places that were looked at.
    """
    found: list[str] = []
    manifest = manifest or read_manifest(directory)
    while manifest is not None and manifest.base is not None:
        if len(found) >= KEY_EVERY_MAX:
            raise BaseError("%s: more than %d bases follow one another" % (directory, KEY_EVERY_MAX))
        place, manifest = _find_base(directory, manifest, base_dirs)
        found.append(place)
        directory = place
    return found


def dependents_of(directory: str) -> list[str]:
    """Checkpoints beside this one that need it, sorted: those coded against it, and those coded against these.

    Other folders are not searched. Manifests that cannot be read are skipped.
    """
    return _dependents_of(directory, through_others=True)


def direct_dependents_of(directory: str) -> list[str]:
    """Checkpoints beside this one that are coded against it, sorted; as dependents_of() finds them."""
    return _dependents_of(directory, through_others=False)


def _dependents_of(directory: str, through_others: bool) -> list[str]:
    folder, own_name = os.path.split(os.path.abspath(directory))
    names: list[str] = []
    with suppress(OSError):
        names = os.listdir(folder)
    manifests = {name: manifest for name in names
                 if (manifest := readable_manifest(os.path.join(folder, name))) is not None}
    found = [own_name] if own_name in manifests else []
    for name in found:  # which grows
        found += [other for other, manifest in manifests.items()
                  if other not in found and manifest.base_save_id == manifests[name].save_id]
        if not through_others:
            break
    return sorted(os.path.join(folder, name) for name in found[1:])


def _find_base(directory: str, manifest: Manifest, base_dirs: Sequence[str]) -> tuple[str, Manifest]:
    base = os.path.normpath(os.path.join(os.path.realpath(directory), manifest.base or ""))
    name = os.path.basename(base)
    places = [base, os.path.join(os.path.dirname(os.path.abspath(directory)), name)]
    for folder in base_dirs:
        places += [os.path.join(folder, name), folder]
    looked = []
    for place in dict.fromkeys(places):
        candidate = read_manifest(place)
        if candidate is not None and candidate.save_id == manifest.base_save_id:
            return place, candidate
        looked.append(place if candidate is None else place + ", which holds another save")
    raise BaseError("%s was coded against the checkpoint %s, which was not found: looked at %s"
                    % (directory, base, "; ".join(looked)))
