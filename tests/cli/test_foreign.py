"""Files that were cut short, or lengthened; commands for files of the other kind."""
import struct

from support import check, check_only, in_directory, read, small_model, write


def test_truncated_downloads(tool, directory):
    """The number of missing bytes is told; of a file cut within its header, at least that it was."""
    content = small_model()
    header_end = 8 + struct.unpack("<Q", content[:8])[0]
    for nbytes in (header_end, header_end + 1, header_end + 1000, len(content) - 1):
        path = in_directory(directory, content[:nbytes])
        for command in ("convert", "verify", "ls"):
            tool.run(command, path).expect(1, "%d bytes" % (len(content) - nbytes), "missing")
    for nbytes in (9, 20, header_end - 1):
        path = in_directory(directory, content[:nbytes])
        for command in ("convert", "verify", "ls"):
            tool.run(command, path).expect(1, "cut short within its header", "%d bytes" % (header_end - nbytes))
    check_only(directory, "m.safetensors")


def test_truncated_archives(tool, directory):
    path = in_directory(directory, small_model())
    tool.run("convert", path).expect(0)
    archive = read(path + ".lmc")
    for missing in (1, 100, 3000):
        write(path + ".lmc", archive[:-missing])
        for arguments in (("restore", path + ".lmc", "-f"), ("verify", path + ".lmc")):
            tool.run(*arguments).expect(1, "m.safetensors.lmc", "%d bytes" % missing, "missing")
    check(read(path) == small_model(), "the original was changed")


def test_preallocated_download(tool, directory):
    """The right size, but zeros from the start, or zeros in place of the header."""
    content = small_model()
    for start in (bytes(8), content[:8] + bytes(100)):
        path = in_directory(directory, start + bytes(len(content) - len(start)))
        tool.run("convert", path).expect(1, "m.safetensors: ")
    check_only(directory, "m.safetensors")


def test_wrong_command_for_the_file(tool, directory):
    """Archives to convert, plain files to restore: told apart."""
    path = in_directory(directory, small_model())
    tool.run("convert", path).expect(0)
    tool.run("convert", path + ".lmc").expect(1, "LMC archive already")
    tool.run("restore", path, "-o", path + ".back").expect(1, "plain safetensors file")
    check_only(directory, "m.safetensors", "m.safetensors.lmc")
