#!/usr/bin/env python3
"""Writes tests/format/vectors/h5: stored chunks that docs/hdf5-filter.md allows (handmade_NAME.chunk with the chunk
itself in .bin), and in corrupt/EXPECT.tsv chunks that break one rule each, the status with which a decoder must refuse
each one, and why. Their checks are right wherever the rule is not about checks.

    make_h5_chunks.py [DIR]        DIR: instead of tests/format/vectors/h5
"""
import os
import sys

import corrupt_delta
import expectations
import h5_assemble as a
from assemble import numbers, short_frame, stored_frame
from assemble_delta import MAGNITUDE, SAME, DeltaPlan, rounded
from corrupt_delta import BASE, CONTENT as CHANGED
from h5_assemble import LAYOUT_COLUMNS as COLUMNS, LAYOUT_PLAIN as PLAIN, LAYOUT_RECORDS as RECORDS, LAYOUT_ROWS as ROWS

CASES = {}  # name: (status, rule, stored)

U8, U16, BF16, F32, F64, C64 = 0, 12, 14, 17, 21, 18
CONTENT = bytes((i * i >> 3) % 251 for i in range(1000))
FRAME = a.frame(CONTENT)
DELTA = corrupt_delta.frame()  # CHANGED against BASE
AGAIN = corrupt_delta.frame(blocks=[SAME], content=CHANGED, base=CHANGED)


# ---- good ones ----


