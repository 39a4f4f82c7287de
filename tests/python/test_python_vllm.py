"""lmcodec.vllm: the loader that vLLM finds by its entry point, against a stand-in with vLLM's signatures (0.33), and a
model that copies what it gets. vLLM itself needs more than a test may install."""
import abc
import json
import os
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
import lmcodec  # noqa: E402
import lmcodec.torch  # noqa: E402
import lmcodec.vllm  # noqa: E402
from lmcodec._serving.deferred import DeferredTensor  # noqa: E402


class BaseModelLoader(abc.ABC):
    """The part of vLLM's class of this name that a loader implements."""

    def __init__(self, load_config):
        self.load_config = load_config

    @abc.abstractmethod
    def download_model(self, model_config):
        raise NotImplementedError

    @abc.abstractmethod
    def load_weights(self, model, model_config):
        raise NotImplementedError


class Registry:
    """register_model_loader() as vLLM has it: a decorator that takes subclasses of BaseModelLoader."""

    def __init__(self):
        self.loaders, self.calls = {}, 0

    def register_model_loader(self, load_format):
        def register(loader):
            self.calls += 1
            assert issubclass(loader, BaseModelLoader) and load_format not in self.loaders
            self.loaders[load_format] = loader
            return loader
        return register


@pytest.fixture
def registry(monkeypatch):
    registry = Registry()
    for name in ("vllm", "vllm.model_executor", "vllm.model_executor.model_loader",
                 "vllm.model_executor.model_loader.base_loader"):
        module = types.ModuleType(name)
        module.__path__ = []
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["vllm.model_executor.model_loader"].register_model_loader = registry.register_model_loader
    sys.modules["vllm.model_executor.model_loader.base_loader"].BaseModelLoader = BaseModelLoader
    monkeypatch.delitem(sys.modules, "lmcodec._serving.vllm_loader", raising=False)
    monkeypatch.setattr(lmcodec.vllm, "_registered", [])
    return registry


class Model(torch.nn.Module):
    """What vLLM hands to a loader: a model with load_weights(weights)."""

    def __init__(self, tensors):
        super().__init__()
        for name, tensor in tensors.items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros_like(tensor), requires_grad=False))
        self.order = []

    def load_weights(self, weights):
        places = dict(self.named_parameters())
        for name, tensor in weights:
            places[name].data.copy_(tensor)
            self.order.append(name)
        return set(self.order)


def tensors_of(seed, count=5):
    generator = torch.Generator().manual_seed(seed)
    made = {"w%d" % i: torch.randn(96, 64 + i, generator=generator, dtype=torch.float32).bfloat16()
            for i in range(count)}
    return {**made, "scale": torch.ones(3), "empty": torch.zeros(0, 4)}


def tuned(tensors):
    changed = {name: tensor.clone() for name, tensor in tensors.items()}
    for tensor in changed.values():
        tensor.view(-1)[::20] *= 1.5
    return changed


def write_directory(folder, tensors, shards):
    """A model of Hugging Face's kind."""
    os.makedirs(folder)
    names = ["model-%05d-of-%05d.safetensors" % (1 + i, shards) for i in range(shards)] if shards > 1 \
        else ["model.safetensors"]
    places = {tensor: names[i % shards] for i, tensor in enumerate(tensors)}
    for name in names:
        lmcodec.torch.save_file({tensor: tensors[tensor] for tensor in tensors if places[tensor] == name},
                                os.path.join(folder, name))
    if shards > 1:
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
            json.dump({"metadata": {}, "weight_map": places}, file)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"architectures": ["Model"]}, file)
    return folder


def load(registry, tensors, model, extra=None):
    """Loads as vLLM does: register in each process, look the loader up, download, load."""
    lmcodec.vllm.register()
    loader = registry.loaders["lmc"](types.SimpleNamespace(model_loader_extra_config=extra, download_dir=None))
    config = types.SimpleNamespace(model=model, revision=None)
    loader.download_model(config)
    made = Model(tensors)
    loader.load_weights(made, config)
    assert sorted(made.order) == sorted(tensors)
    for name, tensor in tensors.items():
        assert torch.equal(dict(made.named_parameters())[name], tensor), name


@pytest.mark.parametrize("shards", [1, 3])
def test_directory(registry, directory, shards):
    tensors = tensors_of(1)
    plain, small = write_directory(os.path.join(directory, "m"), tensors, shards), os.path.join(directory, "m.lmc")
    load(registry, tensors, plain)
    lmcodec.convert(plain, small, fsync=False)
    load(registry, tensors, small, {})
    load(registry, tensors, "not/there", {"weights": small, "threads": 1})
    lmcodec.vllm.register()
    assert registry.calls == 1
    if shards == 1:
        load(registry, tensors, os.path.join(small, "model.safetensors.lmc"))


def test_parts(registry, directory, monkeypatch):
    """Large tensors are decoded in parts if the options say so, or if there are several processes."""
    tensors = {"large": torch.randn(2048, 512), "small": torch.ones(5)}
    made = write_directory(os.path.join(directory, "m"), tensors, 1)
    lmcodec.convert(made, made + ".lmc", fsync=False)
    kinds = []
    monkeypatch.setattr(Model, "load_weights", lambda self, weights: kinds.append(
        [type(weight) for _, weight in sorted(weights, key=lambda each: each[0])]) or self.order.extend(tensors))
    monkeypatch.setattr(torch, "equal", lambda *_: True)
    load(registry, tensors, made + ".lmc")
    load(registry, tensors, made + ".lmc", {"parts": True})
    for name, value in (("is_initialized", True), ("get_world_size", 2)):
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)
    load(registry, tensors, made + ".lmc")
    load(registry, tensors, made + ".lmc", {"parts": False})
    plain, parts = [torch.Tensor] * 2, [DeferredTensor, torch.Tensor]
    assert kinds == [plain, parts, parts, plain]


