"""Models of the transformers library go through lmc-st as directories and load again as they were."""

import os
import subprocess

import pytest

from models import Seen, save_gpt2, save_llama  # first: it keeps the library offline
import safetensors
from safetensors.torch import load

FAULTS_SHOWN = 5


def check(condition, text):
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(text)


def tree(folder):
    """{path below the folder: bytes} of every file."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def check_equal(before, after):
    check(sorted(before) == sorted(after), f"other files: {sorted(set(before) ^ set(after))}")
    different = [name for name in before if before[name] != after[name]]
    check(not different, f"other bytes: {different}")


class Model:
    """A saved model in `work`/model, and the command that is tested on it."""

    def __init__(self, tool, work, save):
        self.tool = tool
        self.work = work
        self.folder = self.path("model")
        self.archives = self.folder + ".lmc"
        save(self.folder)
        self.files = tree(self.folder)
        self.seen = Seen(self.folder)

    def path(self, name):
        return os.path.join(self.work, name)

    def run(self, *arguments, status=0):
        done = subprocess.run([self.tool, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=300, errors="replace")
        check(done.returncode == status, f"{arguments}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stderr

    def convert(self):
        self.run("convert", self.folder)

    def move_away(self):
        os.rename(self.folder, self.path("away"))

    def check_loads(self, folder):
        faults = list(self.seen.differences(Seen(folder)))
        check(not faults, faults[:FAULTS_SHOWN])

    def weights(self):
        return sorted(name for name in self.files if name.endswith(".safetensors"))


@pytest.fixture
def llama(tool_path, directory):
    """Several files of weights and their index."""
    return Model(tool_path, directory, save_llama)


@pytest.fixture
def gpt2(tool_path, directory):
    """One file."""
    return Model(tool_path, directory, save_gpt2)


@pytest.fixture(params=["llama", "gpt2"])
def model(request):
    return request.getfixturevalue(request.param)


def test_load_again(model):
    """The way that the README shows: convert, remove, restore, load."""
    model.convert()
    model.move_away()
    model.run("restore", model.archives)
    check_equal(model.files, tree(model.folder))
    model.check_loads(model.folder)


def test_what_is_written(model):
    """Archives for the weights, copies of the rest; the original is untouched."""
    model.convert()
    check_equal(model.files, tree(model.folder))
    written = tree(model.archives)
    for name, content in model.files.items():
        if name in model.weights():
            check(name not in written, f"{name} would be taken for weights")
            check(len(written[name + ".lmc"]) < len(content), f"{name}.lmc is not smaller")
        else:
            check(written[name] == content, f"{name} is no copy")
    check(len(written) == len(model.files), f"{sorted(written)}")
    check(sorted(os.listdir(model.work)) == ["model", "model.lmc"], f"left behind: {os.listdir(model.work)}")


def test_archives_are_no_model(model):
    """transformers must not take frames for weights."""
    model.convert()
    model.move_away()
    try:
        Seen(model.archives)
    except (OSError, ValueError, safetensors.SafetensorError):
        return
    check(False, "transformers has loaded the archives")


def test_other_names(model):
    model.run("convert", model.folder, "-o", model.path("small"))
    model.run("restore", model.path("small"), "-o", model.path("back"))
    check_equal(model.files, tree(model.path("back")))
    model.check_loads(model.path("back"))


def test_verified(model):
    model.convert()
    model.run("verify", model.archives)


def test_one_at_a_time(model):
    """With --rm only one of the two directories is there after each step."""
    model.run("convert", "--rm", model.folder)
    check(os.listdir(model.work) == ["model.lmc"], f"left: {os.listdir(model.work)}")
    model.run("restore", "--rm", model.archives)
    check(os.listdir(model.work) == ["model"], f"left: {os.listdir(model.work)}")
    check_equal(model.files, tree(model.folder))
    model.check_loads(model.folder)


def test_without_restoring(model):
    """What `cat` writes is loaded from memory, file by file."""
    model.convert()
    for name in model.weights():
        done = subprocess.run([model.tool, "cat", os.path.join(model.archives, name + ".lmc")], capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=300)
        check(done.returncode == 0, f"cat: exit {done.returncode}: {done.stderr}")
        for tensor, values in load(done.stdout).items():
            check(values.equal(model.seen.weights[tensor]), f"{name}: {tensor} differs")


def test_mounted(model):
    """transformers and safetensors, which maps files, load what `lmc-st mount` shows."""
    model.convert()
    place = model.path("mounted")
    os.mkdir(place)
    done = subprocess.run([model.tool, "mount", model.archives, place], capture_output=True, text=True, timeout=300)
    if done.returncode == 3:
        pytest.skip("nothing can be mounted here: " + done.stderr)
    check(done.returncode == 0, f"mount: exit {done.returncode}: {done.stderr}")
    try:
        check_equal(tree(model.folder), tree(place))
        model.check_loads(place)
        for name in model.weights():
            with safetensors.safe_open(os.path.join(place, name), "pt") as file:
                for tensor in file.keys():
                    check(file.get_tensor(tensor).equal(model.seen.weights[tensor]), f"{name}: {tensor} differs")
    finally:
        file = None  # what is mapped is in use
        done = subprocess.run([model.tool, "unmount", place], capture_output=True, text=True, timeout=300)
    check(done.returncode == 0, f"unmount: exit {done.returncode}: {done.stderr}")


def test_damaged(model):
    """One flipped bit in the last archive: nothing is restored, and the file is named."""
    model.convert()
    model.move_away()
    name = model.weights()[-1] + ".lmc"
    with open(os.path.join(model.archives, name), "r+b") as file:
        file.seek(-200, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-200, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
    message = model.run("restore", model.archives, status=1)
    check(name in message, f"message: {message}")
    check(not os.path.exists(model.folder), "a directory is left after a failure")


def test_as_the_hub_caches_it(model):
    """A snapshot of the hub's cache: links to files that are named after their hashes."""
    blobs, snapshot = model.path("blobs"), os.path.join(model.path("snapshots"), "0123abcd")
    os.makedirs(snapshot)
    os.rename(model.folder, blobs)
    for number, name in enumerate(sorted(model.files)):
        os.rename(os.path.join(blobs, name), os.path.join(blobs, str(number)))
        os.symlink(os.path.join("..", "..", "blobs", str(number)), os.path.join(snapshot, name))
    model.run("convert", snapshot, "-o", model.path("small"))
    model.run("restore", model.path("small"), "-o", model.path("back"))
    check_equal(model.files, tree(model.path("back")))
    model.check_loads(model.path("back"))


def test_several_files(llama):
    """The model is what this test is about: several files of weights and their index."""
    check(len(llama.weights()) >= 3, f"weights: {llama.weights()}")
    check("model.safetensors.index.json" in llama.files, f"files: {sorted(llama.files)}")


def test_one_file(gpt2):
    check(gpt2.weights() == ["model.safetensors"], f"weights: {gpt2.weights()}")


def test_without_a_part(llama):
    """An index names a file that is not there: the file is named and nothing is written."""
    missing = llama.weights()[1]
    os.unlink(os.path.join(llama.folder, missing))
    message = llama.run("convert", llama.folder, status=1)
    check(missing in message, f"message: {message}")
    check(os.listdir(llama.work) == ["model"], f"left behind: {os.listdir(llama.work)}")
