"""The strict reader: each file of the corpus is accepted or refused as it should be."""
import os

import header_corpus
from support import CASES, CPU_SECONDS, check, check_only, in_directory


def accept(header):
    def run(tool, directory):
        path = in_directory(directory, header.content)
        tool.run("verify", "-q", path).expect(0)
        tool.round_trip(path, "-q")  # some archives are larger
        check_only(directory, "m.safetensors", "m.safetensors.lmc")
    return run


def refuse(header):
    def run(tool, directory):
        path = in_directory(directory, header.content)
        for arguments in (("convert", path), ("verify", path), ("ls", path)):
            result = tool.run(*arguments).expect(1, header.cause, os.path.basename(path))
            check(result.cpu < CPU_SECONDS * tool.slow, "took %.1f s" % result.cpu)
        check_only(directory, "m.safetensors")
    return run


for _header in header_corpus.CASES:
    CASES.append(("headers/" + _header.name, (accept if _header.is_good else refuse)(_header)))
