"""Options, help, exit statuses."""
import hashlib
import os

from support import check, check_only, in_directory, read, small_model

COMMANDS = ("convert", "restore", "verify", "ls")


def test_help_and_version(tool, directory):
    general = tool.run("--help").expect(0).stdout
    check(tool.run("-h").expect(0).stdout == general, "-h")
    for command in COMMANDS:
        check("lmc-st " + command in general, "--help lacks " + command)
        text = tool.run(command, "--help").expect(0).stdout
        check(text.startswith("Usage: lmc-st " + command), "help of " + command)
        check(tool.run("-h", command).expect(0).stdout == text, "-h before the command")
        check(max(len(line) for line in text.splitlines()) <= 100, "help of %s is too wide" % command)
    check(tool.run("--version").expect(0).stdout.startswith("lmc-st "), "--version")


def test_wrong_usage(tool, directory):
    path = in_directory(directory, small_model())
    check(tool.run().status == 2, "no command")
    for arguments in (["frobnicate"], ["convert"], ["convert", path, path, "-o", path], ["restore"],
                      ["restore", path, path], ["convert", path, "-c", "-o", "x"], ["convert", path, "-", "-c"],
                      ["convert", path, "-c", "--rm"], ["restore", "--salvage", "--rm", path + ".lmc"],
                      ["verify", path, "--sha256", "12"], ["verify", path, path, "--sha256", "0" * 64], ["cat"],
                      ["restore", path], ["verify"], ["ls"], ["ls", path, path], ["convert", "--frob", path],
                      ["convert", "-x", path], ["convert", path, "--level"], ["convert", path, "--level", "best"],
                      ["convert", path, "-j"], ["convert", path, "-j", "x"], ["convert", path, "-j-1"],
                      ["convert", path, "-j", "257"], ["convert", path, "-j1x"], ["convert", path, "-o"],
                      ["convert", path, "--output="], ["convert", path, "--force=1"], ["ls", path, "-o", "x"],
                      ["restore", path, "--level", "fast"], ["verify", path, "-f"], ["convert", path, "--json"],
                      ["restore", ".lmc"]):
        tool.run(*arguments).expect(2, "--help")
    check_only(directory, "m.safetensors")


def test_options_anywhere(tool, directory):
    path = in_directory(directory, small_model())
    out = os.path.join(directory, "out")
    archives = []
    for arguments in (["convert", path, "-o", out], ["convert", "-o", out, path], ["-o", out, "convert", path],
                      ["convert", "-o" + out, path, "-fq"], ["convert", "--output", out, "--", path],
                      ["convert", "--output=" + out, path, "--quiet", "-j", "1"], ["convert", path, "-fqo", out],
                      ["convert", path, "--threads=2", "-qfo" + out, "--level=default"]):
        tool.run(*arguments).expect(0)
        archives.append(read(out))
        os.unlink(out)
    check(len(set(archives)) == 1, "the archives differ")
    check_only(directory, "m.safetensors")


NO_ARCHIVE = "is not an archive: its header was checked; its content has no checksums"


def test_verify_tells_what_is_no_archive(tool, directory):
    """Exit status 0 alone would say that a plain file's content was verified. With its SHA-256 it was."""
    content = small_model()
    path = in_directory(directory, content)
    tool.run("convert", path).expect(0)
    for operands in ([path], [path, path + ".lmc"], [path + ".lmc", path, "-j1"]):
        told = tool.run("verify", *operands)
        check(told.status == 0 and told.stderr == "lmc-st: %s: %s\n" % (path, NO_ARCHIVE), "told: " + told.stderr)
        tool.run("verify", "-q", *operands).expect(0)
    tool.run("verify", path, "--sha256", hashlib.sha256(content).hexdigest()).expect(0)
    tool.run("verify", path + ".lmc").expect(0)
    for rest, told in ((1, "1 of its files is not an archive"), (2, "2 of its files are not archives")):
        in_directory(directory, content, "%d.safetensors" % rest)
        root = os.path.join(directory, str(rest))
        os.mkdir(root)
        for i in range(rest):
            in_directory(root, content, "plain%d.safetensors" % i)
        in_directory(root, read(path + ".lmc"), "m.safetensors.lmc")
        in_directory(root, b"{}", "config.json")
        result = tool.run("verify", root)
        lines = result.stderr.splitlines()
        check(result.status == 0 and lines[0].startswith("lmc-st: %s: %s: " % (root, told)) and
              lines[0].endswith(" no checksums"), "told: " + result.stderr)
        check(lines[1:] == ["lmc-st: %s: 1 of its files is a copy, which was not checked" % root], result.stderr)
        tool.run("verify", "-q", root).expect(0)
        told = tool.run("verify", "-v", root).stderr
        check(told.count(": only its header verified, ") == rest and told.count(": verified, ") == 2, told)
    os.unlink(os.path.join(root, "plain0.safetensors"))
    os.unlink(os.path.join(root, "plain1.safetensors"))
    tool.run("verify", root).expect(0)  # config.json alone is not worth a line
    check("is a copy, which was not checked" in tool.run("verify", "-v", root).stderr, "-v tells all")
    in_directory(root, b"note.lmc\n", ".lmc-copied")
    in_directory(root, b"whatever", "note.lmc")
    told = tool.run("verify", root).stderr
    check(told == "lmc-st: %s: 2 of its files are copies, which were not checked\n" % root, told)


def test_verify_goes_on(tool, directory):
    path = in_directory(directory, small_model())
    tool.run("convert", path).expect(0)
    bad = in_directory(directory, b"", "bad")
    result = tool.run("verify", bad, path + ".lmc", os.path.join(directory, "absent"), path)
    check(result.status == 3, "exit %d" % result.status)
    lines = result.stderr.splitlines()
    check(len(lines) == 3 and "bad: " in lines[0] and "absent: " in lines[1] and lines[2].endswith(NO_ARCHIVE),
          "messages: " + result.stderr)
    told = tool.run("verify", "-v", path + ".lmc", path)
    check(told.status == 0 and told.stderr.count("\n") == 2 and "verified" in told.stderr, "-v: " + told.stderr)
    check(told.stderr.endswith("8 tensors, content without checksums\n"), "-v: " + told.stderr)


def test_hostile_names_in_messages(tool, directory):
    text = b'{"\\u001b[31m\\n' + b"x" * 20000 + b'":{"dtype":"U8","shape":[1],"data_offsets":[0,2]}}'
    path = in_directory(directory, len(text).to_bytes(8, "little") + text + b"ab")
    result = tool.run("convert", path).expect(1, 'tensor "\\u001b[31m\\nxxx', '..."')
    check(len(result.stderr) < 1000, "the message is too long")


def test_standard_input_that_is_not_read(tool, directory):
    path = in_directory(directory, small_model())
    for arguments in (("ls", "-"), ("info", "-"), ("diff", "-", path), ("diff", path, "-"), ("get", "-", "w"),
                      ("analyze", "-"), ("bench", "-")):
        tool.run(*arguments).expect(2, "standard input: is not read by this command")


def test_nothing_in_place_of_numbers(tool, directory):
    """A ratio to nothing; an array of nothing."""
    path = in_directory(directory, b"", "x.bin")
    tool.run("convert", "--raw", path).expect(0)
    check(tool.run("ls", path + ".lmc").expect(0).stdout.endswith(", ratio -\n"), "ls")
    check(", ratio -\n" in tool.run("info", path + ".lmc").expect(0).stdout, "info")
    check(tool.run("analyze", "--json", path + ".no").expect(3).stdout == "[]\n", "analyze")
