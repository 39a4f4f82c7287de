"""Help, the manual page, and the completions, which are run in their shells."""
import json
import os
import shutil
import subprocess

import pytest

from support import check, in_directory, model, read, small_model

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tool")
COMPLETIONS = os.path.join(SOURCES, "completions")
COMMANDS = "analyze bench cat convert diff doctor get help info ls mount restore run store unmount verify".split()
RUN_COMMANDS = "add diff drop get info keep ls repair restore verify watch".split()
STORE_COMMANDS = "add drop get info ls plan repair restore verify".split()
SHELL_SECONDS = 60


def need(program):
    if shutil.which(program) is None:
        pytest.skip("needs " + program)


def run_quietly(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=SHELL_SECONDS, check=False, **options)
    return done.returncode, done.stdout.decode("utf-8", "replace")


# ---- help ----

def test_help_is_a_command(tool, directory):
    check(tool.run("help").expect(0).stdout == tool.run("--help").stdout, "lmc-st help")
    for command in COMMANDS:
        if command != "help":
            told = tool.run("help", command).expect(0).stdout
            check(told == tool.run(command, "--help").stdout, "lmc-st help " + command)
    for group, commands in (("run", RUN_COMMANDS), ("store", STORE_COMMANDS)):
        for command in commands:
            told = tool.run("help", group, command).expect(0).stdout
            check(told == tool.run(group, command, "--help").stdout, "lmc-st help %s %s" % (group, command))
    tool.run("help", "frobnicate").expect(2, "frobnicate")


def test_get_to_standard_output_by_name(tool, directory):
    path = in_directory(directory, small_model())
    name = tensor_names(tool, path)[0]
    plain = tool.run("get", path, name, cwd=directory).expect(0).stdout
    check(tool.run("get", path, name, "-o", "-", cwd=directory).expect(0).stdout == plain, "-o -")
    check(not os.path.exists(os.path.join(directory, "-")), "a file named - was written")


# ---- the manual page ----

def test_manual_is_well_formed(tool, directory):
    manual = os.path.join(SOURCES, "lmc-st.1")
    tried = 0
    for command in (["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-man", "-Tascii", "-ww", "-z"]):
        if shutil.which(command[0]) is not None:
            status, told = run_quietly(*command, manual)
            check(status == 0 and told == "", "%s: %s" % (command[0], told))
            tried += 1
    if tried == 0:
        pytest.skip("needs mandoc or groff")


# ---- completions ----

def tensor_names(tool, path):
    return [tensor["name"] for tensor in json.loads(tool.run("ls", "--json", path).expect(0).stdout)]


HOSTILE = "$(touch owned) a b"  # a name that must stay text
FILES = ["plain.safetensors", "two words.safetensors", "small.lmc", "other.txt", "data.h5"]

# words of a line, of which the last one is completed; what must be offered
EXPECTED = (
    (["con"], ["convert"]),
    ([""], COMMANDS),
    (["help", "d"], ["diff", "doctor"]),
    (["doctor", "da"], []),
    (["convert", ""], ["folder", "plain.safetensors", "store", "two words.safetensors"]),
    (["convert", "-j", "2", "pl"], ["plain.safetensors"]),
    (["restore", ""], ["folder", "small.lmc", "store"]),
    (["ls", "small.lmc", ""], []),
    (["diff", "small.lmc", "pl"], ["plain.safetensors"]),
    (["convert", "--le"], ["--level"]),
    (["restore", "--sa"], ["--salvage"]),
    (["convert", "--level", ""], ["default", "fast", "max"]),
    (["convert", "--bas"], ["--base", "--base-dir"]),
    (["restore", "--base", "pl"], ["plain.safetensors"]),
    (["get", "--base-dir", "fo"], ["folder"]),
    (["get", "small.lmc", "la"], ["layer.0", "layer.1"]),
    (["get", "-f", "small.lmc", "$"], [HOSTILE]),
    (["get", "small.lmc", "layer.0", ""], []),
    (["run", ""], RUN_COMMANDS),
    (["run", "re"], ["repair", "restore"]),
    (["run", "add", "--ke"], ["--key-every"]),
    (["run", "ls", ""], ["folder", "store"]),
    (["run", "add", "folder", "pl"], ["plain.safetensors"]),
    (["run", "restore", "folder", ""], ["30", "3010"]),
    (["run", "keep", "--last", "3", "fo"], ["folder"]),
    (["run", "watch", "folder", "fo"], ["folder"]),
    (["run", "watch", "--se"], ["--settle"]),
    (["run", "watch", "--settle", "2.5", "fo"], ["folder"]),
    (["mount", "sm"], ["small.lmc"]),
    (["mount", "small.lmc", "fo"], ["folder"]),
    (["mount", "--fore"], ["--foreground"]),
    (["unmount", "fo"], ["folder"]),
    (["store", ""], STORE_COMMANDS),
    (["help", "store", "re"], ["repair", "restore"]),
    (["store", "add", "--de"], ["--depth"]),
    (["store", "ls", "st"], ["store"]),
    (["store", "add", "store", "pl"], ["plain.safetensors"]),
    (["store", "restore", "store", "o"], ["org/model@1", "org/other"]),
    (["store", "drop", "store", "org/other", "$"], [HOSTILE]),
    (["store", "get", "store", "org/other", ""], []),
)


