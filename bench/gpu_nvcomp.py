"""How fast nvCOMP decodes with ANS what LMC's gpu_speed decodes: normally distributed bf16 in the device's memory.

    python3 bench/gpu_nvcomp.py [--mib 1024] [--repeats 10]

It needs torch with CUDA and the package nvidia-nvcomp-cu12 or nvidia-nvcomp-cu13. "high bytes" codes the bytes that
hold the exponents alone: what LMC codes of bf16. Rates are of content, the best of the repeats.
"""

import argparse

import torch
from nvidia import nvcomp


def best_seconds(function, repeats):
    """The shortest time of a function by the device's clock; its first call is not counted."""
    times = []
    for _ in range(repeats + 1):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        function()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return min(times[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    stream = torch.cuda.current_stream()
    content = (torch.randn(arguments.mib << 19, device="cuda") * 0.02).to(torch.bfloat16).view(torch.uint8)
    halves = content.view(-1, 2)
    codec = nvcomp.Codec(algorithm="ANS", cuda_stream=stream.cuda_stream)
    print("nvCOMP %s, ANS" % nvcomp.__version__)
    print("what         ratio  GB/s of content")
    for name, coded in (("all bytes", content), ("high bytes", halves[:, 1].contiguous())):
        encoded = codec.encode(nvcomp.as_array(coded, cuda_stream=stream.cuda_stream))
        decoded = torch.as_tensor(codec.decode(encoded), device="cuda").view(torch.uint8)
        if not torch.equal(decoded, coded):
            raise SystemExit("%s: the content is wrong" % name)
        stored = encoded.buffer_size + content.numel() - coded.numel()
        taken = best_seconds(lambda: codec.decode(encoded), arguments.repeats)
        print("%-12s %6.4f %16.1f" % (name, stored / content.numel(), content.numel() / taken / 1e9))


if __name__ == "__main__":
    main()
