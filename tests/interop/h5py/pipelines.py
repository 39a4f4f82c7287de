"""pipelines.py - filters of a dataset: LMC with all kinds of values, alone and beside others."""

from bed import FILTER_ID, MANDATORY, OPTIONAL, OVERHEAD_MAX, h5py

SHUFFLE, FLETCHER32, NBIT, DEFLATE, LZF = 2, 3, 5, 1, 32000


def lmc(*values, flags=OPTIONAL):
    return FILTER_ID, flags, values


DEFLATE_4 = (DEFLATE, OPTIONAL, (4,))
SHUFFLED = (SHUFFLE, OPTIONAL, ())
CHECKED = (FLETCHER32, MANDATORY, ())
LZF_1 = (LZF, OPTIONAL, ())
NBITS = (NBIT, OPTIONAL, ())


class Pipeline:
    """lmc_bits: of LMC in a chunk's filter mask. extra: bytes that a stored chunk may be larger than the chunk; None
    where other filters decide about it."""

    def __init__(self, name, *filters, extra=OVERHEAD_MAX, scaleoffset=False):
        self.name = name
        self.filters = filters
        self.extra = extra
        self.scaleoffset = scaleoffset
        first = 1 if scaleoffset else 0
        self.lmc_bits = sum(1 << i for i, (number, _, _) in enumerate(filters, first) if number == FILTER_ID)
        self.integers_only = scaleoffset or NBITS in filters

    def suits(self, filetype):
        return not self.integers_only or filetype.integer

    def apply(self, dcpl):
        if self.scaleoffset:
            dcpl.set_scaleoffset(h5py.h5z.SO_INT, 0)
        for number, flags, values in self.filters:
            dcpl.set_filter(number, flags, values)


NOTHING = Pipeline("nothing")
PLAIN = Pipeline("plain", lmc())

ALL = [
    PLAIN,
    Pipeline("fast", lmc(1)),
    Pipeline("max", lmc(2)),
    Pipeline("element1", lmc(0, 1)),
    Pipeline("element2", lmc(0, 2)),
    Pipeline("element4", lmc(0, 4)),
    Pipeline("element8", lmc(0, 8)),
    Pipeline("block16", lmc(0, 0, 16)),
    Pipeline("block64", lmc(0, 0, 64)),
    Pipeline("block1024", lmc(2, 0, 1024)),
    Pipeline("rows", lmc(16)),
    Pipeline("rows_mandatory_max", lmc(18, flags=MANDATORY)),
    Pipeline("rows_shuffle", SHUFFLED, lmc(16)),
    Pipeline("rows_fletcher_before", CHECKED, lmc(17), extra=OVERHEAD_MAX + 4),
    Pipeline("mandatory", lmc(flags=MANDATORY)),
    Pipeline("mandatory_max", lmc(2, flags=MANDATORY)),
    Pipeline("shuffle", SHUFFLED, lmc()),
    Pipeline("shuffle_element2", SHUFFLED, lmc(0, 2)),
    Pipeline("shuffle_mandatory", SHUFFLED, lmc(flags=MANDATORY)),
    Pipeline("shuffle_after", lmc(), SHUFFLED),
    Pipeline("shuffle_twice", SHUFFLED, SHUFFLED, lmc()),
    Pipeline("fletcher_after", lmc(), CHECKED, extra=OVERHEAD_MAX + 4),
    Pipeline("fletcher_before", CHECKED, lmc(), extra=OVERHEAD_MAX + 4),
    Pipeline("fletcher_shuffle", CHECKED, SHUFFLED, lmc(flags=MANDATORY), extra=OVERHEAD_MAX + 4),
    Pipeline("shuffle_fletchers", SHUFFLED, CHECKED, lmc(), CHECKED, extra=OVERHEAD_MAX + 8),
    Pipeline("gzip_before", DEFLATE_4, lmc(), extra=None),
    Pipeline("gzip_after", lmc(), DEFLATE_4, extra=None),
    Pipeline("shuffle_gzip_before", SHUFFLED, DEFLATE_4, lmc(flags=MANDATORY), extra=None),
    Pipeline("lzf_before", LZF_1, lmc(), extra=None),
    Pipeline("nbit_before", NBITS, lmc(), extra=None),
    Pipeline("scaleoffset", lmc(), scaleoffset=True, extra=None),
    Pipeline("scaleoffset_shuffle", SHUFFLED, lmc(flags=MANDATORY), scaleoffset=True, extra=None),
    Pipeline("twice", lmc(), lmc(), extra=2 * OVERHEAD_MAX),
    Pipeline("twice_mandatory", lmc(1, flags=MANDATORY), lmc(0, 4, flags=MANDATORY), extra=2 * OVERHEAD_MAX),
]
BY_NAME = {pipeline.name: pipeline for pipeline in ALL}


def named(*names):
    return [BY_NAME[name] for name in names]
