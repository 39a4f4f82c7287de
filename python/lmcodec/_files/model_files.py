"""The files of weights in a directory of a Hugging Face model."""

from __future__ import annotations

import json
import os


def weight_files(folder: str, stem: str, variant: str | None) -> list[tuple[str, list[str]]]:
    """Paths of archives, or of plain files, with the names of the tensors that the index promises.

    stem: "model" for STEM.safetensors or STEM.safetensors.index.json. Raises FileNotFoundError.
    """
    single_name = "%s.%s.safetensors" % (stem, variant) if variant else stem + ".safetensors"
    index_name = "%s.safetensors.index%s.json" % (stem, "." + variant if variant else "")
    single = _find(folder, single_name)
    if single is not None:
        return [(single, [])]
    index_path = os.path.join(folder, index_name)
    if not os.path.exists(index_path):
        raise FileNotFoundError(2, "no %s.lmc and no %s" % (single_name, index_name), folder)
    with open(index_path, encoding="utf-8") as file:
        places: dict[str, str] = json.load(file)["weight_map"]
    files = []
    for name in sorted(set(places.values())):
        path = _find(folder, name) if os.path.basename(name) == name else None
        if path is None:
            raise FileNotFoundError(2, "%s names a file that is missing: %s" % (index_name, name), folder)
        files.append((path, [tensor for tensor, place in places.items() if place == name]))
    return files


def _find(folder: str, name: str) -> str | None:
    for path in (os.path.join(folder, name + ".lmc"), os.path.join(folder, name)):
        if os.path.exists(path):
            return path
    return None
