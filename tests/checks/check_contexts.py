"""Every public call of liblmc that takes a context begins and ends its work with it: what a call calls back cannot use
the context in between (codec/frame/ctx.h)."""

import re

CALL = re.compile(r"(?:LMC_STABLE|LMC_EXPERIMENTAL) lmc_status (\w+)\(lmc_ctx \*ctx\b")


def body_of(tree, name):
    """The text of a function of codec/, from its name to the closing brace."""
    for path in tree.files(".c", under=["codec"]):
        found = re.search(r"^lmc_status %s\(.*?^}" % name, tree.text(path), re.M | re.S)
        if found:
            return path, found.group(0)
    return None, ""


def check(tree):
    names = CALL.findall(tree.text("include/lmc.h"))
    if not names:
        yield "include/lmc.h: no call takes a context"
    for name in names:
        path, body = body_of(tree, name)
        if path is None:
            yield f"include/lmc.h: {name} is nowhere in codec/"
        elif body.count("lmc_ctx_begin(ctx)") != 1 or body.count("lmc_ctx_end(ctx") != 1:
            yield f"{path}: {name} must begin and end with lmc_ctx_begin() and lmc_ctx_end()"
        elif body.count("return") != 2:
            yield f"{path}: {name} returns between lmc_ctx_begin() and lmc_ctx_end()"
