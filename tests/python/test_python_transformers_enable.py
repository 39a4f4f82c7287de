"""lmcodec.transformers.enable(): transformers, PEFT and sentence-transformers read archives by their own calls."""
import os
import shutil
import subprocess
import sys
import threading

import pytest

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
pytest.importorskip("transformers", reason="transformers is not installed")
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "interop", "transformers"))
from models import TEXT, save_gpt2, save_llama  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import lmcodec  # noqa: E402
import lmcodec.transformers  # noqa: E402
from lmcodec._hub import patches  # noqa: E402
from lmcodec.transformers import enable  # noqa: E402
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, GPT2LMHeadModel, pipeline  # noqa: E402

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(params=["llama", "gpt2"])
def saved(request, directory):
    """Paths of a model's directory and of the converted one: several files with an index, or one file."""
    plain, packed = os.path.join(directory, "model"), os.path.join(directory, "model.lmc")
    {"llama": save_llama, "gpt2": save_gpt2}[request.param](plain)
    lmcodec.convert(plain, packed, fsync=False)
    return plain, packed


@pytest.fixture(autouse=True)
def nothing_stays():
    before = names_of_modules()
    yield
    assert patches._enabled == [] and patches._finder not in sys.meta_path
    now = names_of_modules()
    assert all(now[name] == before[name] for name in before)
    assert not any("lmcodec._hub" in (getattr(type(value), "__module__", "") or "") for module, names in now.items()
                   for value in names.values())


def names_of_modules():
    return {name: {key: value for key, value in vars(module).items() if key in (
        "os", "open", "safe_open", "safe_load_file", "hf_hub_download", "try_to_load_from_cache", "safetensors")}
        for name, module in list(sys.modules.items()) if name.partition(".")[0] in patches._PACKAGES}


def check_same(model, other):
    weights, others = model.state_dict(), other.state_dict()
    assert type(model) is type(other) and list(weights) == list(others)
    assert all(weights[name].dtype == others[name].dtype and torch.equal(weights[name], others[name])
               for name in weights)


def test_auto_classes(saved):
    plain, packed = saved
    with enable():
        for kind in (AutoModelForCausalLM, AutoModel):
            check_same(kind.from_pretrained(packed), kind.from_pretrained(plain))
        check_same(AutoModelForCausalLM.from_pretrained(packed, torch_dtype=torch.float16),
                   AutoModelForCausalLM.from_pretrained(plain, torch_dtype=torch.float16))
        model, info = AutoModel.from_pretrained(packed, output_loading_info=True)
        assert not info["missing_keys"] and model.name_or_path == packed
    with pytest.raises(OSError, match="safetensors"):
        AutoModelForCausalLM.from_pretrained(packed)


@pytest.mark.skipif(not hasattr(torch, "compile"),
                    reason="left out: pipelines need torch 2.0; another environment of the part `python` has it")
def test_pipelines(saved):
    plain, packed = saved
    expected = pipeline("text-generation", model=plain)(TEXT, max_new_tokens=5, do_sample=False)
    with enable():
        assert pipeline("text-generation", model=packed)(TEXT, max_new_tokens=5, do_sample=False) == expected


def test_a_cache_of_the_hub(saved, directory):
    """models--USER--NAME/snapshots/REVISION with links to blobs, by the name of the repository and as a directory."""
    plain, packed = saved
    cache = os.path.join(directory, "hub")
    root = os.path.join(cache, "models--user--name")
    snapshot = os.path.join(root, "snapshots", REVISION)
    os.makedirs(snapshot)
    os.makedirs(os.path.join(root, "refs"))
    os.makedirs(os.path.join(root, "blobs"))
    with open(os.path.join(root, "refs", "main"), "w") as file:
        file.write(REVISION)
    for number, name in enumerate(os.listdir(packed)):
        shutil.copy(os.path.join(packed, name), os.path.join(root, "blobs", str(number)))
        os.symlink(os.path.join("..", "..", "blobs", str(number)), os.path.join(snapshot, name))
    expected = AutoModelForCausalLM.from_pretrained(plain)
    with enable():
        check_same(AutoModelForCausalLM.from_pretrained("user/name", cache_dir=cache), expected)
        check_same(AutoModelForCausalLM.from_pretrained(snapshot), expected)
    with pytest.raises((OSError, AttributeError)):  # transformers 4.49 stumbles over its own answer
        AutoModelForCausalLM.from_pretrained("user/name", cache_dir=cache)


