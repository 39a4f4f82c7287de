"""torch_objects.py - objects that torch.save() writes, for torch 1.13 and newer, and what must be listed of each."""

import collections
import itertools

import torch

from command import Tensor

torch.set_num_threads(1)

DTYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int8": "I8", "int16": "I16",
          "int32": "I32", "int64": "I64", "uint8": "U8", "bool": "BOOL", "complex64": "C64", "complex128": "F64",
          "uint16": "U16", "uint32": "U32", "uint64": "U64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
          "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0",
          "complex32": "F16", "float4_e2m1fn_x2": "F4"}
PAIRS = ("complex128", "complex32")  # of values that have a dtype


COMPARED = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64)  # what torch.equal() knows


def load(path):
    return torch.load(path, **({} if torch.__version__.startswith("1.") else {"weights_only": False}))


def tensors_in(value, path=()):
    """(path, tensor) of all tensors in an object, in the order in which it is pickled."""
    if isinstance(value, torch.Tensor):
        yield ".".join(path), value
    elif isinstance(value, torch.nn.Module):
        for name, tensor in value.state_dict(keep_vars=True).items():
            yield ".".join(path + (name,)), tensor
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors_in(item, path + (str(key),))
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            yield from tensors_in(item, path + (str(position),))


def untyped(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()


def expected_of(value, path):
    """{name: Tensor} of the file that torch.save(value) has written: each tensor of the object, as it is read. A tensor
    without a path has the name of its storage in the file."""
    storages, found = [], []
    for name, tensor in tensors_in(value):
        storage = untyped(tensor)._cdata
        if storage not in storages:
            storages.append(storage)
        found.append((name or f"data/{storages.index(storage)}", tensor_of(tensor)))
    return dict(zip(unlike([name for name, _ in found]), [tensor for _, tensor in found]))


def unlike(names):
    """Of equal names the first keeps it. Another one gets the lowest number that makes a name that nothing has."""
    taken, seen = set(names), set()
    for name in names:
        numbered = (f"{name}#{number}" for number in itertools.count(2))
        given = name if name not in seen else next(other for other in numbered if other not in taken)
        taken.add(given)
        seen.add(name)
        yield given


def tensor_of(tensor):
    """What is listed and read of a tensor. If torch changes its values as it loads them, all bytes of its storage."""
    if tensor.is_conj() or tensor.is_neg():
        stored = bytes(untyped(tensor))
        return Tensor("U8", [len(stored)], stored)
    name, shape = str(tensor.dtype).split(".")[1], list(tensor.shape)
    if name in PAIRS:
        shape.append(2)
    elif name == "float4_e2m1fn_x2":
        shape[-1] *= 2
    return Tensor(DTYPES[name], shape, bits(tensor))


def same(before, after):
    """Differences of two objects, tensor by tensor."""
    before, after = list(tensors_in(before)), list(tensors_in(after))
    if [name for name, _ in before] != [name for name, _ in after]:
        yield "other names"
        return
    for (name, one), (_, other) in zip(before, after):
        if one.dtype != other.dtype or one.shape != other.shape or one.stride() != other.stride():
            yield f"{name}: other dtype, shape or strides"
        elif not (torch.equal(one, other) if one.dtype in COMPARED else bits(one) == bits(other)):
            yield f"{name}: other values"


def bits(tensor):
    """The bytes of a tensor of any dtype, in C order."""
    packed = torch.empty(tensor.shape, dtype=tensor.dtype)
    packed.copy_(tensor.detach())
    return packed.reshape(-1).view(torch.uint8).numpy().tobytes() if packed.numel() else b""


# ---- a small transformer, which is trained ----

class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(torch.relu(self.up(x)))


class Transformer(torch.nn.Module):
    """200,000 parameters; the output layer has the weights of the input layer."""

    def __init__(self, vocabulary=512, width=64, depth=3):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(depth))
        self.register_buffer("positions", torch.arange(32))
        self.head = torch.nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Training:
    """A model and its optimizer; next words are the last word and one."""

    def __init__(self, make_optimizer, seed=1):
        torch.manual_seed(seed)
        self.model = Transformer()
        self.optimizer = make_optimizer(self.model.parameters())

    def steps(self, count):
        for _ in range(count):
            tokens = (torch.randint(512, (4, 1)) + torch.arange(17)) % 512
            scores = self.model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(scores.reshape(-1, 512), tokens[:, 1:].reshape(-1))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return self


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def two_groups(parameters):
    parameters = list(parameters)
    return torch.optim.Adam([{"params": parameters[:3]}, {"params": parameters[3:], "lr": 1e-4}], amsgrad=True)


# ---- objects ----

def all_dtypes():
    torch.manual_seed(2)
    made = {}
    for name in DTYPES:
        dtype = getattr(torch, name, None)
        if dtype is not None and name not in ("complex32", "float4_e2m1fn_x2"):  # torch converts nothing to these
            values = torch.randn(40, 30) * 20
            if name.startswith(("uint", "float8")):
                values = values.abs()
            made[name] = values.to(dtype)
    return made


