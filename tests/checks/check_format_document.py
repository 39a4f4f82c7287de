"""Every constant of the wire is named in its document, with its number where it has one, and none is named there that
does not exist: codec/common/format.h and docs/format.md, filter/chunk/wire.h and docs/hdf5-filter.md."""

import re

WIRES = [("codec/common/format.h", "LMC_FMT_", "docs/format.md"),
         ("filter/chunk/wire.h", "H5_WIRE_", "docs/hdf5-filter.md")]


def defines(text, prefix):
    """name: what it is defined as, without its comment"""
    found = re.findall(rf"^\s*#\s*define\s+({prefix}[A-Z0-9_]+)[ \t]*(.*)$", text, re.M)
    return {name: re.sub(r"/\*.*", "", value).strip() for name, value in found}


def check_numbers(values, text, header, document):
    """A number that follows a name in the document is that of the header."""
    for name, number in re.findall(r"`((?:H5_WIRE|LMC_H5)_[A-Z0-9_]+)` (0x[0-9a-f]+|\d+)\b", text):
        value = values.get(name, "").rstrip("u")
        if not re.fullmatch(r"0x[0-9a-f]+|\d+", value) or int(value, 0) != int(number, 0):
            yield f"{name}: {number} in {document}, {value or 'nothing'} in {header}"


def check_chunk_document(tree):
    """Of docs/hdf5-filter.md the numbers are compared, too, and the bytes of the magic."""
    header, document = "filter/chunk/wire.h", "docs/hdf5-filter.md"
    text, wire = " ".join(tree.text(document).split()), defines(tree.text(header), "H5_WIRE_")
    public = tree.text("include/lmc_h5.h")
    yield from check_numbers({**wire, **defines(public, "LMC_H5_")}, text, header + " and lmc_h5.h", document)
    plain = {name for name, value in wire.items() if value.isdigit()}
    for name in sorted(plain):
        if f"`{name}` {wire[name]}" not in text:
            yield f"{name}: {document} does not say that it is {wire[name]}"
    magic = int(wire["H5_WIRE_MAGIC"].rstrip("u"), 0).to_bytes(4, "little").hex(" ")
    if f"`H5_WIRE_MAGIC`: the bytes `{magic}`" not in text:
        yield f"H5_WIRE_MAGIC: {document} does not say that it is the bytes {magic}"


def check(tree):
    for header, prefix, document in WIRES:
        folder = header.split("/")[0]
        defined = set(defines(tree.text(header), prefix))
        named = set(re.findall(rf"\b{prefix}[A-Z0-9_]+\b", tree.text(document)))
        for name in sorted(defined - named):
            yield f"{name}: defined in {header}, not named in {document}"
        for name in sorted(named - defined):
            yield f"{name}: named in {document}, not defined in {header}"
        for path in tree.files(".c", ".h", under=[folder]):
            if path != header and re.search(rf"^\s*#\s*define\s+{prefix}", tree.text(path), re.M):
                yield f"{path}: defines a wire constant; they belong in {header}"
    yield from check_chunk_document(tree)
