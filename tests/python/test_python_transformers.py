"""lmcodec.transformers: models from converted directories are those of the original directories."""
import json
import os
import shutil
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
pytest.importorskip("transformers", reason="transformers is not installed")
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "interop", "transformers"))
from models import save_gpt2, save_llama  # noqa: E402  first: it keeps the library offline
import torch  # noqa: E402
import transformers  # noqa: E402
import lmcodec  # noqa: E402
from lmcodec.transformers import from_pretrained  # noqa: E402
from transformers import AutoModel, AutoModelForCausalLM  # noqa: E402

try:
    import accelerate  # noqa: F401
    HAS_ACCELERATE = True
except ImportError:
    HAS_ACCELERATE = False


class Saved:
    def __init__(self, folder, save):
        self.plain, self.small = os.path.join(folder, "model"), os.path.join(folder, "model.lmc")
        save(self.plain)
        lmcodec.convert(self.plain, self.small, fsync=False)


@pytest.fixture
def llama(directory):
    """bf16, several files with an index."""
    return Saved(directory, save_llama)


@pytest.fixture
def gpt2(directory):
    """f32, one file, tied weights."""
    return Saved(directory, save_gpt2)


@pytest.fixture(params=["llama", "gpt2"])
def saved(request):
    return request.getfixturevalue(request.param)


def check_same(model, expected):
    assert type(model) is type(expected) and model.training == expected.training
    weights, others = model.state_dict(), expected.state_dict()
    assert list(weights) == list(others)
    for name, weight in weights.items():
        assert weight.dtype == others[name].dtype and torch.equal(weight, others[name]), name
        assert not weight.is_meta, name
    tokens = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        assert all(map(torch.equal, model.float()(tokens)[:1], expected.float()(tokens)[:1]))
    config, other = model.config.to_dict(), expected.config.to_dict()
    assert {**config, "_name_or_path": ""} == {**other, "_name_or_path": ""}
    if hasattr(model, "generation_config"):
        assert model.generation_config == expected.generation_config


@pytest.mark.parametrize("options", [{}, {"torch_dtype": "auto"}, {"torch_dtype": torch.float16},
                                     {"torch_dtype": torch.float32}], ids=["none", "auto", "f16", "f32"])
def test_models(saved, options):
    shutil.move(saved.plain, saved.plain + ".away")
    model = from_pretrained(saved.small, **options)
    check_same(model, AutoModelForCausalLM.from_pretrained(saved.plain + ".away", **options))
    assert model.config.name_or_path == saved.small


@pytest.mark.parametrize("device_map", ["cpu", "auto", {"": "cpu"}])
@pytest.mark.skipif(not HAS_ACCELERATE,
                    reason="left out: no accelerate here; another environment of the part `python` has it")
def test_device_map(saved, device_map):
    check_same(from_pretrained(saved.small, device_map=device_map),
               AutoModelForCausalLM.from_pretrained(saved.plain, device_map=device_map))


@pytest.mark.parametrize("model_class", [AutoModelForCausalLM, AutoModel])
def test_classes(saved, model_class):
    """An Auto class; a base model takes the weights that it has."""
    check_same(from_pretrained(saved.small, model_class), model_class.from_pretrained(saved.plain))


def test_tied_weights(gpt2):
    model = from_pretrained(gpt2.small)
    assert model.lm_head.weight is model.transformer.wte.weight


def test_plain_directory(saved):
    check_same(from_pretrained(saved.plain), AutoModelForCausalLM.from_pretrained(saved.plain))


def test_generation_config(gpt2):
    for folder in (gpt2.plain, gpt2.small):
        with open(os.path.join(folder, "generation_config.json"), "w") as file:
            json.dump({"max_new_tokens": 17, "bos_token_id": 1, "eos_token_id": 2}, file)
    assert from_pretrained(gpt2.small).generation_config.max_new_tokens == 17
    check_same(from_pretrained(gpt2.small), AutoModelForCausalLM.from_pretrained(gpt2.plain))


def test_loading_info(gpt2):
    model, info = from_pretrained(gpt2.small, output_loading_info=True)
    expected, other = AutoModelForCausalLM.from_pretrained(gpt2.plain, output_loading_info=True)
    check_same(model, expected)
    assert info == other


def test_config_given(gpt2):
    config = transformers.AutoConfig.from_pretrained(gpt2.small)
    config.n_layer = 2
    assert len(from_pretrained(gpt2.small, config=config).transformer.h) == 2


def test_dtype_that_no_configuration_tells(llama):
    for folder in (llama.plain, llama.small):
        path = os.path.join(folder, "config.json")
        with open(path) as file:
            config = json.load(file)
        for name in ("dtype", "torch_dtype"):
            config.pop(name, None)
        with open(path, "w") as file:
            json.dump(config, file)
    assert from_pretrained(llama.small, torch_dtype="auto").dtype == torch.bfloat16


