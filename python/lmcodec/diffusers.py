"""Models and pipelines of the diffusers library from converted directories, without restoring them.

    pipeline = lmcodec.diffusers.from_pretrained("pipeline.lmc")     # written by: lmc-st convert pipeline
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
from typing import Any, Sequence

import diffusers

from . import torch as _torch
from ._files.model_files import weight_files
from ._files.options import Path

__all__ = ["from_pretrained"]

_STEM = "diffusion_pytorch_model"


def from_pretrained(directory: Path, model_class: Any = None, *, torch_dtype: Any = None, variant: str | None = None,
                    base_dirs: Sequence[Path] = (), threads: int | None = None, **options: Any) -> Any:
    """A pipeline, or a model, as diffusers gives it for the original directory.

    directory: of a pipeline (it has model_index.json), or of one model (config.json and its archives).
    model_class: of the model or pipeline; by default the directory names it.
    torch_dtype: of the weights; None keeps that of the files. variant: "fp16" reads *.fp16.safetensors.lmc.
    base_dirs: where bases of archives are looked for. threads: None for one per core.
    options: for diffusers when it loads a pipeline, for example components that exist already.

    Raises NotImplementedError (options of a model, components of other libraries: restore the directory for these),
    FileNotFoundError, ValueError (no class of this name), RuntimeError (the weights do not fit), and as load_file().
    """
    folder = os.fsdecode(directory)
    if not os.path.exists(os.path.join(folder, "model_index.json")):
        if options:
            raise NotImplementedError("%s needs the original files: restore %s to use it"
                                      % (sorted(options)[0], folder))
        return _load_model(folder, model_class, torch_dtype, variant, base_dirs, threads)
    with open(os.path.join(folder, "model_index.json"), encoding="utf-8") as file:
        index = json.load(file)
    for name, place in index.items():
        part = os.path.join(folder, name)
        if name in options or not isinstance(place, list) or not glob.glob(os.path.join(glob.escape(part), "*.lmc")):
            continue
        library, class_name = place
        if library == "diffusers":
            options[name] = _load_model(part, None, torch_dtype, variant, base_dirs, threads)
        elif library == "transformers":
            options[name] = _load_of_transformers(part, class_name, torch_dtype, variant, base_dirs)
        else:
            raise NotImplementedError("%s is of %s: restore %s to load it" % (part, library, folder))
    pipeline_class = model_class or diffusers.DiffusionPipeline
    return pipeline_class.from_pretrained(folder, **({"torch_dtype": torch_dtype} if torch_dtype else {}), **options)


def _load_model(folder: str, model_class: Any, torch_dtype: Any, variant: str | None, base_dirs: Sequence[Path],
                threads: int | None) -> Any:
    files = weight_files(folder, _STEM, variant)
    if model_class is None:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            name = json.load(file).get("_class_name") or ""
        model_class = getattr(diffusers, name, None)
        if model_class is None:
            raise ValueError("diffusers has no class %r: model_class must be given" % name)
    config = model_class.load_config(folder)
    with _without_weights():
        model = model_class.from_config(config)
    state: dict[str, Any] = {}
    for path, _ in files:
        state.update(_torch.load_file(path, threads=threads, base_dirs=base_dirs, dtype=torch_dtype))
    model.load_state_dict(state, assign=True)
    model.register_to_config(_name_or_path=folder)
    return (model if torch_dtype is None else model.to(torch_dtype)).eval()


def _load_of_transformers(folder: str, class_name: str, torch_dtype: Any, variant: str | None,
                          base_dirs: Sequence[Path]) -> Any:
    import transformers

    from .transformers import from_pretrained as load

    return load(folder, getattr(transformers, class_name), variant=variant, base_dirs=base_dirs,
                torch_dtype=torch_dtype or "auto")


@contextlib.contextmanager
def _without_weights() -> Any:
    """Parameters take no memory if accelerate is installed; buffers that no file holds are made as usual."""
    try:
        from accelerate import init_empty_weights
    except ImportError:
        yield
        return
    with init_empty_weights():
        yield
