"""Damage in archives of other files, and in these files before they are converted."""

import os
import random
import resource
import zipfile

import numpy
import pytest

from command import check, read, safetensors_names, write
from torch_objects import Training, adamw, sgd, torch

CPU_SECONDS = 2.0


def small_torch(path, seed=1):
    """Coded, stored and short tensors, an alias."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(60, 50, generator=generator)
    torch.save({"a": weight, "half": weight.to(torch.bfloat16), "noise": torch.randint(
        256, (3000,), dtype=torch.uint8, generator=generator), "short": torch.arange(5), "copy": weight.clone(),
                "last": torch.randn(3000, generator=generator)}, path)


def small_numpy(path, seed=1):
    rng = numpy.random.default_rng(seed)
    weight = rng.normal(0, 0.02, (60, 50)).astype("f4")
    numpy.savez(path, a=weight, half=weight.astype("f2"), noise=rng.integers(0, 256, 3000, "u1"),
                short=numpy.arange(5), copy=weight, objects=numpy.array(["x", 1], dtype=object),
                last=rng.normal(0, 1, 3000))


MAKERS = {"pt": small_torch, "npz": small_numpy}


class Made:
    """A file and its archive."""

    def __init__(self, tool, directory, kind):
        self.tool = tool
        self.path = os.path.join(directory, "file." + kind)
        MAKERS[kind](self.path)
        tool.run("convert", self.path)
        self.archive = self.path + ".lmc"
        self.plain, self.content = read(self.path), read(self.archive)
        self.tensors = {name: tool.run("get", self.archive, name) for name in tool.listing(self.archive)}


@pytest.fixture(params=MAKERS)
def made(tool, directory, request):
    return Made(tool, directory, request.param)


def names_a_part(message, names):
    return any(name in message for name in names) or "between the tensors" in message


def salvaged(made, broken, directory):
    """{name: bytes} of what --salvage saves of an archive; {} if there is nothing to be saved."""
    saved = os.path.join(directory, "saved.safetensors")
    if os.path.exists(saved):
        os.unlink(saved)
    done = made.tool.run("restore", "--salvage", broken, "-o", saved, status=1)
    check(done == b"", "something on standard output")
    if not os.path.exists(saved):
        return None
    return {name: made.tool.run("get", saved, name) for name in safetensors_names(read(saved))}


def test_flipped_bytes(made, directory):
    """verify finds each, and names the place; restore leaves nothing; what is sound can be saved."""
    rng = random.Random(4)
    broken, back = os.path.join(directory, "broken.lmc"), os.path.join(directory, "back")
    header_nbytes = int.from_bytes(made.content[:8], "little")
    saved_count = 0
    for at in sorted(rng.sample(range(len(made.content)), 100)):
        content = bytearray(made.content)
        content[at] ^= 1 << rng.randrange(8)
        write(broken, bytes(content))
        made.tool.run("verify", broken, status=1)
        message = made.tool.message
        made.tool.run("restore", broken, "-o", back, status=1)
        check(not os.path.exists(back), f"byte {at}: a file is left")
        found = salvaged(made, broken, directory)
        if at >= 8 + header_nbytes and found is not None:
            saved_count += 1
            for name, saved in found.items():
                check(saved == made.tensors[name], f"byte {at}: {name} was saved with other bytes")
            lost = set(made.tensors) - set(found)
            # one; or the weight, its copy, and maybe its half, which is coded against it
            check(len(lost) <= 1 or lost in ({"a", "copy"}, {"a", "copy", "half"}), f"byte {at}: {lost} were not saved")
            check(names_a_part(message, lost or made.tensors), f"byte {at}: {message}")
    check(saved_count >= 50, f"saved {saved_count} times")


def test_cut_archives(made, directory):
    rng = random.Random(5)
    broken, back = os.path.join(directory, "broken.lmc"), os.path.join(directory, "back")
    for length in sorted(rng.sample(range(len(made.content)), 40)):
        write(broken, made.content[:length])
        made.tool.run("verify", broken, status=1)
        made.tool.run("restore", broken, "-o", back, status=1)
        check(not os.path.exists(back), f"{length} bytes: a file is left")


def test_skeleton_alone_is_damaged(made, directory):
    """All tensors can be read, the file cannot be restored."""
    broken, back = os.path.join(directory, "broken.lmc"), os.path.join(directory, "back")
    content = bytearray(made.content)
    content[-20] ^= 1  # the skeleton is the last tensor
    write(broken, bytes(content))
    made.tool.run("restore", broken, "-o", back, status=1)
    check("between the tensors" in made.tool.message, made.tool.message)
    for name, tensor in made.tensors.items():
        check(made.tool.run("get", broken, name) == tensor, f"{name}: other bytes")
    check(salvaged(made, broken, directory) == made.tensors, "not all tensors were saved")


# ---- damage before the conversion ----

def refused_or_restored(tool, path, what):
    """Whether it was converted."""
    content, archive = read(path), path + ".lmc"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    converted = tool.try_to("convert", path, "-f")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    check(spent < CPU_SECONDS, f"{what}: {spent:.1f} s")
    if converted:
        tool.run("restore", archive, "-f", "-o", path + ".back")
        check(read(path + ".back") == content, f"{what}: the restored file differs")
        tool.run("verify", archive)
        tool.listing(archive)
        os.unlink(archive)
    else:
        check(tool.message.count("\n") == 1, f"{what}: {tool.message}")
        check(not os.path.exists(archive), f"{what}: an archive is left")
    return converted


@pytest.mark.parametrize("kind", MAKERS)
def test_cut_files(tool, directory, kind):
    path = os.path.join(directory, "file." + kind)
    MAKERS[kind](path)
    whole = read(path)
    rng = random.Random(6)
    near_the_end = [len(whole) - n for n in (1, 2, 21, 22, 23, 42, 76, 98, 120, 200)]
    for length in [0, 1, 4, 30, 64] + sorted(rng.sample(range(len(whole)), 50)) + near_the_end:
        write(path, whole[:length])
        refused_or_restored(tool, path, f"{length} bytes")


def interesting_places(whole, path, rng):
    """Bytes of the directory and of the end record, of local headers, of the pickle."""
    places = []
    with zipfile.ZipFile(path) as file:
        places += range(file.start_dir, len(whole))
        for entry in file.infolist():
            places += range(entry.header_offset, entry.header_offset + 30 + len(entry.filename))
            if entry.filename.endswith(".pkl"):
                places += range(entry.header_offset + 30, entry.header_offset + 30 + 64 + entry.file_size)
    return sorted(rng.sample(sorted(set(places)), 160))


@pytest.mark.parametrize("kind", MAKERS)
def test_flipped_files(tool, directory, kind):
    path = os.path.join(directory, "file." + kind)
    MAKERS[kind](path)
    whole = read(path)
    rng = random.Random(7)
    converted = 0
    for at in interesting_places(whole, path, rng):
        content = bytearray(whole)
        content[at] = rng.choice((0, 255, content[at] ^ 1, content[at] ^ 128, rng.randrange(256)))
        write(path, bytes(content))
        converted += refused_or_restored(tool, path, f"byte {at}")
    check(converted >= 80, f"{converted} were converted")


@pytest.mark.parametrize("kind", MAKERS)
def test_pieces_moved(tool, directory, kind):
    """Parts of the file are left out, doubled or exchanged."""
    path = os.path.join(directory, "file." + kind)
    MAKERS[kind](path)
    whole = read(path)
    rng = random.Random(8)
    for round_ in range(60):
        a, b = sorted(rng.sample(range(len(whole)), 2))
        content = {0: whole[:a] + whole[b:], 1: whole[:b] + whole[a:], 2: whole[b:] + whole[:b],
                   3: whole + whole[a:], 4: whole + whole}[round_ % 5]
        write(path, content)
        refused_or_restored(tool, path, f"{('left out', 'doubled', 'turned', 'more', 'twice')[round_ % 5]} {a} {b}")


def test_wrong_base(tool, directory):
    """A base of another run, or one that was changed since: exit 1, nothing left."""
    first, second, other = (os.path.join(directory, name) for name in ("a.pt", "b.pt", "c.pt"))
    training = Training(adamw).steps(2)
    torch.save(training.model.state_dict(), first)
    torch.save(training.steps(1).model.state_dict(), second)
    torch.save(Training(sgd, seed=9).steps(1).model.state_dict(), other)
    tool.run("convert", second, "--base", first)
    back = second + ".back"
    tool.run("restore", second + ".lmc", "--base", other, "-o", back, status=1)
    check(not os.path.exists(back), "a file is left")
    content = bytearray(read(first))
    with zipfile.ZipFile(first) as file:
        entry = next(entry for entry in file.infolist() if entry.filename.endswith("data/0"))
    content[entry.header_offset + 5000] ^= 1
    write(first, bytes(content))
    tool.run("restore", second + ".lmc", "-o", back, status=1)
    check(not os.path.exists(back), "a file is left")
