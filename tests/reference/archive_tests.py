"""archive_tests.py - the reference reader of archives beside lmc-st: the worked example of docs/archive.md, archives
that lmc-st makes of files generated here, archives put together by hand, and damaged ones. Both must give back
the same file, or both refuse."""

import os
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import archive_base_cases
import archive_base_tests
import archive_cases
import lmc_archive
from archive_files import files
from lmc_archive_base import in_directories
from lmc_reference import LmcError

EXAMPLE_CONTENT = b'8\0\0\0\0\0\0\0{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}   abcd'


class Tool:
    """lmc-st, with a folder for what it reads and writes."""

    def __init__(self, build, directory):
        self.path = os.path.join(build, "tool", "lmc-st")
        self.directory = directory

    def run(self, *arguments):
        return subprocess.run([self.path, *arguments], stdin=subprocess.DEVNULL, capture_output=True)

    def file(self, name, data):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def convert(self, data, level):
        done = self.run("convert", "-c", "--level", level, self.file("made.safetensors", data))
        if done.returncode != 0:
            raise ValueError(f"convert: {done.stderr.decode()}")
        return done.stdout

    def verdict(self, archive, name="case.lmc"):
        return self.run("verify", self.file(name, archive)).returncode


def example(text):
    """The bytes of section 6."""
    section = re.search(r"^## 7\. Example$(.*)", text, re.M | re.S).group(1)
    listing = re.search(r"^```\n(.*?)^```$", section, re.M | re.S).group(1)
    data = bytearray()
    for line in listing.splitlines():
        offset, _, line_bytes = line.partition(" ")
        if int(offset, 16) != len(data):
            raise ValueError(f"this line is at {len(data):x}: {line}")
        data += bytes.fromhex(line_bytes)
    return bytes(data)


def restores(archive, original):
    restored = lmc_archive.restore(archive)
    if restored != original:
        return f"{len(restored)} other bytes than the {len(original)} of the original"


def converted(tool, name, original, level, methods):
    archive = tool.convert(original, level)
    table = lmc_archive.opened(archive).table
    methods.add(("method", table.method))
    methods.add(("aliases", bool(table.owners)))
    return restores(archive, original) or (None if tool.verdict(archive) == 0 else f"verify refuses {name}")


def forged(tool, archive, original):
    """Both verdicts, and what both restore, are right."""
    try:
        restored, reason = lmc_archive.restore(archive), None
    except LmcError as error:
        restored, reason = None, f"{type(error).__name__}: {error}"
    done = tool.run("verify", tool.file("case.lmc", archive))
    wrong = []
    if restored != original:
        wrong.append(f"the reference reader: {reason or 'accepts it'}")
    if done.returncode != (1 if original is None else 0):
        wrong.append(f"lmc-st verify: {done.returncode} {done.stderr.decode(errors='replace')}")
    if original is not None and tool.run("cat", os.path.join(tool.directory, "case.lmc")).stdout != original:
        wrong.append("lmc-st cat gives something else")
    return "; ".join(wrong) or None


def refused_by_both(tool, archives):
    """What is wrong with `archives`, of (what, bytes) each, none of which may be accepted. Bases are in the folder."""
    find_base = in_directories([tool.directory])

    def judge(item):
        number, (what, archive) = item
        try:
            lmc_archive.restore(archive, find_base)
            return f"{what}: the reference reader accepts it"
        except LmcError:
            pass
        status = tool.verdict(archive, f"{number}.lmc")
        os.remove(os.path.join(tool.directory, f"{number}.lmc"))
        return None if status == 1 else f"{what}: lmc-st verify: {status}"

    with ThreadPoolExecutor(2) as pool:
        wrong = [result for result in pool.map(judge, enumerate(archives)) if result]
    return f"{len(wrong)} of {len(archives)}: " + "; ".join(wrong[:5]) if wrong else None


def with_bit_turned(archive, rng):
    for i in range(len(archive)):
        turned = bytearray(archive)
        turned[i] ^= 1 << rng.randrange(8)
        yield f"byte {i} is {turned[i]:#04x}", bytes(turned)


def cut(archive):
    return [(f"the first {nbytes} bytes", archive[:nbytes]) for nbytes in range(len(archive))]


def run(tests, build, directory, seed, document):
    tool = Tool(build, directory)
    rng = random.Random(seed)
    worked = example(document)
    tests.test("docs/archive.md: example", restores, worked, EXAMPLE_CONTENT)
    tests.test("docs/archive.md: example, lmc-st", forged, tool, worked, EXAMPLE_CONTENT)
    tests.test("docs/archive.md: what lmc-st makes of its file", restores,
               tool.convert(EXAMPLE_CONTENT, "default"), EXAMPLE_CONTENT)

    seen = set()
    for name, original in files(rng):
        for level in ("default", "fast", "max"):
            tests.test(f"archive of {name}, level {level}", converted, tool, name, original, level, seen)
    wanted = {("method", 0), ("method", 1), ("aliases", False), ("aliases", True)}
    tests.test("archives: methods and aliases", lambda: None if seen == wanted else str(wanted ^ seen))

    for name, archive, original in archive_cases.cases():
        tests.test(f"forged archive {name}", forged, tool, archive, original)

    with_aliases = archive_cases.five(method=1).build()
    _, with_base, _, files_of_base = archive_base_cases.aliased().good("all kinds of links")
    for name, data in files_of_base.items():
        tool.file(name, data)
    wholes = (("the example", worked), ("one with aliases", with_aliases), ("one with a base", with_base))
    for what, archive in wholes:
        tests.test(f"archives: a bit of every byte of {what}", refused_by_both, tool,
                   list(with_bit_turned(archive, rng)))
        tests.test(f"archives: every beginning of {what}", refused_by_both, tool, cut(archive))
    archive_base_tests.run(tests, tool, seed)