def test_base(registry, directory):
    tensors = tensors_of(1)
    old = write_directory(os.path.join(directory, "bases", "old"), tensors, 1)
    new = write_directory(os.path.join(directory, "new"), tuned(tensors), 1)
    small = os.path.join(directory, "new.lmc")
    lmcodec.convert(new, small, base=old, fsync=False)
    with pytest.raises(lmcodec.BaseError):
        load(registry, tuned(tensors), small)
    load(registry, tuned(tensors), small, {"base_dirs": [old]})


def test_store_and_run(registry, directory):
    tensors = tensors_of(1)
    store, run = lmcodec.Store(os.path.join(directory, "store")), lmcodec.Run(os.path.join(directory, "run"))
    for step, (name, content, shards) in enumerate([("base", tensors, 1), ("org/new", tuned(tensors), 2)]):
        made = write_directory(os.path.join(directory, "made-%d" % step), content, shards)
        store.add(made, name, fsync=False)
        run.add(os.path.join(made, sorted(os.listdir(made))[1]), step, fsync=False)
    path = os.path.join(directory, "store")
    load(registry, tensors, "org/hub", {"weights": path, "name": "base"})
    load(registry, tuned(tensors), path, {"name": "org/new"})
    load(registry, tensors, os.path.join(directory, "run"), {"name": "0"})
    with pytest.raises(lmcodec.ModelNotFound):
        load(registry, tensors, path, {"name": "none"})


def test_urls(registry, directory):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    system, tensors = fsspec.filesystem("memory"), tensors_of(2)
    for shards in (1, 2):
        made = write_directory(os.path.join(directory, "m%d" % shards), tensors, shards)
        small = made + ".lmc"
        lmcodec.convert(made, small, fsync=False)
        system.put(small, "vllm/m%d.lmc" % shards, recursive=True)
        for url in ("memory://vllm/m%d.lmc" % shards, "memory://vllm/m%d.lmc/" % shards):
            load(registry, tensors, "org/model", {"weights": url})
    load(registry, tensors, "memory://vllm/m1.lmc/model.safetensors.lmc")
    store = lmcodec.Store(os.path.join(directory, "store"))
    store.add(os.path.join(directory, "m2"), "org/m", fsync=False)
    store.push("memory://vllm/store")
    load(registry, tensors, "org/m", {"weights": "memory://vllm/store", "name": "org/m"})
    with pytest.raises(FileNotFoundError):
        load(registry, tensors, "memory://vllm/none.lmc")
    for text in (b"[]", b'{"weight_map": 5}', b'{"weight_map": {"a": "../x"}}', b'{"weight_map": {"a": 3}}'):
        system.pipe("vllm/wrong.lmc/model.safetensors.index.json", text)
        with pytest.raises(lmcodec.DataError, match="index"):
            load(registry, tensors, "memory://vllm/wrong.lmc")


def test_what_is_refused(registry, directory):
    tensors = tensors_of(1)
    made = write_directory(os.path.join(directory, "m"), tensors, 2)
    lmcodec.convert(made, made + ".lmc", fsync=False)
    for extra, message in (({"weight": "x"}, "no option 'weight'"), ([1], "mapping"), ({"name": 5}, "str"),
                           ({"parts": "yes"}, "true or false")):
        with pytest.raises((ValueError, TypeError), match=message):
            load(registry, tensors, made, extra)
    index = os.path.join(made + ".lmc", "model.safetensors.index.json")
    with open(index) as file:
        value = json.load(file)
    value["weight_map"]["more"] = "model-00001-of-00002.safetensors"
    with open(index, "w") as file:
        json.dump(value, file)
    with pytest.raises(lmcodec.DataError, match="'more'"):
        load(registry, tensors, made + ".lmc")
    archive = os.path.join(made + ".lmc", "model-00002-of-00002.safetensors.lmc")
    with open(archive, "r+b") as file:
        file.seek(os.path.getsize(archive) - 3000)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(lmcodec.DataError):
        load(registry, tensors, made, {"weights": archive})


def test_a_repository_of_the_hub(registry, directory, monkeypatch):
    tensors = tensors_of(1)
    made = write_directory(os.path.join(directory, "m"), tensors, 2)
    lmcodec.convert(made, made + ".lmc", fsync=False)
    asked = []
    hub = types.ModuleType("huggingface_hub")
    hub.snapshot_download = lambda repository, **options: asked.append((repository, options)) or made + ".lmc"
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    load(registry, tensors, "org/model")
    assert asked[0] == ("org/model", {"revision": None, "cache_dir": None,
                                      "allow_patterns": ["*.lmc", "model.safetensors.index.json"]})


def test_weights_without_vllm(directory):
    tensors = tensors_of(3)
    made = write_directory(os.path.join(directory, "m"), tensors, 2)
    lmcodec.convert(made, made + ".lmc", fsync=False)
    found = dict(lmcodec.vllm.weights(made + ".lmc"))
    assert set(found) == set(tensors) and all(torch.equal(found[name], tensors[name]) for name in tensors)
    first = next(iter(lmcodec.vllm.weights(made + ".lmc")))  # the rest is left
    assert first[0] in tensors
    with pytest.raises(FileNotFoundError):
        next(lmcodec.vllm.weights(directory))
