"""distributed_writer.py FOLDER STEP... - two processes train a model of DTensors and save it with
torch.distributed.checkpoint in FOLDER/stepSTEP. The example of torch's documents, on the CPU."""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as processes
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

SIZES = {"embed.weight": (512, 64), "up.weight": (256, 64), "up.bias": (255,), "norm.weight": (64,)}


def full_values(step):
    """Weights and Adam's moments after this many steps."""
    generator = torch.Generator().manual_seed(1)
    values = {}
    for name, size in SIZES.items():
        start = torch.randn(size, generator=generator) * 0.02
        drift = torch.randn(size, generator=generator) * 1e-5
        values[name] = {"weight": (start + step * drift).to(torch.bfloat16), "exp_avg": start * 0.1 + step * drift,
                        "exp_avg_sq": start * start}
    return values


def state_of(step, place):
    """What is saved; place: makes a tensor one of several processes."""
    values = full_values(step)
    return {"model": {name: place(name, value["weight"]) for name, value in values.items()},
            "optimizer": {name: {key: place(name, value[key]) for key in ("exp_avg", "exp_avg_sq")}
                          for name, value in values.items()},
            "step": step, "lr": 1e-4, "names": list(SIZES)}


def save(rank, port, folder, steps):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2",
                      GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2,))
    for step in steps:
        state = state_of(step, lambda name, tensor: distribute_tensor(
            tensor, mesh, [Replicate() if name == "norm.weight" else Shard(0)]))
        dcp.save(state, checkpoint_id=os.path.join(folder, f"step{step}"))
    dist.destroy_process_group()


def main():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes.start_processes(save, (port, sys.argv[1], [int(step) for step in sys.argv[2:]]), nprocs=2,
                              start_method="fork")


if __name__ == "__main__":
    main()
