"""Models of the transformers library from converted directories, and checkpoints of its Trainer.

    lmcodec.transformers.enable()                                    # from here on, transformers itself reads them
    model = AutoModel.from_pretrained("llama.lmc")                   # written by: lmc-st convert llama

    model = lmcodec.transformers.from_pretrained("llama.lmc")        # written by: lmc-st convert llama
    trainer = Trainer(..., callbacks=[lmcodec.transformers.RunCallback("run")])
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, Sequence

import torch
import transformers

from ._arrays.torch_types import dtype_of
from ._errors import DataError
from ._files.model_files import weight_files
from ._files.options import Path
from ._files.safe_open import safe_open
from ._hub.patches import Enabled

if TYPE_CHECKING:
    from ._runs.run_callback import RunCallback as RunCallback

__all__ = ["Enabled", "RunCallback", "enable", "from_pretrained"]

# Options with which transformers reads the weights itself, and so would look for safetensors files.
_REFUSED = ("state_dict", "gguf_file", "from_tf", "from_flax", "offload_folder", "offload_state_dict",
            "quantization_config", "load_in_8bit", "load_in_4bit", "tp_plan", "tp_size", "device_mesh",
            "distributed_config", "adapter_kwargs", "key_mapping")
_TAKES_SLICES = int(transformers.__version__.split(".")[0]) >= 5  # before, it wanted tensors
_FLOAT_DTYPES = ("BF16", "F16", "F32", "F64")


def __getattr__(name: str) -> Any:
    """RunCallback is imported when it is used: a Trainer needs more than a model does."""
    if name == "RunCallback":
        from ._runs.run_callback import RunCallback

        return RunCallback
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def enable(*, base_dirs: Sequence[Path] = ()) -> Enabled:
    """Lets transformers, PEFT and sentence-transformers read archives where they look for safetensors files.

        lmcodec.transformers.enable()                        # until the program ends, or
        with lmcodec.transformers.enable():                  # until the end of `with`
            model = AutoModelForCausalLM.from_pretrained("llama.lmc")

    Where `model.safetensors` is not there and `model.safetensors.lmc` is, that is read: in from_pretrained(), in
    pipelines, for adapters and in a Trainer; of a directory, a repository of the Hugging Face hub or its cache. A
    safetensors file that is there goes first.
    base_dirs: where bases of archives are looked for.

    It replaces names in those modules of the three packages that look for weights, also in such as are imported later;
    no other package is changed. It acts on all threads. It may be called again, also within `with`: the names are as
    they were once every call is taken back, by the end of `with` or by disable() of the result. What is loading in
    another thread meanwhile may fail.
    """
    return Enabled(base_dirs)


def from_pretrained(directory: Path, model_class: Any = None, *, config: Any = None, subfolder: str = "",
                    variant: str | None = None, base_dirs: Sequence[Path] = (), **options: Any) -> Any:
    """A model, as `model_class.from_pretrained()` gives it for the original directory.

    directory: has config.json, and model.safetensors.lmc or several archives with model.safetensors.index.json. Plain
        safetensors files work, too. Tokenizers and the like are copied there: load them as usual.
    model_class: a model's class or an Auto class; by default the first of the configuration's `architectures`.
    config: a configuration instead of the directory's. subfolder: of the directory. variant: "fp16" reads
        model.fp16.safetensors.lmc. base_dirs: where bases of archives are looked for.
    options: are for transformers: dtype or torch_dtype, device_map (needs accelerate), attn_implementation,
        output_loading_info, ignore_mismatched_sizes, ...

    Weights are decoded one by one while they are put in their places, so no second copy of the model is in memory.
    Raises NotImplementedError for what reads the original files: weights offloaded to disk, quantized models, tensor
    parallelism, adapters, gguf; restore the directory for these. Raises FileNotFoundError (no directory, no archive),
    other OSError, ValueError (the configuration names no class), DataError (the index does not fit), and as safe_open()
    and transformers do.
    """
    folder = os.path.join(os.fsdecode(directory), *filter(None, [subfolder]))
    os.scandir(folder).close()  # transformers would ask a hub for a directory that is not there
    _check_options(folder, options)
    if not isinstance(config, transformers.PretrainedConfig):
        config = transformers.AutoConfig.from_pretrained(folder if config is None else config,
                                                         **_config_options(options))
    if getattr(config, "quantization_config", None) is not None:
        raise NotImplementedError("%s is a quantized model: restore the directory to load it" % folder)
    slices, dtypes = _slices(folder, variant, base_dirs)
    _settle_dtype(options, config, dtypes)
    state: dict[str, Any] = dict(slices) if _TAKES_SLICES else _Tensors(slices)
    loaded = _class_of(model_class, config).from_pretrained(None, config=config, state_dict=state, **options)
    model = loaded[0] if isinstance(loaded, tuple) else loaded
    _complete(model, folder, options)
    return loaded


class _Tensors(dict):  # type: ignore[type-arg]
    """Slices by names, which are read when they are asked for."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        return value if isinstance(value, torch.Tensor) else value[...]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        return ((name, self[name]) for name in list(self))

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        return (self[name] for name in list(self))

    def copy(self) -> _Tensors:
        copied = _Tensors()
        for name in self:
            copied[name] = super().__getitem__(name)
        return copied


