"""Flags of the reference decoder: docs/format.md, section 7."""
from lmc_basics import corrupt_unless, counter_nbytes, supported_if

FLAGS_BITMAP, FLAGS_GAPS_OF_ONES, FLAGS_GAPS_OF_ZEROS, FLAGS_NONE, FLAGS_ALL = 0, 1, 2, 3, 4
FLAGS_PAIRS_OF_ONES, FLAGS_PAIRS_OF_ZEROS = 5, 6
GAP_LOW_NBITS_MAX = 15
GAP_LEVEL_COUNT_MAX = 12
GAP_LEVEL_VALUES_MIN = 16


def read_flags(reader, n):
    mode = reader.uint(1)
    supported_if(mode <= FLAGS_PAIRS_OF_ZEROS, f"flags mode {mode}")
    if mode == FLAGS_BITMAP:
        return reader.bit_plane(n)
    if mode in (FLAGS_NONE, FLAGS_ALL):
        return [int(mode == FLAGS_ALL)] * n
    member = 1 if mode in (FLAGS_GAPS_OF_ONES, FLAGS_PAIRS_OF_ONES) else 0
    read_places = read_gaps_places if mode in (FLAGS_GAPS_OF_ONES, FLAGS_GAPS_OF_ZEROS) else read_pairs_places
    flags = [1 - member] * n
    for place in read_places(reader, n):
        corrupt_unless(place < n, "a member at place n or beyond")
        flags[place] = member
    return flags


# 7.1 Gaps


def read_gaps_places(reader, n):
    """The places of the members."""
    places = []
    place = -1
    for gap in read_gaps(reader, n):
        place += gap + 1
        places.append(place)
    return places


def read_gaps(reader, n):
    m = reader.uint(counter_nbytes(n))
    corrupt_unless(1 <= m <= n, "the number of members")
    k = reader.uint(1)
    corrupt_unless(k <= GAP_LOW_NBITS_MAX, "k")
    gaps = [0] * m
    for j in range(k):
        gaps = [gap | bit << j for gap, bit in zip(gaps, reader.bit_plane(m))]
    quotients = read_quotients(reader, m)
    return [gap + (quotient << k) for gap, quotient in zip(gaps, quotients)]


def read_quotients(reader, m):
    quotients = [0] * m
    members = list(range(m))  # whose values are in the list of this level
    t = 0
    while t < GAP_LEVEL_COUNT_MAX and len(members) >= GAP_LEVEL_VALUES_MIN:
        bits = reader.bit_plane(len(members))
        members = [member for member, bit in zip(members, bits) if bit]
        for member in members:
            quotients[member] += 1
        t += 1
    for member, value in zip(members, reader.bytes(len(members))):
        quotients[member] += value
    return quotients


# 7.2 Pairs


def read_pairs_places(reader, n):
    """The places of the members."""
    corrupt_unless(n >= 2, "pairs of fewer than 2 flags")
    has_member = read_flags(reader, (n + 1) // 2)
    pairs = [i for i, flag in enumerate(has_member) if flag]
    corrupt_unless(pairs, "no pair has a member")
    has_both = read_flags(reader, len(pairs))
    is_second = iter(reader.bit_plane(has_both.count(0)))
    places = []
    for i, both in zip(pairs, has_both):
        places += [2 * i, 2 * i + 1] if both else [2 * i + next(is_second)]
    return places
