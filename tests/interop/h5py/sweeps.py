"""sweeps.py - which cases there are: every type, layout, pipeline and content, each with some of the others.

Each sweep is a file in the exchange folder, with one group of cases for each test.
"""

import filetypes
import pipelines
from cases import Case, Layout

T = filetypes.BY_NAME
P = pipelines.BY_NAME

LINE = Layout("line", (1000,), (256,))
BLOCK = Layout("block", (7, 11, 5), (3, 4, 2))
LONG = Layout("long", (9000,), (4096,))


def S(*bounds):
    """Slices; each bound is (start, stop) or (start, stop, step)."""
    return tuple(slice(*b) for b in bounds)


LAYOUTS = [
    LINE,
    BLOCK,
    LONG,
    Layout("exact", (512,), (128,)),
    Layout("one_chunk", (700,), (700,)),
    Layout("chunk_of_one", (37,), (1,)),
    Layout("one_element", (1,), (1,)),
    Layout("columns", (50, 30), (50, 1)),
    Layout("rows", (50, 30), (1, 30)),
    Layout("tiles", (33, 65), (16, 16)),
    Layout("d4", (3, 4, 5, 6), (2, 3, 2, 4)),
    Layout("matrix", (50, 70), (32, 64), maxshape=(None, 200)),
    Layout("kernels", (11, 5, 3, 3), (4, 5, 3, 3)),
    Layout("snapshots", (7, 40, 30), (3, 40, 30), maxshape=(None, 40, 30)),
    Layout("d5", (3, 2, 4, 3, 5), (2, 2, 3, 2, 2)),
    Layout("chunk_of_many", (90,), (1000,), maxshape=(None,)),
    Layout("chunk_of_many_2d", (5, 9), (32, 16), maxshape=(None, 40)),
    Layout("empty", (0,), (64,), maxshape=(None,)),
    Layout("empty_2d", (0, 10), (4, 4), maxshape=(None, 10)),
]

HISTORIES = [
    Layout("grown", (100,), (64,), ("write", S((0, 100))), ("resize", (500,)), ("write", S((300, 450))),
           maxshape=(None,)),
    Layout("grown_2d", (10, 10), (8, 8), ("write", S((0, 10), (0, 10))), ("resize", (30, 12)), ("flush",),
           ("write", S((5, 25), (3, 12))), maxshape=(None, None)),
    Layout("shrunk", (40, 50), (16, 16), ("write", S((0, 40), (0, 50))), ("flush",), ("resize", (23, 17)),
           maxshape=(40, 50)),
    Layout("shrunk_and_grown", (300,), (64,), ("write", S((0, 300))), ("flush",), ("resize", (70,)), ("flush",),
           ("resize", (290,)), maxshape=(None,)),
    Layout("grown_from_nothing", (0, 8), (16, 8), ("resize", (40, 8)), ("write", S((0, 33), (0, 8))),
           maxshape=(None, 8)),
    Layout("emptied", (200,), (64,), ("write", S((0, 200))), ("flush",), ("resize", (0,)), ("resize", (90,)),
           maxshape=(None,)),
    Layout("parts", (500,), (128,), ("write", S((10, 20))), ("flush",), ("write", S((100, 300))), ("flush",),
           ("write", S((250, 260)))),
    Layout("again", (60, 60), (16, 16), ("write", S((0, 60), (0, 60))), ("flush",), ("write", S((3, 50), (7, 9))),
           ("flush",), ("write", S((15, 17), (0, 60))), ("flush",), ("write", S((0, 60), (0, 60)))),
    Layout("steps", (400,), (64,), ("write", S((0, 400))), ("flush",), ("write", S((1, 400, 7)))),
    Layout("steps_2d", (30, 40), (8, 8), ("write", S((0, 30, 3), (1, 40, 5))), ("flush",),
           ("write", S((2, 30, 4), (0, 40, 2)))),
    Layout("one_by_one", (40,), (16,),
           *(step for i in range(0, 40, 3) for step in (("write", S((i, i + 1))), ("flush",)))),
    Layout("never", (300, 3), (64, 3), ("flush",)),
    Layout("holes", (1000,), (100,), ("write", S((0, 100))), ("write", S((500, 501))), ("write", S((950, 1000)))),
]


