"""victims.py - datasets of one chunk, of each form that a stored chunk has, for damage."""

import filetypes
import forge
import pipelines
from bed import memory_file
from cases import Case, Layout, read_all

T = filetypes.BY_NAME
P = pipelines.BY_NAME


class Victim(Case):
    """starts: the first bytes of its stored chunk; mode: of its frame, where it is one."""

    def __init__(self, type_name, count, pipeline="plain", kind=None, starts=forge.MAGIC, mode=None):
        super().__init__(T[type_name], Layout(f"n{count}", (count,), (count,)), P[pipeline], kind)
        self.starts = starts
        self.mode = mode


def make():
    other = forge.MAGIC_REGROUPED
    return [
        Victim("f4le", 100, mode=forge.CODED),
        Victim("ml_bfloat16", 200, mode=forge.CODED),
        Victim("u1", 300, kind="random", mode=forge.STORED),
        Victim("u1", 40, kind="random", mode=forge.SHORT),
        Victim("f8be", 150, kind="counter", starts=other),
        Victim("u2be", 300, starts=other),
        Victim("f4le", 200, "shuffle", starts=other),
        Victim("i4be", 300, "shuffle", starts=other),
        Victim("compound_packed", 500, starts=other),
        Victim("int24le", 300, starts=other),
    ]


ALL = make()


class Opened:
    """A victim in a file in memory, to be given other chunks."""

    def __init__(self, victim, file):
        self.victim = victim
        self.dataset = victim.write(file)
        self.dataset.flush()
        self.offset = (0,)
        self.mask, self.chunk = self.dataset.read_direct_chunk(self.offset)
        assert self.mask == 0 and self.chunk[:4] == victim.starts
        if victim.mode is not None:
            assert self.chunk[6] == victim.mode

    def read_with(self, chunk):
        """Elements with another stored chunk; raises what HDF5 raises."""
        self.dataset.write_direct_chunk(self.offset, chunk)
        return read_all(self.dataset).tobytes()

    def fault_with(self, chunk):
        """None if HDF5 refuses the chunk, else what happened."""
        try:
            found = self.read_with(chunk)
        except OSError:
            return None
        return "read as if nothing were wrong" if found == self.victim.expected().tobytes() else "WRONG DATA"


def victims_file():
    """Without a chunk cache: each read comes to the filter."""
    return memory_file(rdcc_nbytes=0)