def views():
    torch.manual_seed(3)
    matrix, row = torch.randn(100, 50), torch.randn(1000)
    return {"rows": matrix[10:20], "matrix": matrix, "transposed": matrix.t(), "columns": matrix[:, ::2],
            "middle": row[100:200], "every other": row[::2], "diagonal": matrix.diagonal(),
            "turned": torch.randn(30, 40).t(), "expanded": torch.randn(5, 1).expand(5, 200),
            "last channel": torch.randn(2, 8, 6, 6).contiguous(memory_format=torch.channels_last)}


def nested():
    torch.manual_seed(4)
    return {"list": [torch.randn(3), [torch.randn(4, 4), "text", None], (torch.randn(5), 1.5)],
            "deep": {"a": {"b": {"c": [{"d": torch.randn(6)}]}}}, 7: torch.randn(7), "empty": {},
            "ordered": collections.OrderedDict(x=torch.randn(8), y=torch.arange(9)), "set": {1, 2}}


def odd_names():
    torch.manual_seed(5)
    return {"": torch.randn(4), "a.b": torch.randn(4), " ": torch.randn(3), "\u00e9\u4e2d\U0001f600": torch.randn(5),
            'quote"\\': torch.randn(2), "x/y": torch.randn(6), "x[0]": torch.randn(9)}


OBJECTS = {
    "dtypes": all_dtypes,
    "tied": lambda: (lambda weight: {"embed": weight, "head": weight})(torch.randn(64, 32)),
    "parameters": lambda: {"a": torch.nn.Parameter(torch.randn(20, 5)), "b": torch.nn.Parameter(torch.arange(3.0)),
                           "fixed": torch.nn.Parameter(torch.randn(9), requires_grad=False)},
    "views": views,
    "part-first": lambda: (lambda whole: {"part": whole[10:20], "whole": whole.view(10, 100)})(torch.randn(1000)),
    "no-elements": lambda: {"none": torch.empty(0), "no rows": torch.empty(0, 5), "no columns": torch.zeros(3, 0, 2),
                            "one": torch.ones(1), "behind": torch.randn(70)},
    "scalars": lambda: {"f": torch.tensor(1.5), "i": torch.tensor(7), "b": torch.tensor(True)},
    "nested": nested,
    "odd-names": odd_names,
    "bare-tensor": lambda: torch.randn(50, 20),
    "list": lambda: [torch.randn(10), torch.randn(20)],
    "no-tensors": lambda: {"epoch": 3, "name": "x" * 5000},
    "equal": lambda: {f"copy {i}": torch.arange(3000.0) for i in range(5)},
    "state-dict": lambda: Training(adamw).steps(2).model.state_dict(),
    "state-dict-bf16": lambda: Training(adamw).steps(2).model.to(torch.bfloat16).state_dict(),
    "adamw": lambda: Training(adamw).steps(3).optimizer.state_dict(),
    "sgd": lambda: Training(sgd).steps(3).optimizer.state_dict(),
    "amsgrad": lambda: Training(two_groups).steps(3).optimizer.state_dict(),
    "module": lambda: Training(adamw).steps(1).model,
    "many": lambda: {f"layers.{i}.scale": torch.full((3,), float(i)) for i in range(10000)},
    "lightning": lambda: lightning(Training(adamw).steps(3), 3),
    "deepspeed": lambda: deepspeed(Training(adamw).steps(3), 3),
}


def lightning(training, step):
    """What Lightning's ModelCheckpoint writes."""
    return {"epoch": 1, "global_step": step, "pytorch-lightning_version": "2.5.0",
            "state_dict": {f"model.{name}": weight for name, weight in training.model.state_dict().items()},
            "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"current": {"ready": 1, "completed": 0}}}},
            "callbacks": {"ModelCheckpoint{'monitor': 'loss'}": {"best_model_score": torch.tensor(0.5),
                                                                 "kth_value": torch.tensor(0.75)}},
            "optimizer_states": [training.optimizer.state_dict()], "lr_schedulers": [{"last_epoch": step}],
            "hparams_name": "kwargs", "hyper_parameters": collections.OrderedDict(width=64, lr=1e-4)}


def deepspeed(training, step):
    """What DeepSpeed writes for a rank in ZeRO's stages 1 and 2: flat tensors, and views of them."""
    flat = torch.cat([weight.detach().reshape(-1) for weight in training.model.parameters()])
    shapes = collections.OrderedDict((name, weight.shape) for name, weight in training.model.named_parameters())
    return {"optimizer_state_dict": {"loss_scaler": None, "zero_stage": 1, "partition_count": [1],
                                     "single_partition_of_fp32_groups": [flat],
                                     "base_optimizer_state": {"state": {0: {"exp_avg": flat * 0.1, "step": step,
                                                                            "exp_avg_sq": flat * flat}}}},
            "param_shapes": [shapes], "ds_version": "0.17.0"}
