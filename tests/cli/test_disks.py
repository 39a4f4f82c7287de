"""Disks that fill up, size limits, streams that take nothing."""
import os
import subprocess

import pytest

from faults import Job, medium_model, prepared
from mounts import fill_up, with_small_disk
from support import check, in_directory, read, small_model, write


def run_with_space(tool, place, command, space, options, old):
    job = Job(command, tool, place)
    filler = os.path.join(place, "filler")
    job.clear(old)
    fill_up(filler, space)
    result = tool.run(*job.arguments(*options))
    os.unlink(filler)
    what = "%s %s with %d bytes free: exit %d" % (command, options, space, result.status)
    if result.status == 0:
        check(space >= len(job.wanted), what + ", more than there was room for")
        job.check_state(what, job.wanted)
    else:
        result.expect(3, "No space left on device", os.path.basename(job.output))
        job.check_state(what, old)
        check(space < len(job.wanted) + (1 << 20), what + ", though there is room")
    for name in os.listdir(place):
        os.unlink(os.path.join(place, name))


@pytest.mark.posix("mounts of this process")
@pytest.mark.parametrize("options, old", [(("-j1",), None), (("-j2",), None), (("-j1", "-f"), b"the old output")],
                         ids=["one_thread", "two_threads", "forced"])
def test_full(tool, directory, options, old):
    def run(place):
        content, archive = prepared(tool, place)
        for command, wanted in (("convert", archive), ("restore", content)):
            nbytes = len(wanted)
            for space in (0, 4096, nbytes // 8, nbytes // 2, nbytes - 4096, nbytes + 4096, nbytes + (2 << 20)):
                run_with_space(tool, place, command, space, options, old)
    with_small_disk(directory, "size=16m", run)


@pytest.mark.posix("mounts of this process")
def test_no_inodes_left(tool, directory):
    def run(place):
        path = in_directory(place, small_model())
        count = 0
        try:
            while True:
                write(os.path.join(place, "inode%d" % count), b"")
                count += 1
        except OSError:
            pass
        tool.run("convert", path).expect(3, "No space left on device", "m.safetensors.lmc")
        check(len(os.listdir(place)) == count + (not os.path.exists(os.path.join(place, "inode%d" % count))) or
              ".lmc" not in "".join(os.listdir(place)), "something is left")
        check(read(path) == small_model(), "the input was changed")
    with_small_disk(directory, "size=16m,nr_inodes=8", run)


@pytest.mark.posix("mounts of this process")
def test_read_only_file_system(tool, directory):
    """Inputs on it are fine, outputs are refused."""
    def run(place):
        path = in_directory(place, small_model())
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        tool.run("verify", "-q", path).expect(0)
        tool.run("convert", path).expect(3, "Read-only file system", "m.safetensors.lmc")
        tool.run("convert", path, "-o", os.path.join(directory, "out")).expect(0)
        check(os.listdir(place) == ["m.safetensors"], "something is left")
    with_small_disk(directory, "size=16m", run)
    os.unlink(os.path.join(directory, "out"))


@pytest.mark.posix("limits of a file's size")
def test_size_limits(tool, directory):
    """As "ulimit -f" sets them: what does not fit is refused, what fits is written."""
    for command in ("convert", "restore"):
        job = Job(command, tool, directory)
        nbytes = len(job.wanted)
        for threads in ("-j1", "-j2"):
            for limit in (0, 1, 100, 4096, 65536, nbytes // 2, nbytes - 1):
                result = tool.run(*job.arguments(threads), file_size=limit)
                result.expect(3, "File too large", os.path.basename(job.output))
                job.check_state("limit %d" % limit, None)
            tool.run(*job.arguments(threads), file_size=nbytes).expect(0)
            job.check_state("limit %d" % nbytes, job.wanted)
            job.clear()
        os.unlink(job.input)


def test_full_output_streams(tool, directory):
    """What is printed must arrive; a message that does not arrive changes no status."""
    path = in_directory(directory, medium_model())
    printing = [["ls", path], ["ls", "--json", path], ["get", path, "noise"], ["--help"], ["--version"],
                ["convert", "--help"], ["store", "add", os.path.join(directory, "store"), path],
                ["run", "add", os.path.join(directory, "run"), path, "--step", "1"]]
    for arguments in printing:
        with open("/dev/full", "wb") as full_stream:
            ended = subprocess.run([tool.path, *arguments], stdout=full_stream, stderr=subprocess.PIPE, check=False)
        told = ended.stderr.decode()
        check(ended.returncode == 3 and told.count("\n") == 1 and told.startswith("lmc-st: standard output: "),
              "%s: exit %d, message %r" % (arguments, ended.returncode, told))
        check("No space left on device" in told, "the cause is missing: %r" % told)
    for arguments, status in ((["convert", path, "-v"], 0), (["convert", path, "-v"], 2), (["verify", "-v", path], 0)):
        with open("/dev/full", "wb") as full_stream:
            ended = subprocess.run([tool.path, *arguments], stderr=full_stream, check=False)
        check(ended.returncode == status, "%s: exit %d" % (arguments, ended.returncode))
    tool.run("verify", path + ".lmc").expect(0)
