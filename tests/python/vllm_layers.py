"""vllm_layers.py - a stand-in of vLLM's layers: how they take their part of a weight.

Written after the modules linear (of commit 0036d38de46c), parameter, vocab_parallel_embedding and weight_utils of vLLM
0.33. Those loaders narrow() the weight that they are handed, look at its shape, and copy it. Fused layers take it from
several weights, or from one that is fused in the file.
"""
import torch

HIDDEN, HEAD, HEADS, MIDDLE, VOCAB = 1024, 64, 16, 2048, 4100


class Parameter(torch.nn.Parameter):
    """BasevLLMParameter: a subclass that hands functions of torch on."""

    def __new__(cls, *shape):
        return super().__new__(cls, torch.zeros(*shape, dtype=torch.bfloat16), requires_grad=False)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})

    def take(self, weight, dimension=0, rank=0, offset=0, count=None):
        """The part of this rank, to `count` rows (or columns) from `offset`."""
        place = self.data
        if count is not None:
            place = place.narrow(dimension, offset, count)
        weight = weight.narrow(dimension, rank * place.shape[dimension], place.shape[dimension])
        assert place.shape == weight.shape
        place.copy_(weight)


class Layer(torch.nn.Module):
    def __init__(self, rank, *shape):
        super().__init__()
        self.rank, self.weight = rank, Parameter(*shape)


class Column(Layer):
    """ColumnParallelLinear: rows."""

    def load(self, weight, shard):
        self.weight.take(weight, 0, self.rank)


class Row(Layer):
    """RowParallelLinear: columns."""

    def load(self, weight, shard):
        self.weight.take(weight, 1, self.rank)


class Replicated(Layer):
    """ReplicatedLinear, and what default_weight_loader() loads."""

    def load(self, weight, shard):
        if self.weight.numel() == 1 and weight.numel() == 1:
            self.weight.data.fill_(weight.item())
            return
        assert self.weight.size() == weight.size()
        self.weight.data.copy_(weight)


class Fused(Layer):
    """MergedColumnParallelLinear and QKVParallelLinear. rows: of each shard, before it is divided. copies: how many
    ranks have the same rows of it."""

    def __init__(self, rank, ranks, rows, copies):
        self.counts = [count * copy // ranks for count, copy in zip(rows, copies)]
        super().__init__(rank, sum(self.counts), HIDDEN)
        self.rows, self.copies = rows, copies

    def load(self, weight, shard):
        if shard is None:
            for each, count in enumerate(self.rows):
                self.load(weight.narrow(0, sum(self.rows[:each]), count), each)
            return
        self.weight.take(weight, 0, self.rank // self.copies[shard], sum(self.counts[:shard]), self.counts[shard])


class Embedding(Layer):
    """VocabParallelEmbedding: rows; the last rank has less, up to a padded size."""

    def __init__(self, rank, ranks):
        super().__init__(rank, -(-VOCAB // 64) * 64 // ranks, HIDDEN)

    def load(self, weight, shard):
        assert weight.shape[0] == VOCAB
        padded = self.weight.shape[0]
        first = min(self.rank * padded, VOCAB)
        part = weight.narrow(0, first, min(first + padded, VOCAB) - first)
        self.weight[:part.shape[0]].data.copy_(part)
        self.weight[part.shape[0]:].data.fill_(0)


class Model(torch.nn.Module):
    """One layer of a decoder with grouped queries, on one of the ranks."""

    SHARDS = {"q": ("qkv", 0), "k": ("qkv", 1), "v": ("qkv", 2), "gate": ("gate_up", 0), "up": ("gate_up", 1)}

    def __init__(self, rank, ranks):
        super().__init__()
        query, key = HEADS * HEAD, 2 * HEAD
        copies = [1, max(ranks // 2, 1), max(ranks // 2, 1)]  # two heads of keys and values
        self.embed, self.head = Embedding(rank, ranks), Embedding(rank, ranks)
        self.qkv, self.qkv_in_one = (Fused(rank, ranks, [query, key, key], copies) for _ in range(2))
        self.gate_up, self.gate_up_in_one = (Fused(rank, ranks, [MIDDLE, MIDDLE], [1, 1]) for _ in range(2))
        self.o, self.down = Row(rank, HIDDEN, query // ranks), Row(rank, HIDDEN, MIDDLE // ranks)
        self.column, self.router = Column(rank, MIDDLE // ranks, HIDDEN), Replicated(rank, 512, HIDDEN)
        self.norm, self.scale = Replicated(rank, HIDDEN), Replicated(rank, 1)

    def load_weights(self, weights):
        for name, weight in weights:
            place, shard = self.SHARDS.get(name, (name, None))
            getattr(self, place).load(weight, shard)


def checkpoint(seed):
    """The tensors of the file that the model is loaded from."""
    generator = torch.Generator().manual_seed(seed)
    key = 2 * HEAD
    shapes = {"embed": (VOCAB, HIDDEN), "head": (VOCAB, HIDDEN), "q": (HIDDEN, HIDDEN), "k": (key, HIDDEN),
              "v": (key, HIDDEN), "qkv_in_one": (HIDDEN + 2 * key, HIDDEN), "gate": (MIDDLE, HIDDEN),
              "up": (MIDDLE, HIDDEN), "gate_up_in_one": (2 * MIDDLE, HIDDEN), "o": (HIDDEN, HIDDEN),
              "down": (HIDDEN, MIDDLE), "column": (MIDDLE, HIDDEN), "router": (512, HIDDEN), "norm": (HIDDEN,),
              "scale": ()}
    return {name: (torch.randn(shape, generator=generator) * 0.02).bfloat16() for name, shape in shapes.items()}