def test_bases(directory):
    plain, packed = os.path.join(directory, "model"), os.path.join(directory, "model.lmc")
    save_gpt2(plain)
    os.mkdir(os.path.join(directory, "bases"))
    base = shutil.copy(os.path.join(plain, "model.safetensors"), os.path.join(directory, "bases", "first.safetensors"))
    lmcodec.convert(plain, packed)
    lmcodec.convert(os.path.join(plain, "model.safetensors"), os.path.join(packed, "model.safetensors.lmc"), base=base,
                    force=True)
    with enable(base_dirs=[os.path.dirname(base)]):
        check_same(AutoModel.from_pretrained(packed), AutoModel.from_pretrained(plain))


def test_a_plain_file_goes_first(directory):
    plain = os.path.join(directory, "model")
    save_gpt2(plain)
    with open(os.path.join(plain, "model.safetensors.lmc"), "w") as file:
        file.write("no archive")
    with enable():
        assert isinstance(AutoModelForCausalLM.from_pretrained(plain), GPT2LMHeadModel)


def test_it_may_be_called_again(saved):
    plain, packed = saved
    first = enable()
    with enable(), enable():
        AutoModel.from_pretrained(packed)
    check_same(AutoModel.from_pretrained(packed), AutoModel.from_pretrained(plain))
    first.disable()
    first.disable()
    with pytest.raises(OSError):
        AutoModel.from_pretrained(packed)
    with pytest.raises(ZeroDivisionError), enable():
        1 / 0


def test_several_threads(saved):
    """Others enter and leave while one loads. transformers does not load in several threads at once."""
    plain, packed = saved
    is_done = threading.Event()

    def enter():
        while not is_done.is_set():
            with enable():
                pass

    threads = [threading.Thread(target=enter) for _ in range(3)]
    with enable():
        for thread in threads:
            thread.start()
        try:
            check_same(AutoModel.from_pretrained(packed), AutoModel.from_pretrained(plain))
        finally:
            is_done.set()
            for thread in threads:
                thread.join()


def test_damage_is_told(directory):
    plain, packed = os.path.join(directory, "model"), os.path.join(directory, "model.lmc")
    save_gpt2(plain)
    lmcodec.convert(plain, packed)
    with open(os.path.join(packed, "model.safetensors.lmc"), "r+b") as file:
        file.seek(-5000, os.SEEK_END)
        file.write(b"damage")
    with enable(), pytest.raises((lmcodec.DataError, RuntimeError)):
        AutoModel.from_pretrained(packed)


LATER = """
import sys
import lmcodec.transformers
with lmcodec.transformers.enable():
    from transformers import AutoModel
    print(type(AutoModel.from_pretrained(sys.argv[1])).__name__)
import transformers.modeling_utils, os, safetensors
assert transformers.modeling_utils.os is os and transformers.modeling_utils.safe_open is safetensors.safe_open
try:
    AutoModel.from_pretrained(sys.argv[1])
except OSError:
    print("not found")
"""