def test_variant_and_subfolder(directory, gpt2):
    inner = os.path.join(directory, "repository", "inner")
    os.makedirs(inner)
    shutil.copy(os.path.join(gpt2.small, "config.json"), inner)
    shutil.copy(os.path.join(gpt2.small, "model.safetensors.lmc"), os.path.join(inner, "model.fp16.safetensors.lmc"))
    model = from_pretrained(os.path.dirname(inner), subfolder="inner", variant="fp16")
    check_same(model, AutoModelForCausalLM.from_pretrained(gpt2.plain))


def test_base(directory, gpt2):
    """An archive that was coded against the file of another model."""
    tuned = os.path.join(directory, "tuned.lmc")
    shutil.copytree(gpt2.small, tuned)
    name = "model.safetensors"
    lmcodec.convert(os.path.join(gpt2.plain, name), os.path.join(tuned, name + ".lmc"), force=True,
                    base=shutil.copy(os.path.join(gpt2.plain, name), os.path.join(directory, "base.safetensors")))
    with pytest.raises(lmcodec.BaseError):
        from_pretrained(tuned)
    check_same(from_pretrained(tuned, base_dirs=[directory]), AutoModelForCausalLM.from_pretrained(gpt2.plain))


# ---- what is refused ----

@pytest.mark.parametrize("options", [
    {"state_dict": {"a": 1}}, {"gguf_file": "a.gguf"}, {"offload_folder": "folder"}, {"load_in_8bit": True},
    {"device_map": {"": "disk"}}, {"use_safetensors": False}, {"quantization_config": object()}, {"tp_plan": "auto"}])
def test_needs_the_original(gpt2, options):
    with pytest.raises(NotImplementedError, match="model.lmc|archives"):
        from_pretrained(gpt2.small, **options)


def test_quantized(gpt2):
    config = transformers.AutoConfig.from_pretrained(gpt2.small)
    config.quantization_config = {"quant_method": "gptq", "bits": 4}
    with pytest.raises(NotImplementedError, match="quantized"):
        from_pretrained(gpt2.small, config=config)


def test_adapter(directory):
    with open(os.path.join(directory, "adapter_config.json"), "w") as file:
        file.write("{}")
    with pytest.raises(NotImplementedError, match="adapter"):
        from_pretrained(directory)


def test_no_class(gpt2):
    config = transformers.AutoConfig.from_pretrained(gpt2.small)
    for architectures in (None, ["NoSuchModel"]):
        config.architectures = architectures
        with pytest.raises(ValueError, match="model_class"):
            from_pretrained(gpt2.small, config=config)
    with pytest.raises(ValueError, match="AutoModelForImageClassification"):
        from_pretrained(gpt2.small, transformers.AutoModelForImageClassification)


def test_missing_files(llama):
    with open(os.path.join(llama.small, "model.safetensors.index.json")) as file:
        index = json.load(file)
    places = index["weight_map"]
    last = sorted(places)[-1]
    places[last] = next(place for place in sorted(set(places.values())) if place != places[last])
    with open(os.path.join(llama.small, "model.safetensors.index.json"), "w") as file:
        json.dump(index, file)
    with pytest.raises(lmcodec.DataError, match=last):
        from_pretrained(llama.small)
    name = sorted(set(places.values()))[0]
    os.unlink(os.path.join(llama.small, name + ".lmc"))
    with pytest.raises(FileNotFoundError, match=name):
        from_pretrained(llama.small)
    os.unlink(os.path.join(llama.small, "model.safetensors.index.json"))
    with pytest.raises(FileNotFoundError, match="model.safetensors.lmc"):
        from_pretrained(llama.small)


def test_index_that_leaves_the_directory(llama):
    path = os.path.join(llama.small, "model.safetensors.index.json")
    with open(path) as file:
        index = json.load(file)
    for name in index["weight_map"]:
        index["weight_map"][name] = "../model/" + index["weight_map"][name]
    with open(path, "w") as file:
        json.dump(index, file)
    with pytest.raises(FileNotFoundError):
        from_pretrained(llama.small)


def test_damaged(gpt2):
    with open(os.path.join(gpt2.small, "model.safetensors.lmc"), "r+b") as file:
        file.seek(-5000, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    with pytest.raises((lmcodec.DataError, RuntimeError)):
        from_pretrained(gpt2.small)


def test_directories_that_there_are_not(gpt2):
    missing, file = gpt2.small + "-not-there", os.path.join(gpt2.small, "config.json")
    with pytest.raises(FileNotFoundError) as caught:
        from_pretrained(missing)
    assert caught.value.filename == missing
    with pytest.raises(NotADirectoryError):
        from_pretrained(file)
