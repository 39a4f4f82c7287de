"""Every public call of liblmc that takes a context begins and ends its work with it, or only calls one that does: a
callback cannot use the context in between (codec/frame/ctx.h)."""

import re

CALL = re.compile(r"LMC_API lmc_status (\w+)\(lmc_ctx \*ctx\b")
FORWARD = re.compile(r"\{\s*return (\w+)\(ctx,[^;]*;\s*\}$")


def body_of(tree, name):
    """The text of a function of codec/, from its name to the closing brace."""
    for path in tree.files(".c", under=["codec"]):
        found = re.search(r"^lmc_status %s\(.*?^}" % name, tree.text(path), re.M | re.S)
        if found:
            return path, found.group(0)
    return None, ""


def check(tree):
    names = CALL.findall(tree.text("include/lmc.h") + tree.text("include/lmc_experimental.h"))
    if not names:
        yield "include/lmc.h: no call takes a context"
    for name in names:
        path, body = body_of(tree, name)
        forward = FORWARD.search(body)
        if path is None:
            yield f"include: {name} is nowhere in codec/"
        elif forward and forward.group(1) in names:
            continue
        elif body.count("lmc_ctx_begin(ctx)") != 1 or body.count("lmc_ctx_end(ctx") != 1:
            yield f"{path}: {name} must begin and end with lmc_ctx_begin() and lmc_ctx_end()"
        elif body.count("return") != 2:
            yield f"{path}: {name} returns between lmc_ctx_begin() and lmc_ctx_end()"
