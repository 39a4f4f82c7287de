"""language.py - a small language model in NumPy for families.py: a transformer, its gradients, Adam.

Weights are F32 and lie in one array, of which each tensor is a view; so Adam is a few operations over all of them.
Tensors have the names and the order of the usual files: a matrix has a row for each output. Equal seeds give equal
weights on one machine with one version of NumPy.
"""

import re

import numpy as np

HEAD_WIDTH = 32
CONTEXT = 32
ADAM = 0.9, 0.99, 1e-8   # both betas, epsilon
PIECE = 1 << 16          # values of a step of Adam that stay in the cache


class Words:
    """The most frequent words and signs of a text, by rank; 0 is any other."""

    def __init__(self, text, count):
        words, counts = np.unique(split_words(text), return_counts=True)
        order = np.lexsort((words, -counts))[:count - 1]
        self.ranks = {word: rank + 1 for rank, word in enumerate(words[order])}
        self.count = count

    def encode(self, text):
        return np.array([self.ranks.get(word, 0) for word in split_words(text)])


def split_words(text):
    return re.findall(r"[A-Za-z]+|\d|\s+|.", text)


class Batches:
    """Random places of a text, as words and the words after them."""

    def __init__(self, words, rows, seed):
        self.words, self.rows, self.random = words, rows, np.random.default_rng(seed)

    def take(self):
        starts = self.random.integers(0, self.words.size - CONTEXT, self.rows)
        taken = self.words[starts[:, None] + np.arange(CONTEXT + 1)]
        return taken[:, :-1], taken[:, 1:]


def shapes_of(words, width, depth):
    """name -> shape of each tensor of a model."""
    shapes = {"embed_tokens.weight": (words, width), "embed_positions.weight": (CONTEXT, width)}
    for layer in range(depth):
        at = f"layers.{layer}."
        shapes[at + "input_layernorm.weight"] = (width,)
        for part in "qkvo":
            shapes[f"{at}self_attn.{part}_proj.weight"] = (width, width)
        shapes[at + "post_attention_layernorm.weight"] = (width,)
        shapes[at + "mlp.up_proj.weight"] = (4 * width, width)
        shapes[at + "mlp.down_proj.weight"] = (width, 4 * width)
    shapes["norm.weight"] = (width,)
    shapes["lm_head.weight"] = (words, width)
    return shapes


class Tensors(dict):
    """name -> a view of the array `flat`."""

    def __init__(self, shapes):
        super().__init__()
        self.shapes = dict(shapes)
        self.flat = np.zeros(sum(int(np.prod(shape)) for shape in self.shapes.values()), np.float32)
        at = 0
        for name, shape in self.shapes.items():
            count = int(np.prod(shape))
            self[name] = self.flat[at:at + count].reshape(shape)
            at += count

    def copy(self):
        other = Tensors(self.shapes)
        other.flat[:] = self.flat
        return other


def first_weights(words, width, depth, seed):
    tensors, random = Tensors(shapes_of(words, width, depth)), np.random.default_rng(seed)
    for name, values in tensors.items():
        if values.ndim == 1:
            values[:] = 1
        else:
            spread = 0.05 if "embed" in name else values.shape[1]**-0.5
            values[:] = random.standard_normal(values.shape, np.float32) * spread
    return tensors


# ---- the model ----

def normed(x):
    """x over its root mean square, and what it was multiplied by."""
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    return x * scale, scale


def normed_gradient(g, n, scale):
    return scale * (g - n * (g * n).mean(-1, keepdims=True))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def split_heads(x, rows):
    return x.reshape(rows, CONTEXT, -1, HEAD_WIDTH).transpose(0, 2, 1, 3)


def merge_heads(x):
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(-1, x.shape[1] * HEAD_WIDTH)


class Attention:
    """Words look at those before them. The mask is added to the scores."""

    mask = np.triu(np.full((CONTEXT, CONTEXT), -1e9, np.float32), 1)

    def __init__(self, tensors, gradients, at, rows):
        self.parts = [(tensors[f"{at}self_attn.{part}_proj.weight"], gradients[f"{at}self_attn.{part}_proj.weight"])
                      for part in "qkvo"]
        self.rows = rows

    def forward(self, x):
        self.x = x
        self.q, self.k, self.v = (split_heads(x @ weight.T, self.rows) for weight, _ in self.parts[:3])
        self.shares = softmax(self.q @ self.k.transpose(0, 1, 3, 2) * np.float32(HEAD_WIDTH**-0.5) + self.mask)
        self.seen = merge_heads(self.shares @ self.v)
        return self.seen @ self.parts[3][0].T

    def backward(self, g):
        weight, gradient = self.parts[3]
        gradient += g.T @ self.seen
        g = split_heads(g @ weight, self.rows)
        shares = g @ self.v.transpose(0, 1, 3, 2)
        scores = self.shares * (shares - (shares * self.shares).sum(-1, keepdims=True)) * np.float32(HEAD_WIDTH**-0.5)
        ways = scores @ self.k, scores.transpose(0, 1, 3, 2) @ self.q, self.shares.transpose(0, 1, 3, 2) @ g
        back = 0
        for (weight, gradient), way in zip(self.parts, ways):
            way = merge_heads(way)
            gradient += way.T @ self.x
            back = back + way @ weight
        return back