def test_modules_that_are_imported_later(directory):
    packed = os.path.join(directory, "model.lmc")
    save_gpt2(os.path.join(directory, "model"))
    lmcodec.convert(os.path.join(directory, "model"), packed)
    folder = os.path.dirname(os.path.dirname(lmcodec.__file__))
    done = subprocess.run([sys.executable, "-c", LATER, packed], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": folder + os.pathsep + os.environ.get("PYTHONPATH", "")})
    assert done.stdout.split("\n")[0].endswith("Model") and "not found" in done.stdout, done.stderr


# What PEFT and sentence-transformers call to find and read weights, where the packages are not there.
LIKE_PEFT = """
import os
from huggingface_hub import file_exists, hf_hub_download
from safetensors.torch import load_file as safe_load_file


def load(folder):
    path = os.path.join(folder, "adapter_model.safetensors")
    if not os.path.exists(path):
        raise ValueError("Can't find weights")
    return safe_load_file(path, device="cpu")
"""
LIKE_SENTENCE_TRANSFORMERS = """
from pathlib import Path
import safetensors
from huggingface_hub import hf_hub_download
from safetensors.torch import load_model as load_safetensors_model


def load(folder, model):
    path = Path(folder, "2_Dense", "model.safetensors")
    if not path.exists():
        raise ValueError("Could not find")
    assert isinstance(Path("a"), Path) and isinstance(path.parent, Path)
    load_safetensors_model(model, str(path))
    with safetensors.safe_open(str(path), framework="pt") as file:
        return file.keys()
"""


def test_calls_of_peft_and_sentence_transformers(directory, monkeypatch):
    model = torch.nn.Linear(64, 64)
    for package, text in (("peft", LIKE_PEFT), ("sentence_transformers", LIKE_SENTENCE_TRANSFORMERS)):
        os.makedirs(os.path.join(directory, "modules", package))
        open(os.path.join(directory, "modules", package, "__init__.py"), "w").close()
        with open(os.path.join(directory, "modules", package, "weights.py"), "w") as file:
            file.write(text)
    saved = os.path.join(directory, "saved.lmc")
    os.makedirs(os.path.join(saved, "2_Dense"))
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    lmcodec.torch.save_file(weights, os.path.join(saved, "adapter_model.safetensors.lmc"))
    lmcodec.torch.save_file(weights, os.path.join(saved, "2_Dense", "model.safetensors.lmc"))
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules)
              if name.partition(".")[0] in ("peft", "sentence_transformers")}
    monkeypatch.syspath_prepend(os.path.join(directory, "modules"))
    try:
        import peft.weights
        with enable():
            import sentence_transformers.weights  # later
            loaded = peft.weights.load(saved)
            assert all(torch.equal(loaded[name], weights[name]) for name in weights)
            other = torch.nn.Linear(64, 64)
            assert sentence_transformers.weights.load(saved, other) == ["bias", "weight"]
            assert torch.equal(other.weight, weights["weight"])
        with pytest.raises(ValueError):
            peft.weights.load(saved)
        with pytest.raises(ValueError):
            sentence_transformers.weights.load(saved, model)
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("peft", "sentence_transformers")]:
            del sys.modules[name]
        sys.modules.update(hidden)


def test_peft(directory):
    peft = pytest.importorskip("peft", reason="left out: PEFT is not installed; its calls are tested")
    plain, adapter = os.path.join(directory, "model"), os.path.join(directory, "adapter")
    save_gpt2(plain)
    made = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(plain),
                               peft.LoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn"], fan_in_fan_out=True))
    for name, weight in made.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)
    made.save_pretrained(adapter)
    for folder in (plain, adapter):
        lmcodec.convert(folder, folder + ".lmc")
    with enable():
        model = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(plain + ".lmc"), adapter + ".lmc")
        other = AutoModelForCausalLM.from_pretrained(plain)
        other.load_adapter(adapter + ".lmc")
    expected = made.state_dict()
    assert all(torch.equal(weight, expected[name]) for name, weight in model.state_dict().items())
    lora = [weight for name, weight in other.state_dict().items() if "lora_B" in name]
    assert lora and all(weight.abs().sum() > 0 for weight in lora)


def test_sentence_transformers(directory):
    sentence_transformers = pytest.importorskip(
        "sentence_transformers", reason="left out: sentence-transformers is not installed; its calls are tested")
    plain, whole = os.path.join(directory, "model"), os.path.join(directory, "whole")
    save_gpt2(plain)
    tokenizer = AutoTokenizer.from_pretrained(plain)
    tokenizer.pad_token = "w0"
    tokenizer.save_pretrained(plain)
    from sentence_transformers.models import Dense, Pooling, Transformer
    made = sentence_transformers.SentenceTransformer(
        modules=[Transformer(plain), Pooling(96), Dense(96, 32)], device="cpu")
    made.save(whole)
    lmcodec.convert(whole, whole + ".lmc")
    with enable():
        model = sentence_transformers.SentenceTransformer(whole + ".lmc", device="cpu")
    assert (model.encode(["w3 w1 w4"]) == made.encode(["w3 w1 w4"])).all()
    with pytest.raises(Exception):
        sentence_transformers.SentenceTransformer(whole + ".lmc", device="cpu")