def prepare(tool, directory):
    """A folder to complete names of, and the environment that finds the tool."""
    place = os.path.join(directory, "place")
    programs = os.path.join(directory, "programs")
    for step in ("30", "3010", "other"):
        os.makedirs(os.path.join(place, "folder", step))
    os.mkdir(programs)
    os.symlink(tool.path, os.path.join(programs, "lmc-st"))
    for name in FILES:
        in_directory(place, b"", name)
    names = ["layer.0", "layer.1", "embed", HOSTILE, "not \"this\" one"]
    source = in_directory(directory, model([(name, "U8", [4], b"abcd") for name in names]))
    tool.run("convert", source, "-f", "-o", os.path.join(place, "small.lmc")).expect(0)
    for name in ("org/model@1", "org/other", HOSTILE):
        tool.run("store", "add", os.path.join(place, "store"), source, "--as", name).expect(0)
    environment = {**os.environ, "PATH": programs + os.pathsep + os.environ["PATH"], "HOME": directory,
                   "LC_ALL": "C"}
    return place, environment


def compare(offer, place, is_exact=lambda words: True):
    """offer(words) returns the lines that the shell's completion offers."""
    for words, expected in EXPECTED:
        offered = {line.rstrip("/") for line in offer(words)}
        right = offered == set(expected) if is_exact(words) else offered >= set(expected)
        check(right, "%s: offered %s, not %s" % (words, sorted(offered), sorted(expected)))
    check(not os.path.exists(os.path.join(place, "owned")), "a name was expanded")


def quoted(word):
    """As it stands on the line."""
    return word if word.isalnum() or word == "" else "".join("\\" + c if c in "$() " else c for c in word)


def test_bash_completion(tool, directory):
    need("bash")
    place, environment = prepare(tool, directory)
    script = os.path.join(COMPLETIONS, "lmc-st.bash")

    def offer(words):
        status, told = run_quietly("bash", "--norc", os.path.join(HERE, "complete.bash"), script,
                                   *map(quoted, words), cwd=place, env=environment)
        check(status == 0, "bash: " + told)
        return [line.replace("\\", "") for line in told.splitlines()]

    compare(offer, place)


@pytest.mark.slow
def test_zsh_completion(tool, directory):
    need("zsh")
    place, environment = prepare(tool, directory)
    found = os.path.join(directory, "found")

    def offer(words):
        status, told = run_quietly("zsh", "-f", os.path.join(HERE, "complete.zsh"), COMPLETIONS,
                                   " ".join(["lmc-st", *map(quoted, words)]), found, cwd=place, env=environment)
        if status == 77:
            pytest.skip("zsh has no pseudo terminals here")
        lines = read(found).decode("utf-8").splitlines()
        check(status == 0 and lines[-1:] == ["END"], "zsh: %d %s %s" % (status, told, lines))
        # where no operand can follow, zsh offers options without being asked
        return [line.replace("\\", "") for line in lines[:-1]
                if words[-1].startswith("-") or not line.startswith("-")]

    compare(offer, place)


def test_names_that_no_terminal_should_get(tool, directory):
    """Names of tensors are untrusted: one that would move the cursor or reorder text is not offered."""
    names = ["tab\t", "line\n", "escape\x1b[2J", "c1\u009b2J", "delete\x7f", "turned\u202e", "wide\ufeff"]
    kept = ["layer\u00e9", "quoted\"\\"]
    path = in_directory(directory, model([(name, "U8", [1], b"x") for name in names + kept]))
    told = tool.run("__complete", "get", path, "").expect(0).stdout.splitlines()[1:]
    check(sorted(line.split("\t")[0] for line in told) == sorted(kept), str(told))


def test_fish_completion(tool, directory):
    need("fish")
    place, environment = prepare(tool, directory)
    script = os.path.join(COMPLETIONS, "lmc-st.fish")

    def offer(words):
        line = " ".join(["lmc-st", *map(quoted, words)])
        status, told = run_quietly("fish", "--no-config", "-c", 'source $argv[1]; complete -C "$argv[2]"', script,
                                   line, cwd=place, env=environment)
        check(status == 0, "fish: " + told)
        return [line.split("\t")[0] for line in told.splitlines()]

    # fish offers files of the right kind first, then the others
    compare(offer, place, lambda words: words[0] not in ("convert", "restore", "diff") or words[-1].startswith("-"))