def _check_options(folder: str, options: dict[str, Any]) -> None:
    for name in _REFUSED:
        if options.get(name) not in (None, False):
            raise NotImplementedError("%s needs the original files: restore %s to use it" % (name, folder))
    device_map = options.get("device_map")
    if isinstance(device_map, dict) and "disk" in device_map.values():
        raise NotImplementedError("weights on disk need the original files: restore %s to use them" % folder)
    if options.pop("use_safetensors", True) is False:
        raise NotImplementedError("use_safetensors=False: %s has archives of safetensors files" % folder)
    if not os.path.exists(os.path.join(folder, "config.json")) and os.path.exists(
            os.path.join(folder, "adapter_config.json")):
        raise NotImplementedError("%s is an adapter: restore the directory to load it" % folder)


def _config_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that the configuration gets."""
    told = {name: options[name] for name in ("trust_remote_code",) if name in options}
    if not _TAKES_SLICES and isinstance(options.get("torch_dtype"), torch.dtype):
        told["torch_dtype"] = options["torch_dtype"]
    return told


def _slices(folder: str, variant: str | None, base_dirs: Sequence[Path]) -> tuple[dict[str, Any], list[str]]:
    """Slices of all tensors by their names, and their dtypes."""
    slices: dict[str, Any] = {}
    for path, promised in weight_files(folder, "model", variant):
        with safe_open(path, "pt", base_dirs=base_dirs) as file:
            names = file.offset_keys()
            lacking = sorted(set(promised) - set(names))
            if lacking:
                raise DataError("%s: the index promises a tensor %r that is not there" % (path, lacking[0]))
            slices.update((name, file.get_slice(name)) for name in names)
    return slices, [part.get_dtype() for part in slices.values()]


def _settle_dtype(options: dict[str, Any], config: Any, dtypes: Sequence[str]) -> None:
    """"auto" without one in the configuration: that of the weights, which transformers would ask tensors for."""
    told = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
    is_default = _TAKES_SLICES and not {"dtype", "torch_dtype"} & set(options)
    asked = [name for name in ("dtype", "torch_dtype") if options.get(name) == "auto"]
    if told is None and (asked or is_default):
        floats = [dtype for dtype in dtypes if dtype in _FLOAT_DTYPES]
        options[asked[0] if asked else "dtype"] = dtype_of(floats[0]) if floats else torch.get_default_dtype()


def _class_of(model_class: Any, config: Any) -> Any:
    """The class of the model: Auto classes take no weights without a directory."""
    mapping = getattr(model_class, "_model_mapping", None)
    if mapping is not None:
        if type(config) not in mapping:
            raise ValueError("%s has no model for %s" % (model_class.__name__, type(config).__name__))
        found = mapping[type(config)]
        if not isinstance(found, (tuple, list)):
            return found
        names = getattr(config, "architectures", None) or []
        return next((one for one in found if one.__name__ in names), found[0])
    if model_class is not None:
        return model_class
    for name in getattr(config, "architectures", None) or []:
        if hasattr(transformers, name):
            return getattr(transformers, name)
    raise ValueError("the configuration names no class of transformers: model_class must be given")


def _complete(model: Any, folder: str, options: dict[str, Any]) -> None:
    """Sets what transformers takes from the directory besides the weights."""
    model.config.name_or_path = model.name_or_path = folder
    if options.get("generation_config") is None and os.path.exists(os.path.join(folder, "generation_config.json")):
        if model.can_generate():
            model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
