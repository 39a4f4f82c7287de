"""What the project writes of its own files is there: links between documents, and paths in documents and comments."""

import os
import re

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
ENDINGS = "c|h|cuh?|py|md|sh|cmake|tsv|in|svg|map|toml|txt|ini"
# A path has a slash, and ends as a source file does. Before it stands nothing that makes it a part of something else.
PATH = re.compile(rf"(?<![\w./$~*}}>-])((?:[A-Za-z_][\w-]*/)+[A-Za-z_][\w.-]*\.(?:{ENDINGS}))(?![\w*/-]|\.\w)")
# The name of a C file alone, in a comment or a document of C.
NAME = re.compile(r"(?<![\w./$~*<>{}-])([a-z][a-z0-9_]*\.(?:c|h|cuh?))(?![\w*/-]|\.\w)")
HEAD = re.compile(r"/\*(?:\n \*)? (\S+\.(?:c|h|cuh?)) - ")
COMMENT = {".c": r"/\*.*?\*/", ".h": r"/\*.*?\*/", ".cu": r"/\*.*?\*/|//[^\n]*", ".cuh": r"/\*.*?\*/|//[^\n]*",
           ".py": r'"""[\s\S]*?"""|#[^\n]*', ".sh": r"^\s*#[^\n]*", ".txt": r"^\s*#[^\n]*", ".cmake": r"^\s*#[^\n]*",
           ".md": r"[\s\S]+"}
# Files of others, of systems, of a build, and those that an example of a document makes.
FOREIGN = re.compile(r"^(?:xxhash|cuda|nvrtc|hdf5|H5\w*|immintrin|arm_neon|stdio|stdint|stdlib|stddef|string|unistd|"
                     r"fcntl|pthread|windows|cJSON|sqlite3|zstd|"
                     r"CUnit/.*|sys/.*|build/.*|install/.*|third_party/.*|doc/xxhash_spec)\b")
PLACEHOLDER = re.compile(r"(?:^|/)[A-Z]+(?:[./]|$)")  # NAME, SET


def own_files(tree):
    """All files, and every end of their paths that begins with a name."""
    files = set(tree.files())
    ends = set()
    for path in files:
        parts = path.split(os.sep)
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
    return files, ends


def check(tree):
    files, ends = own_files(tree)
    for path in tree.files(".md"):
        for target in LINK.findall(tree.text(path)):
            if "://" not in target and not tree.exists(os.path.join(os.path.dirname(path), target)):
                yield f"{path}: there is no {target}"
    for path in sorted(files):
        ending = os.path.splitext(path)[1]
        if ending not in COMMENT:
            continue
        text = tree.text(path)
        head = HEAD.match(text)
        if head and head.group(1) != os.path.basename(path):
            yield f"{path}: its head calls it {head.group(1)}"
        for comment in re.finditer(COMMENT[ending], text, re.M | re.S):
            found = PATH.findall(comment.group())
            if ending in (".c", ".h"):
                found += NAME.findall(comment.group())
            for name in found:
                if not (name in ends or FOREIGN.match(name) or PLACEHOLDER.search(name) or
                        tree.exists(os.path.join(os.path.dirname(path), name))):
                    line = text.count("\n", 0, comment.start() + comment.group().index(name)) + 1
                    yield f"{path}:{line}: there is no {name}"