def suited(filetype, layout, pipeline, **others):
    return [Case(filetype, layout, pipeline, **others)] if pipeline.suits(filetype) else []


def types_of(filetypes_chosen):
    chosen = pipelines.named("plain", "shuffle", "fletcher_after", "mandatory_max", "element1", "element4",
                             "scaleoffset")
    for filetype in filetypes_chosen:
        yield filetype.name, [case for layout in (LINE, BLOCK) for pipeline in chosen
                              for case in suited(filetype, layout, pipeline)] + [
                                  Case(filetype, LINE, pipeline, "random")
                                  for pipeline in pipelines.named("mandatory", "shuffle_mandatory")]


def sweep_types():
    return types_of(t for t in filetypes.ALL if not t.is_new)


def sweep_new_types():
    return types_of(t for t in filetypes.ALL if t.is_new)


def sweep_layouts():
    chosen = [T[name] for name in ("u1", "f4le", "ml_bfloat16", "u2be", "compound_packed", "array_f4", "i8le")]
    for layout in LAYOUTS:
        yield layout.name, [Case(filetype, layout, pipeline) for filetype in chosen
                            for pipeline in pipelines.named("plain", "shuffle", "mandatory", "rows")]


def sweep_histories():
    chosen = [T[name] for name in ("u1", "f4le", "ml_bfloat16", "f8be", "compound_xyz", "i4le")]
    for layout in HISTORIES:
        cases = [Case(filetype, layout, pipeline) for filetype in chosen
                 for pipeline in pipelines.named("plain", "shuffle", "fletcher_before", "mandatory")]
        for name in ("u1", "f4le", "opaque2", "i8be", "opaque5", "compound_packed"):
            fill = bytes((7 * i + 65) % 128 for i in range(T[name].size))
            cases.append(Case(T[name], layout, fill=fill))
        yield layout.name, cases


def sweep_pipelines():
    chosen = [T[name] for name in ("u1", "i2le", "u2be", "i4le", "f4le", "f8be", "ml_bfloat16", "string5",
                                   "compound_packed", "compound_xyz", "array_u2", "int24le", "opaque300")]
    for pipeline in pipelines.ALL:
        layouts = [(t, layout) for t in chosen for layout in ((BLOCK, LONG) if t.size < 300 else (BLOCK,))]
        kinds = (None,) if pipeline.scaleoffset else (None, "random")
        yield pipeline.name, [case for filetype, layout in layouts for kind in kinds
                              for case in suited(filetype, layout, pipeline, kind=kind)]


def sweep_contents():
    chosen = [T[name] for name in ("u1", "f2le", "ml_bfloat16", "u2le", "f4le", "f4be", "f8le", "i8le", "c8le",
                                   "compound_packed", "h5_bfloat16le")]
    for kind in ("weights", "halves", "zeros", "special", "counter", "text", "real", "random"):
        yield kind, [case for filetype in chosen for pipeline in pipelines.named("plain", "mandatory_max", "shuffle")
                     for case in suited(filetype, LONG, pipeline, kind=kind)]


SWEEPS = {
    "types": dict(sweep_types()),
    "new_types": dict(sweep_new_types()),
    "layouts": dict(sweep_layouts()),
    "histories": dict(sweep_histories()),
    "pipelines": dict(sweep_pipelines()),
    "contents": dict(sweep_contents()),
}


def groups():
    """(sweep, group, cases) of all."""
    return [(sweep, group, cases) for sweep, found in SWEEPS.items() for group, cases in found.items()]