def good():
    """name: (stored, chunk)"""
    made = {
        "frame": (a.frame(CONTENT, F32), CONTENT),
        "short_frame": (a.frame(b"abc", BF16), b"abc"),
        "empty_frame": (a.frame(b""), b""),
    }

    def add(name, data, *form, **fields):
        made[name] = (a.regrouped(data, *form, **fields), data)

    for swap in (2, 4, 8):
        add(f"plain_swap_{swap}", CONTENT, PLAIN, swap=swap, dtype=F64)
        add(f"plain_swap_{swap}_ragged", CONTENT[: 2 * swap - 1], PLAIN, swap=swap)
        add(f"records_swap_{swap}", CONTENT, RECORDS, 24, swap)
    for width in (2, 3, 7, 8, 16, 255, 256):
        add(f"columns_{width}", CONTENT, COLUMNS, width)
        add(f"records_{width}", CONTENT, RECORDS, width)
    add("columns_whole", CONTENT[:999], COLUMNS, 9)
    add("columns_most_left", CONTENT[:17], COLUMNS, 9)
    add("columns_one_record", CONTENT[:9], COLUMNS, 9)
    add("columns_no_record", CONTENT[:8], COLUMNS, 9)
    add("columns_empty", b"", COLUMNS, 5)
    add("records_no_record", CONTENT[:8], RECORDS, 9)
    add("records_empty", b"", RECORDS, 4, 4)
    add("records_swap_beside_width", CONTENT, RECORDS, 3, 8)
    add("records_swap_over_the_end", CONTENT[:7], RECORDS, 6, 4)
    add("plain_empty", b"", PLAIN, swap=8)
    add("plain_below_an_element", b"abc", PLAIN, swap=4)
    for row_count in (2, 3, 8, 1000):
        add(f"rows_{row_count}", CONTENT[: len(CONTENT) // row_count * row_count], ROWS, row_count=row_count)
    for swap in (2, 4, 8):
        add(f"rows_swap_{swap}", CONTENT, ROWS, swap=swap, dtype=F64, row_count=5)
    add("rows_swap_over_rows", CONTENT[:999], ROWS, swap=8, row_count=9)
    add("rows_records", CONTENT, ROWS, 24, row_count=4)
    add("rows_records_swap", CONTENT, ROWS, 256, 4, row_count=10)
    add("rows_empty", b"", ROWS, row_count=3)
    rows = a.rows_of(CONTENT, 4)
    frames = [stored_frame(rows[0], F32), a.frame(rows[1], C64), a.frame(rows[2], BF16), a.frame(rows[3], F64)]
    made["rows_of_other_dtypes"] = (a.chunk(ROWS, frames), CONTENT)
    rows = BASE + CHANGED + CHANGED + CHANGED + BASE
    frames = [a.frame(BASE), DELTA, AGAIN, a.frame(CHANGED), a.frame(BASE)]
    made["rows_delta"] = (a.chunk(ROWS, frames), rows)
    made["rows_delta_swap"] = (a.chunk(ROWS, frames, swap=4), a.swapped(rows, 4))
    made["rows_delta_records"] = (a.chunk(ROWS, frames, 7), a.shuffled(rows, 7))
    columns = a.columns_of(CONTENT, 3)
    frames = [stored_frame(columns[0], F32), stored_frame(columns[1], C64, block_log2=20), a.frame(columns[2], BF16)]
    made["columns_of_other_dtypes"] = (a.chunk(COLUMNS, frames, 3), CONTENT)
    return made


# ---- wrong ones ----


def add(status, name, rule, stored):
    assert name not in CASES, name
    CASES[name] = (status, rule, bytes(stored))


def heads():
    forms = {"plain": (PLAIN, 0, 2), "columns": (COLUMNS, 4, 0), "records": (RECORDS, 4, 0), "rows": (ROWS, 0, 0)}
    for name, (layout, width, swap) in forms.items():
        frames = [a.frame(c) for c in a.columns_of(CONTENT, 4)] if layout in (COLUMNS, ROWS) else [FRAME]

        def head(status, what, rule, **fields):
            all_fields = dict(width=width, swap=swap)
            all_fields.update(fields)
            add(status, f"head_{name}_{what}", rule, a.chunk(layout, frames, **all_fields))

        head("CORRUPT", "version_0", "version 0", version=0)
        head("UNSUPPORTED", "version_2", "version 2", version=2)
        head("UNSUPPORTED", "version_255", "version 255", version=255)
        head("UNSUPPORTED", "reserved_1", "reserved is not 0", reserved=1)
        head("UNSUPPORTED", "reserved_128", "reserved is not 0", reserved=128)
        head("CORRUPT", "magic", "the magic is another one", magic=b"\x8cLMI")
        head("CHECKSUM", "check", "the check is another one", check=0)
        for swap_nbytes in (1, 3, 5, 6, 7, 9, 16, 255):
            head("CORRUPT", f"swap_{swap_nbytes}", "a swap that is none", swap=swap_nbytes)
        for number in (1, 257, 260, 65535) if layout in (RECORDS, ROWS) else (1,):
            head("CORRUPT", f"width_{number}", "a width that is none", width=number)
    for layout in (4, 5, 255):
        add("UNSUPPORTED", f"head_layout_{layout}", "a layout that nobody knows", a.chunk(layout, [FRAME], 4))
    add("CORRUPT", "head_plain_swap_0", "PLAIN without swap", a.chunk(PLAIN, [FRAME]))
    add("CORRUPT", "head_plain_width_4", "PLAIN with a width", a.chunk(PLAIN, [FRAME], 4, 2))
    for swap in (2, 4, 8):
        add("CORRUPT", f"head_columns_swap_{swap}", "COLUMNS with swap", a.chunk(COLUMNS, [FRAME] * 8, 8, swap))
    for layout, name in ((COLUMNS, "columns"), (RECORDS, "records")):
        add("CORRUPT", f"head_{name}_width_0", "no width", a.chunk(layout, [FRAME], 0))
    add("CORRUPT", "head_columns_width_257", "width 257", a.chunk(COLUMNS, [a.frame(b"x")] * 257, 257))
    for layout, name, place in ((COLUMNS, "columns", 10), (ROWS, "rows", 14)):
        stored = bytearray(a.regrouped(CONTENT, layout, 4, row_count=4))
        stored[place] ^= 1
        add("CHECKSUM", f"head_{name}_size", "a size that the check does not know", stored)
    for count in (0, 1, 65537, 0x80000004, 0xFFFFFFFF):
        add("CORRUPT", f"head_rows_count_{count}", f"{count} rows", a.chunk(ROWS, [FRAME] * 2, row_count=count))


def truncations():
    plain, columns = a.regrouped(CONTENT, PLAIN, swap=2), a.regrouped(CONTENT, COLUMNS, 4)
    for n in (0, 1, 3, 4, 5, 9, 10, 17, 18, 30, len(plain) - 1):
        add("TRUNCATED", f"cut_plain_{n}", f"only {n} bytes", plain[:n])
    ends = (21, 22, 29, 30, 31, 30 + 250, len(columns) - 266, len(columns) - 1)
    for n in ends:
        add("TRUNCATED", f"cut_columns_{n}", f"only {n} bytes", columns[:n])
    rows = a.regrouped(CONTENT, ROWS, row_count=4)
    for n in (10, 13, 14, 25, 26, 33, 34, 34 + 250, len(rows) - 1):
        add("TRUNCATED", f"cut_rows_{n}", f"only {n} bytes", rows[:n])


def frames():
    column = a.frame(b"abcdef")
    nested = a.regrouped(CONTENT, PLAIN, swap=2)
    add("CORRUPT", "frame_nested", "a regrouped chunk in a regrouped chunk", a.chunk(PLAIN, [nested], swap=2))
    add("CORRUPT", "frame_no_magic", "what is there is no frame", a.chunk(PLAIN, [b"x" * 40], swap=2))
    add("CORRUPT", "frame_two", "two frames where one belongs", a.chunk(RECORDS, [FRAME, FRAME], 4, sizes=()))
    add("CORRUPT", "frame_and_a_byte", "a byte behind the frame", a.chunk(RECORDS, [FRAME + b"\0"], 4))
    add("CORRUPT", "plain_frame_and_a_byte", "a byte behind the frame", FRAME + b"\0")
    add("UNSUPPORTED", "frame_version_2", "a frame of a newer version",
        a.chunk(PLAIN, [short_frame(b"abc", U8, version=2)], swap=2))
    for place, what in ((-1, "check"), (9, "content")):
        damaged = bytearray(column)
        damaged[place] ^= 0x10
        for i in range(3):
            three = [column] * i + [bytes(damaged)] + [column] * (2 - i)
            add("CHECKSUM", f"frame_{i}_{what}", f"the {what} of frame {i} is damaged", a.chunk(COLUMNS, three, 3))
    for i in range(2):
        for size, status in ((0, "TRUNCATED"), (7, "TRUNCATED"), (len(column) - 1, "TRUNCATED"),
                             (len(column) + 1, "CORRUPT"), (3 * len(column) + 1, "TRUNCATED"),
                             (0xFFFFFFFF, "TRUNCATED")):
            sizes = [len(column)] * 2
            sizes[i] = size
            add(status, f"size_{i}_{size}", f"frame {i} is said to have {size} bytes",
                a.chunk(COLUMNS, [column] * 3, 3, sizes=sizes))


def columns():
    unequal = [(6, 6, 9), (6, 6, 5), (6, 6, 0), (6, 7, 6), (7, 6, 6), (5, 6, 6), (0, 6, 0), (6, 0, 0), (0, 0, 3),
               (6, 5, 7), (5, 5, 8)]
    for sizes in unequal:
        stored = a.chunk(COLUMNS, [a.frame(CONTENT[:n]) for n in sizes], 3)
        name = "_".join(map(str, sizes))
        add("CORRUPT", f"columns_{name}", "contents of unequal size", stored)


def rows():
    unequal = [(6, 6, 7), (6, 6, 5), (6, 6, 0), (6, 7, 6), (7, 6, 6), (0, 6, 6), (0, 0, 1), (1, 0, 0)]
    for sizes in unequal:
        stored = a.chunk(ROWS, [a.frame(CONTENT[:n]) for n in sizes])
        add("CORRUPT", "rows_" + "_".join(map(str, sizes)), "rows of unequal size", stored)
    row = a.frame(b"abcdef")
    add("TRUNCATED", "rows_one_missing", "a row that is not there", a.chunk(ROWS, [row] * 3, sizes=[len(row)] * 3))
    add("CORRUPT", "rows_one_more", "a row that nobody told of", a.chunk(ROWS, [row] * 3, sizes=[len(row)]))
    for place, size, status in ((0, 0, "TRUNCATED"), (1, len(row) + 1, "CORRUPT"), (1, 0xFFFFFFFF, "TRUNCATED")):
        sizes = [len(row)] * 2
        sizes[place] = size
        add(status, f"rows_size_{place}_{size}", f"row {place} is said to have {size} bytes",
            a.chunk(ROWS, [row] * 3, sizes=sizes))


def deltas():
    other = bytes([BASE[0] ^ 1]) + BASE[1:]
    base = a.frame(BASE)
    floats = numbers([0x3F800000 + (i << 16) for i in range(45)], 4)
    halves = rounded(floats)
    twice = corrupt_delta.frame(DeltaPlan(2, MAGNITUDE), [SAME], halves, floats, dtype=BF16, base_form=1)
    add("CORRUPT", "delta_alone", "a frame that asks for a base", DELTA)
    add("CORRUPT", "delta_plain", "a frame that asks for a base", a.chunk(PLAIN, [DELTA], swap=2))
    add("CORRUPT", "delta_records", "a frame that asks for a base", a.chunk(RECORDS, [DELTA], 4))
    for i in range(2):
        columns = [DELTA if i == j else a.frame(CHANGED) for j in range(2)]
        add("CORRUPT", f"delta_column_{i}", "a column that asks for a base", a.chunk(COLUMNS, columns, 2))
    add("CORRUPT", "delta_row_0", "the first row asks for a base", a.chunk(ROWS, [DELTA, a.frame(CHANGED)]))
    stored = a.chunk(ROWS, [a.frame(halves), twice])
    add("CORRUPT", "delta_base_twice", "a row that asks for a base of twice its size", stored)
    longer = a.chunk(ROWS, [a.frame(BASE + b"x"), DELTA])
    add("CORRUPT", "delta_base_longer", "the row before is longer than the base asked for", longer)
    for name, frames in (("other_bit", [a.frame(other), DELTA]), ("other_row", [a.frame(CHANGED), DELTA]),
                         ("exchanged", [base, AGAIN, DELTA]), ("twice", [base, DELTA, DELTA])):
        add("CHECKSUM", f"delta_{name}", "the row before is another one than the base", a.chunk(ROWS, frames))
    for place, status in ((-1, "CHECKSUM"), (-20, "CHECKSUM"), (6, "CORRUPT")):
        damaged = bytearray(DELTA)
        damaged[place] ^= 1
        add(status, f"delta_damaged_{place}", f"byte {place} of a row is damaged", a.chunk(ROWS, [base, damaged]))


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "vectors", "h5")
    corrupt = os.path.join(directory, "corrupt")
    os.makedirs(corrupt, exist_ok=True)
    for make in (heads, truncations, frames, columns, rows, deltas):
        make()
    write(os.path.join(corrupt, "EXPECT.tsv"), expectations.text_of(CASES))
    made = good()
    for name, (stored, chunk) in made.items():
        write(os.path.join(directory, f"handmade_{name}.chunk"), stored)
        write(os.path.join(directory, f"handmade_{name}.bin"), chunk)
    print(f"{len(CASES)} corrupt chunks, {len(made)} good ones")


if __name__ == "__main__":
    main()
