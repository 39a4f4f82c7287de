"""Every constant of the wire is named in docs/format.md, and none is named there that does not exist."""

import re

NAME = re.compile(r"\bLMC_FMT_[A-Z0-9_]+\b")


def check(tree):
    defined = set(re.findall(r"^\s*#\s*define\s+(LMC_FMT_[A-Z0-9_]+)", tree.text("codec/format.h"), re.M))
    named = set(NAME.findall(tree.text("docs/format.md"))) if tree.exists("docs/format.md") else set()
    for name in sorted(defined - named):
        yield f"{name}: defined in codec/format.h, not named in docs/format.md"
    for name in sorted(named - defined):
        yield f"{name}: named in docs/format.md, not defined in codec/format.h"
    for path in tree.files(".c", ".h", under=["codec"]):
        if path != "codec/format.h" and re.search(r"^\s*#\s*define\s+LMC_FMT_", tree.text(path), re.M):
            yield f"{path}: defines a wire constant; they belong in codec/format.h"
