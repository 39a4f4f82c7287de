"""Standard input and output as files, and --rm, on bad days."""
import errno
import fcntl
import os
import signal
import subprocess
import threading
import time

import pytest

from faults import STOP, Faults, Job, allowed_statuses, moments, prepared, resume
from folders import FolderJob, tree
from support import check, check_only, in_directory, model, read, small_model, write

COMMANDS = ("convert", "restore")


def spooled(tool, directory, command):
    """Content, what is to be made of it, and the environment of a run that spools in `directory`."""
    content, archive = prepared(tool, directory)
    given, wanted = (content, archive) if command == "convert" else (archive, content)
    return given, wanted, {**os.environ, "TMPDIR": directory}


def run_stream(tool, arguments, given, environment):
    ended = subprocess.run([tool.path, *arguments], input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=environment, check=False)
    return ended.returncode, ended.stdout, ended.stderr.decode()


def is_one_message(message):
    return message.startswith("lmc-st: ") and message.count("\n") == 1 and message.endswith("\n")


def test_slow_pipes(tool, directory):
    """Bytes that come and go in small pieces, with pauses."""
    for command in COMMANDS:
        given, wanted, environment = spooled(tool, directory, command)
        process = subprocess.Popen([tool.path, command, "-", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=environment)

        def feed(process=process, given=given):
            for at in range(0, len(given), 70001):
                process.stdin.write(given[at:at + 70001])
                process.stdin.flush()
            process.stdin.close()
        feeder = threading.Thread(target=feed)
        feeder.start()
        made = b""
        while piece := os.read(process.stdout.fileno(), 50021):
            made += piece
        feeder.join()
        process.stdout.close()
        check(process.wait() == 0 and made == wanted, "%s: exit %d" % (command, process.returncode))


def end_waiting(process, number, what):
    """A signal ends the tool, whatever it waits for."""
    process.send_signal(number)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        check(False, "signal %d did not end the tool, %s" % (number, what))
    finally:
        message = process.communicate()[1].decode()
    check(process.returncode == 128 + number, "%s: exit %d: %s" % (what, process.returncode, message))


@pytest.mark.posix("signals")
@pytest.mark.parametrize("given", [b"", small_model()[:100]], ids=["nothing", "a_part"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_waiting_streams_can_be_ended(tool, directory, number, given):
    process = subprocess.Popen([tool.path, "convert", "-", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": directory})
    process.stdin.write(given)
    process.stdin.flush()
    time.sleep(0.2)  # until it waits; if it does not yet, the case is easier to pass
    end_waiting(process, number, "standard input")
    check_only(directory)


@pytest.mark.posix("signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("arguments", [["restore", "large.lmc", "-c"], ["get", "large", "large"], ["ls", "many"],
                                       ["ls", "--json", "many"], ["diff", "many", "large"]], ids=" ".join)
def test_stalled_reader_can_be_left(tool, directory, arguments, number):
    """A signal ends the tool also while nobody takes what it writes."""
    large = in_directory(directory, model([("large", "U8", [1 << 20], bytes(1 << 20))]), "large")
    in_directory(directory, model([("layer.%05d.weight" % i, "U8", [1], b"x") for i in range(4000)]), "many")
    tool.run("convert", large).expect(0)
    process = subprocess.Popen([tool.path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, cwd=directory)
    time.sleep(0.3 * tool.slow ** 0.5)  # the pipe is full by now
    end_waiting(process, number, "standard output")
    check_only(directory, "large", "large.lmc", "many")


@pytest.mark.posix("closed standard streams")
def test_full_and_closed_output(tool, directory):
    for command in COMMANDS:
        given, _, environment = spooled(tool, directory, command)
        name = "m.safetensors" if command == "convert" else "m.safetensors.lmc"
        path = in_directory(directory, given, name)
        for redirection, cause in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
            for source in ((path, "-c"), ("-",)):
                ended = subprocess.run(["sh", "-c", 'exec "$@" ' + redirection, "sh", tool.path, command, *source],
                                       input=given, stderr=subprocess.PIPE, env=environment, check=False)
                message = ended.stderr.decode()
                check(ended.returncode == 3 and is_one_message(message) and cause in message,
                      "%s %s %s: exit %d: %s" % (command, source[-1], redirection, ended.returncode, message))
        check(read(path) == given, "the input was changed")
        check_only(directory, name)
        os.unlink(path)


def test_closed_input(tool, directory):
    for command in COMMANDS:
        out = os.path.join(directory, "out")
        for arguments in ((command, "-", "-c"), (command, "-", "-o", out)):
            ended = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", tool.path, *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            message = ended.stderr.decode()
            check(ended.returncode == 3 and is_one_message(message) and "standard input" in message
                  and ended.stdout == b"", "%s: exit %d: %s" % (arguments, ended.returncode, message))
    check_only(directory)


def test_streams_that_do_not_wait(tool, directory):
    """Another program has set O_NONBLOCK on the tool's ends of the pipes."""
    for command in COMMANDS:
        given, wanted, environment = spooled(tool, directory, command)
        from_us, to_tool = os.pipe()
        from_tool, to_us = os.pipe()
        for end in (from_us, to_us):
            fcntl.fcntl(end, fcntl.F_SETFL, fcntl.fcntl(end, fcntl.F_GETFL) | os.O_NONBLOCK)
        process = subprocess.Popen([tool.path, command, "-", "-c"], stdin=from_us, stdout=to_us, env=environment)
        os.close(from_us)
        os.close(to_us)
        with os.fdopen(to_tool, "wb") as pipe:
            pipe.write(given[:1000])
            pipe.flush()
            time.sleep(0.1)  # for the tool to find the pipe empty
            pipe.write(given[1000:])
        with os.fdopen(from_tool, "rb") as pipe:
            time.sleep(0.1)  # and full
            made = pipe.read()
        check(process.wait() == 0 and made == wanted, "%s: exit %d" % (command, process.returncode))


def test_spool_directory_is_full(tool, directory):
    """Files for bytes on their way cannot grow: exit 3, nothing left."""
    faults = Faults(tool, directory)
    for command in COMMANDS:
        given, _, environment = spooled(tool, faults.directory, command)
        for call in ("write:1", "write:9", "pwrite:1"):
            environment.update(faults.environment("%s:0:e%d" % (call, errno.ENOSPC)))
            status, _, message = run_stream(tool, [command, "-", "-c"], given, environment)
            hits = faults.take_hits()
            check(status == 3 if hits else status == 0, "%s, %s: exit %d: %s" % (command, call, status, message))
            check(not hits or (is_one_message(message) and "No space left" in message), "message: " + message)
            check(hits or call != "write:1", "no write was seen")
    check_only(faults.directory)


def test_killed_streams_leave_nothing(tool, directory):
    faults = Faults(tool, directory)
    for command in COMMANDS:
        given, _, environment = spooled(tool, faults.directory, command)
        environment.update(faults.environment("any:1:0:s0"))
        status, _, _ = run_stream(tool, [command, "-", "-c"], given, environment)
        calls = faults.take_hits()
        check(status == 0 and len(calls) > 5, "exit %d, calls: %s" % (status, calls))
        for occurrence in moments(calls):
            environment.update(faults.environment("any:%d:1:s9" % occurrence))
            process = subprocess.run([tool.path, command, "-", "-c"], input=given, stdout=subprocess.DEVNULL,
                                     env=environment, check=False)
            faults.take_hits()
            check(process.returncode in (0, -9), "exit %d" % process.returncode)
            check_only(faults.directory)


# ---- --rm ----

def holds(path, wanted):
    """1 if the file or tree is there and whole."""
    if isinstance(wanted, dict):
        return os.path.isdir(path) and tree(path) == wanted
    return os.path.isfile(path) and read(path) == wanted


def check_not_lost(job, what):
    check(holds(job.input, job.given) or holds(job.output, job.wanted), what + ": neither input nor output is whole")



def ends_in_the_midst(job, call):
    """A call that removing the parts of an input takes: a directory can be half gone, once its output is whole."""
    return call in ("unlink", "rmdir") or (call == "open" and isinstance(job, FolderJob))


@pytest.mark.parametrize("call, number", [("pread", errno.EIO), ("open", errno.EMFILE), ("fstat", errno.EIO),
                                          ("alloc", errno.ENOMEM), ("unlink", errno.EACCES)])
@pytest.mark.parametrize("kind", [Job, FolderJob])
@pytest.mark.parametrize("command", COMMANDS)
def test_rm_with_faults(tool, directory, command, kind, call, number):
    """Input and output may never both be damaged; the input goes only after a run without faults."""
    faults = Faults(tool, directory)
    job = kind(command, tool, faults.directory)
    occurrence = 1
    while True:
        job.renew()
        result, hits = faults.run("%s:%d:1:e%d" % (call, occurrence, number),
                                  *job.arguments("-j1", "--rm", "--no-fsync"))
        what = "%s --rm, %s no. %d: exit %d: %s" % (command, call, occurrence, result.status, result.stderr)
        check_not_lost(job, what)
        if not hits:
            break
        check(result.status in (0, 1, 2, 3), what)
        if result.status == 0:
            check(holds(job.output, job.wanted) and not os.path.lexists(job.input), what)
        elif not holds(job.output, job.wanted) or not ends_in_the_midst(job, call):
            check(holds(job.input, job.given), what + "the input is gone or damaged")
        check(call != "pread" or result.status == 3, what + "was not noticed")
        occurrence += 1 + occurrence // 10
    check(occurrence > 1 and result.status == 0 and not os.path.lexists(job.input), what)


@pytest.mark.parametrize("kind", [Job, pytest.param(FolderJob, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", COMMANDS)
def test_rm_killed(tool, directory, command, kind):
    faults = Faults(tool, directory)
    job = kind(command, tool, faults.directory)
    arguments = job.arguments("-j1", "--rm", "--no-fsync")
    job.renew()
    result, calls = faults.run("any:1:0:s0", *arguments)
    check(result.status == 0, "exit %d" % result.status)
    for occurrence in moments(calls)[::1 if kind is Job else 10]:
        for number in (signal.SIGKILL, signal.SIGTERM):
            job.renew()
            result, _ = faults.run("any:%d:1:s%d" % (occurrence, number), *arguments)
            what = "%s --rm, signal %d before call %d: exit %d" % (command, number, occurrence, result.status)
            check(result.status in allowed_statuses(number), what + result.stderr)
            check_not_lost(job, what)


def test_rm_compares(tool, directory):
    """The output is damaged, or the input changes, before it is read back: the input stays."""
    faults = Faults(tool, directory)
    for command in COMMANDS:
        for change in ("output", "input"):
            job = Job(command, tool, faults.directory)
            result, calls = faults.run("any:1:0:s0", *job.arguments("-j1", "--rm"))
            check(result.status == 0, "exit %d" % result.status)
            job.renew()
            named = len(calls) - calls[::-1].index("link")
            process = faults.stopped("any:%d:1:%s" % (named + 1, STOP), *job.arguments("-j1", "--rm"))
            path = job.output if change == "output" else job.input
            content = read(path)
            changed = content[:-1] + bytes([content[-1] ^ 1])
            write(path, changed)
            status, message = resume(process)
            what = "%s --rm, %s changed: exit %d: %s" % (command, change, status, message)
            check(status in (1, 3) and is_one_message(message), what)
            check(read(job.input) == (changed if change == "input" else job.given), what)
            os.unlink(job.input)
            job.clear()


@pytest.mark.posix("links")
def test_rm_of_links(tool, directory):
    """The name given is removed; other names of the file and what a link leads to stay."""
    content = small_model()
    path = in_directory(directory, content)
    link, hard = os.path.join(directory, "link"), os.path.join(directory, "hard")
    os.symlink("m.safetensors", link)
    os.link(path, hard)
    tool.run("convert", link, "--rm").expect(0)
    check_only(directory, "m.safetensors", "hard", "link.lmc")
    tool.run("convert", hard, "--rm").expect(0)
    check_only(directory, "m.safetensors", "hard.lmc", "link.lmc")
    check(read(path) == content, "the file was changed")


def test_rm_is_refused(tool, directory):
    """Without an output of its own there is nothing to rely on."""
    path = in_directory(directory, small_model())
    write(path + ".lmc", b"mine")
    tool.run("convert", path, "--rm").expect(2, "exists already")
    tool.run("convert", path, "--rm", "-c").expect(2)
    tool.run("convert", "-", "--rm", "-o", path + ".x").expect(2)
    check(read(path) == small_model() and read(path + ".lmc") == b"mine", "the files were changed")
    check_only(directory, "m.safetensors", "m.safetensors.lmc")


@pytest.mark.parametrize("number", [errno.EIO, errno.EDQUOT])
def test_standard_output_is_closed_with_an_error(tool, directory, number):
    """A file system over a network may tell only then that it has not stored what was written."""
    _, archive = prepared(tool, directory)
    faults = Faults(tool, os.path.join(directory, "place"))
    os.mkdir(faults.directory)
    source = in_directory(directory, archive, "m.lmc")
    for arguments in (["cat", source], ["restore", source, "-c"], ["ls", source], ["--help"]):
        with open(os.path.join(faults.directory, "out"), "wb") as out:
            ended = subprocess.run([tool.path, *arguments], stdout=out, stderr=subprocess.PIPE, check=False,
                                   env={**os.environ, **faults.environment("close:1:1:e%d" % number)})
        message = ended.stderr.decode()
        check(ended.returncode == 3 and message.count("\n") == 1, "%s: %d: %s" % (arguments, ended.returncode, message))
        check("standard output" in message and os.strerror(number) in message, message)
        check(faults.take_hits() == ["close"], "another file was closed")
