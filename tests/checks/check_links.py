"""Links between the documents of the project lead to files that are there."""

import os
import re

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def check(tree):
    for path in tree.files(".md"):
        for target in LINK.findall(tree.text(path)):
            if "://" not in target and not tree.exists(os.path.join(os.path.dirname(path), target)):
                yield f"{path}: there is no {target}"
