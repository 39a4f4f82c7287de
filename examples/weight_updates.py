#!/usr/bin/env python3
"""Two processes: one trains a small model, the other one serves a copy of it, which it keeps up to date by deltas.

    python3 examples/weight_updates.py [UPDATES]

The trainer's optimizer steps a model in bfloat16 with weights of float32 behind it, and sends a delta of each version
through a pipe. The server applies it in place, and answers with a hash of its weights, which must be the trainer's.
Then the trainer leaves an update out, repeats one, and sends one of another training: the server refuses each and says
why. Needs torch and the package lmcodec.
"""
import hashlib
import multiprocessing
import sys

import torch

import lmcodec


def new_model(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Embedding(500, 256), torch.nn.Linear(256, 512), torch.nn.GELU(),
                               torch.nn.Linear(512, 256), torch.nn.LayerNorm(256), torch.nn.Linear(256, 500))


def hash_of(state):
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(state[name].contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


class Trainer:
    """Weights of float32 that learn to say the token after the next one; what is served is their rounding."""

    def __init__(self, seed):
        self.model = new_model(seed)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-6)

    def weights(self):
        return {name: tensor.detach().bfloat16() for name, tensor in self.model.state_dict().items()}

    def step(self):
        tokens = torch.randint(0, 500, (64,))
        loss = torch.nn.functional.cross_entropy(self.model(tokens), (tokens + 2) % 500)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def serve(connection, weights):
    """Applies what comes until there is no more. Answers: version and hash, or why the delta is refused."""
    reader = lmcodec.DeltaReader(weights)
    while True:
        delta = connection.recv_bytes()
        if not delta:
            return
        try:
            connection.send((reader.apply(delta), hash_of(weights)))
        except lmcodec.BaseError as error:
            connection.send((reader.version, str(error)))


def main():
    updates = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    trainer = Trainer(1)
    weights = trainer.weights()
    writer = lmcodec.DeltaWriter(weights)
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    server = context.Process(target=serve, args=(there, weights), daemon=True)
    server.start()

    def send(delta):
        here.send_bytes(delta)
        return here.recv()

    nbytes = changed = 0
    for version in range(1, updates + 1):
        trainer.step()
        before, weights = weights, trainer.weights()
        delta = writer.delta(weights)
        assert send(delta) == (version, hash_of(weights)), "version %d differs" % version
        nbytes += len(delta)
        changed += sum(int((before[name] != weights[name]).sum()) for name in weights)
    count = sum(tensor.numel() for tensor in weights.values())
    print("%d updates of %d bytes of weights, each equal bit for bit: %.1f %% of the values changed at a time, "
          "%.2f bytes were sent for each" % (updates, 2 * count, 100 * changed / count / updates, nbytes / changed))

    repeated = send(delta)
    trainer.step()
    lost = writer.delta(trainer.weights())
    trainer.step()
    after_lost = send(writer.delta(trainer.weights()))
    other = Trainer(2)
    stranger = lmcodec.DeltaWriter(other.weights())
    other.step()
    foreign = send(stranger.delta(other.weights()))
    for name, answer in (("repeated", repeated), ("after a lost one", after_lost), ("foreign", foreign)):
        assert answer[0] == updates, answer
        print("%s: %s" % (name, answer[1]))
    send(lost)
    assert send(writer.snapshot()) == (updates + 2, hash_of(trainer.weights()))
    print("a snapshot brought the server to version %d" % writer.version)
    here.send_bytes(b"")
    server.join()


if __name__ == "__main__":
    main()
