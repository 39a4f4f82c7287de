"""document.py - the worked frames of docs/format.md, section 11, as bytes; listings of other documents.

A listing is a block between ``` lines: optionally an offset, then bytes in hexadecimal, one or two blanks
between them; `(N times)` repeats the byte before it. Three blanks, or anything else, begin a comment.
"""

import re

TOKEN = re.compile(r" {0,2}(?:([0-9a-f]{2})|\((\d+) times\))(?= |$)")
OFFSET = re.compile(r" {0,2}(\d{1,3})  ")


def content_of_abc():
    return b"abc"


def content_of_letters():
    content = bytearray(b"a" * 256)
    for i in range(256):
        if i % 16 == 5:
            content[i] = ord("c")
        elif i % 4 == 1:
            content[i] = ord("b")
    content[100] = ord("z")
    return bytes(content)


def base_of_steps():
    elements = [0x3F80 + i if i % 2 == 0 else 0x3C00 for i in range(24)]
    return b"".join(element.to_bytes(2, "little") for element in elements) + b"?"


def content_of_steps():
    base = base_of_steps()
    elements = [int.from_bytes(base[i : i + 2], "little") for i in range(0, 48, 2)]
    elements[5] += 3
    elements[9] -= 2
    elements[7] = 0xF00D
    for i in range(6, 22, 2):
        elements[i] += 1 if i % 4 == 0 else -1
    elements[22] += 2
    elements[12] ^= 0x8000
    return b"".join(element.to_bytes(2, "little") for element in elements) + b"!"


def content_of_rows():
    return b"PL" * 16 + b"HD" * 16


def no_base():
    return None


# What the text says of each listing, and of its base.
CONTENTS = [(content_of_abc, no_base), (content_of_letters, no_base), (content_of_steps, base_of_steps),
            (content_of_rows, no_base)]


def listing_bytes(listing):
    frame = bytearray()
    lines = listing.strip("\n").split("\n")
    has_offsets = OFFSET.match(lines[0]) is not None
    for line in lines:
        place = 0
        if has_offsets:
            offset = OFFSET.match(line)
            if offset is None:
                continue
            if int(offset.group(1)) != len(frame):
                raise ValueError(f"this line is at {len(frame)}: {line}")
            place = offset.end()
        token = TOKEN.match(line, place)
        while token:
            if token.group(1):
                frame.append(int(token.group(1), 16))
            else:
                frame += frame[-1:] * (int(token.group(2)) - 1)
            token = TOKEN.match(line, token.end())
    return bytes(frame)


def worked_frames(text):
    """(frame, content, base or None) of every listing."""
    section = re.search(r"^## 11\. Worked frames$(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
    listings = re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)
    if len(listings) != len(CONTENTS):
        raise ValueError(f"{len(listings)} listings, {len(CONTENTS)} contents")
    return [(listing_bytes(listing), content(), base()) for listing, (content, base) in zip(listings, CONTENTS)]


def numbered_bytes(section, begin=0):
    """The first listing whose lines are an offset in hexadecimal and bytes."""
    listing = re.search(r"^```\n(.*?)^```$", section, re.M | re.S).group(1)
    data = b""
    for line in listing.splitlines():
        offset, _, line_bytes = line.partition(" ")
        if int(offset, 16) != begin + len(data):
            raise ValueError(f"this line is at {begin + len(data):x}: {line}")
        data += bytes.fromhex(line_bytes)
    return data
