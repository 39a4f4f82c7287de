"""lmcodec.diffusers: models and pipelines from converted directories are those of the original directories."""
import copy
import json
import os

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")
diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
import lmcodec  # noqa: E402
from lmcodec.diffusers import from_pretrained  # noqa: E402


@pytest.fixture
def folders(directory):
    plain, small = os.path.join(directory, "plain"), os.path.join(directory, "small")
    unet = diffusers.UNet2DModel(sample_size=16, block_out_channels=(32, 32), norm_num_groups=8,
                                 down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2)
    diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler()).save_pretrained(plain)
    unet.save_pretrained(os.path.join(plain, "sharded"), max_shard_size="300KB")
    unet.save_pretrained(os.path.join(plain, "half"), variant="fp16")
    lmcodec.convert(plain, small, fsync=False)
    return plain, small


def check_same(model, expected):
    assert type(model) is type(expected) and model.training == expected.training
    others = expected.state_dict()
    for name, weight in model.state_dict().items():
        assert weight.dtype == others[name].dtype and torch.equal(weight, others[name]), name
    sample = torch.ones((1, 3, 16, 16), dtype=model.dtype)
    expected = copy.deepcopy(expected)  # mapped weights are aligned in another way, which changes last bits of results
    with torch.no_grad():
        assert torch.equal(model(sample, 5).sample, expected(sample, 5).sample)
    assert {**model.config, "_name_or_path": ""} == {**expected.config, "_name_or_path": ""}


@pytest.mark.parametrize("name, variant", [("unet", None), ("sharded", None), ("half", "fp16")])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_model(folders, name, variant, dtype):
    plain, small = (os.path.join(folder, name) for folder in folders)
    expected = diffusers.UNet2DModel.from_pretrained(plain, variant=variant, torch_dtype=dtype or torch.float32)
    check_same(from_pretrained(small, variant=variant, torch_dtype=dtype), expected)
    check_same(from_pretrained(small, diffusers.UNet2DModel, variant=variant, torch_dtype=dtype), expected)


def test_pipeline(folders):
    plain, small = folders
    for model_class in (None, diffusers.DDPMPipeline):
        pipeline = from_pretrained(small, model_class)
        check_same(pipeline.unet, diffusers.DDPMPipeline.from_pretrained(plain).unet)
        assert type(pipeline) is diffusers.DDPMPipeline and isinstance(pipeline.scheduler, diffusers.DDPMScheduler)


def test_refused(folders):
    _, small = folders
    with pytest.raises(NotImplementedError, match="device_map"):
        from_pretrained(os.path.join(small, "unet"), device_map="auto")
    with pytest.raises(FileNotFoundError):
        from_pretrained(os.path.join(small, "unet"), variant="none")
    path = os.path.join(small, "model_index.json")
    with open(path) as file:
        index = json.load(file)
    index["unet"] = ["somewhere", "Model"]
    with open(path, "w") as file:
        json.dump(index, file)
    with pytest.raises(NotImplementedError, match="somewhere"):
        from_pretrained(small)
