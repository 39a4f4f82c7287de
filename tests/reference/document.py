"""document.py - the worked frames of docs/format.md, section 11, as bytes.

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


# What the text says of each listing.
CONTENTS = [content_of_abc, content_of_letters]


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
    """(frame, content) of every listing."""
    section = re.search(r"^## 11\. Worked frames$(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
    listings = re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)
    if len(listings) != len(CONTENTS):
        raise ValueError(f"{len(listings)} listings, {len(CONTENTS)} contents")
    return [(listing_bytes(listing), content()) for listing, content in zip(listings, CONTENTS)]