class Perceptron:
    def __init__(self, tensors, gradients, at):
        self.up, self.down = (tensors[f"{at}mlp.{part}_proj.weight"] for part in ("up", "down"))
        self.up_gradient, self.down_gradient = (gradients[f"{at}mlp.{part}_proj.weight"] for part in ("up", "down"))

    def forward(self, x):
        self.x, self.hidden = x, np.maximum(x @ self.up.T, 0)
        return self.hidden @ self.down.T

    def backward(self, g):
        self.down_gradient += g.T @ self.hidden
        g = (g @ self.down) * (self.hidden > 0)
        self.up_gradient += g.T @ self.x
        return g @ self.up


def loss_and_gradients(tensors, gradients, words, after):
    """The mean loss of a batch; adds to the gradients, which have the names of the tensors."""
    rows = words.shape[0]
    x = (tensors["embed_tokens.weight"][words] + tensors["embed_positions.weight"]).reshape(words.size, -1)
    layers = []
    for at in sorted({name[:name.index(".", 7) + 1] for name in tensors if name.startswith("layers.")}):
        for norm, part in (("input_layernorm", Attention(tensors, gradients, at, rows)),
                           ("post_attention_layernorm", Perceptron(tensors, gradients, at))):
            n, scale = normed(x)
            name = f"{at}{norm}.weight"
            x = x + part.forward(n * tensors[name])
            layers.append((name, part, n, scale))
    n, scale = normed(x)
    last = n * tensors["norm.weight"]
    chances = softmax(last @ tensors["lm_head.weight"].T)
    places = np.arange(words.size), after.ravel()
    loss = -np.log(chances[places] + 1e-30).mean()

    chances[places] -= 1
    g = chances / np.float32(words.size)
    gradients["lm_head.weight"] += g.T @ last
    g = g @ tensors["lm_head.weight"]
    gradients["norm.weight"] += (g * n).sum(0)
    g = normed_gradient(g * tensors["norm.weight"], n, scale)
    for name, part, n, scale in reversed(layers):
        inner = part.backward(g)
        gradients[name] += (inner * n).sum(0)
        g = g + normed_gradient(inner * tensors[name], n, scale)
    np.add.at(gradients["embed_tokens.weight"], words.ravel(), g)
    gradients["embed_positions.weight"] += g.reshape(rows, CONTEXT, -1).sum(0)
    return float(loss)


# ---- training ----

class Adam:
    def __init__(self, count):
        self.m, self.v, self.step = np.zeros(count, np.float32), np.zeros(count, np.float32), 0

    def move(self, weights, gradient, rate):
        """All three are flat. The gradient is used up."""
        beta1, beta2, epsilon = ADAM
        self.step += 1
        rate *= (1 - beta2**self.step)**0.5 / (1 - beta1**self.step)
        for at in range(0, weights.size, PIECE):
            g, m, v = (values[at:at + PIECE] for values in (gradient, self.m, self.v))
            m += np.float32(1 - beta1) * (g - m)
            v += np.float32(1 - beta2) * (g * g - v)
            weights[at:at + PIECE] -= np.float32(rate) * m / (np.sqrt(v) + np.float32(epsilon))


def rate_at(step, steps, peak):
    """Rises over a tenth of the steps, then follows a cosine down to a tenth."""
    rise = max(1, steps // 10)
    return peak * min(1.0, (step + 1) / rise) * (0.55 + 0.45 * np.cos(np.pi * step / steps))


def train(tensors, batches, steps, peak):
    """Changes the tensors; returns the losses of the first and the last tenth."""
    gradients, adam, losses = Tensors(tensors.shapes), Adam(tensors.flat.size), []
    for step in range(steps):
        gradients.flat[:] = 0
        losses.append(loss_and_gradients(tensors, gradients, *batches.take()))
        adam.move(tensors.flat, gradients.flat, rate_at(step, steps, peak))
    tenth = max(1, steps // 10)
    return float(np.mean(losses[:tenth])), float(np.mean(losses[-tenth:]))


def train_adapter(tensors, batches, steps, peak, rank, seed):
    """A low-rank adapter (LoRA) of the queries and values is trained and merged into the tensors."""
    names = [name for name in tensors if "q_proj" in name or "v_proj" in name]
    random, first = np.random.default_rng(seed), tensors.copy()
    parts = Tensors({f"{name}:{side}": (rank, tensors[name].shape[side == "in"]) for name in names
                     for side in ("in", "out")})
    for name in names:
        parts[name + ":in"][:] = random.standard_normal(parts[name + ":in"].shape, np.float32) * 0.05
    gradients, moves, adam = Tensors(tensors.shapes), Tensors(parts.shapes), Adam(parts.flat.size)
    for step in range(steps):
        gradients.flat[:] = 0
        loss_and_gradients(tensors, gradients, *batches.take())
        for name in names:
            moves[name + ":out"][:] = parts[name + ":in"] @ gradients[name].T
            moves[name + ":in"][:] = parts[name + ":out"] @ gradients[name]
        adam.move(parts.flat, moves.flat, rate_at(step, steps, peak))
        for name in names:
            tensors[name][:] = first[name] + parts[name + ":out"].T @ parts[name + ":in"]
