"""HDF5's tools with the filter: h5repack both ways, h5diff, h5dump, h5ls, h5copy, h5stat."""

import os
import re
import subprocess

import numpy
import pytest

import filetypes
import objects
import pipelines
import sweeps
from bed import EXCHANGE, FILTER_ID, FILTER_NAME, PLUGIN_DIR, beds_written, h5py
from cases import Case
from library import lmc_values

OLD = [t for t in filetypes.ALL if t.is_here and t.name != "time"]  # h5repack cannot copy that type
CASES = [Case(t, sweeps.LINE, pipelines.NOTHING) for t in OLD] + \
        [Case(t, sweeps.BLOCK, pipelines.NOTHING) for t in OLD[::5]] + \
        [Case(filetypes.BY_NAME["f4le"], layout, pipelines.NOTHING) for layout in sweeps.LAYOUTS[3:]]


def run(*command, plugin=True, rc=0):
    environment = dict(os.environ, HDF5_PLUGIN_PATH=PLUGIN_DIR if plugin else os.path.join(PLUGIN_DIR, "nothing-here"))
    result = subprocess.run([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=120)
    assert rc is None or result.returncode == rc, (command, result.returncode, result.stdout[-1000:])
    return result


def repacked(source, target, *options, **how):
    run("h5repack", *options, source, target, **how)
    return target


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A file without LMC, with datasets of all kinds, groups, attributes and links."""
    path = tmp_path_factory.mktemp("tools") / "plain.h5"
    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        place = file.create_group("cases")
        for case in CASES:
            case.write(place)
        for kind in objects.KINDS:
            objects.write(file.require_group("objects"), kind, "plain", compression=None)
        file.create_dataset("contiguous", data=numpy.arange(10000, dtype="<f4"))
        file.create_dataset("scalar", data=3.5)
        file.create_dataset("null", data=h5py.Empty("f4"))
        file.create_dataset("gzip", data=numpy.arange(5000), chunks=(100,), compression="gzip", shuffle=True)
        file["contiguous"].attrs["about"] = "text"
        file["soft"] = h5py.SoftLink("/contiguous")
        file["hard"] = file["contiguous"]
    return path


def check_content(path):
    """By the cases, not by what was written."""
    with h5py.File(path, "r") as file:
        faults = [case.fault(file["cases"]) for case in CASES]
        faults += [objects.fault(file["objects"], kind, "plain") for kind in objects.KINDS]
        assert not any(faults), faults
        assert file["contiguous"][...].tobytes() == numpy.arange(10000, dtype="<f4").tobytes()
        assert file["hard"] == file["contiguous"] and file["contiguous"].attrs["about"] == "text"


def filtered(path):
    """Names of the datasets whose pipeline has LMC."""
    found = set()

    def look(name, item):
        if isinstance(item, h5py.Dataset):
            dcpl = item.id.get_create_plist()
            if FILTER_ID in [dcpl.get_filter(i)[0] for i in range(dcpl.get_nfilters())]:
                found.add(name)

    with h5py.File(path, "r") as file:
        file.visititems(look)
    return found


@pytest.mark.parametrize("filters", [("UD=59810,0,0",), ("UD=59810,1,0",), ("UD=59810,0,1,1",), ("UD=59810,0,1,0x2",),
                                     ("UD=59810,0,3,2,4,64",), ("SHUF", "UD=59810,0,0"), ("FLET", "UD=59810,0,0"),
                                     ("GZIP=4", "UD=59810,0,0"), ("UD=59810,0,0", "FLET")], ids=" ".join)
def test_repack_there_and_back(plain, tmp_path, filters):
    there = repacked(plain, tmp_path / "there.h5", *(word for name in filters for word in ("-f", name)))
    run("h5diff", plain, there)
    check_content(there)
    # h5repack leaves out scalars, what is empty, and values of variable length when the filter is mandatory
    names = filtered(there)
    assert "contiguous" in names and "gzip" in names and "scalar" not in names
    wanted = {"cases/" + case.name for case in CASES if "empty" not in case.layout.name}
    assert wanted <= names
    back = repacked(there, tmp_path / "back.h5", "-f", "NONE")
    run("h5diff", plain, back)
    run("h5diff", there, back)
    assert not filtered(back)
    check_content(back)


def test_repack_to_other_chunks(plain, tmp_path):
    """The values speak of the new chunks, from a file without LMC and from one with it."""
    small = repacked(plain, tmp_path / "small.h5", "-f", "contiguous:UD=59810,0,1,2", "-l", "contiguous:CHUNK=250")
    other = repacked(small, tmp_path / "other.h5", "-l", "contiguous:CHUNK=3000")
    third = repacked(other, tmp_path / "third.h5", "-f", "contiguous:UD=59810,0,1,1", "-l", "contiguous:CHUNK=77")
    for path, count, level in ((small, 250, 2), (other, 3000, 2), (third, 77, 1)):
        with h5py.File(path, "r") as file:
            assert file["contiguous"].chunks == (count,)
            assert lmc_values(file["contiguous"])[6:] == (4 * count, 0)
            assert lmc_values(file["contiguous"])[0] == level
        run("h5diff", plain, path)
        check_content(path)


def test_repack_of_snapshots(tmp_path):
    """Rows are noted down for each new chunk, kept by copies, and given up with the level."""
    values = numpy.cumsum(numpy.ones((20, 50, 40), "<f4"), axis=0)
    paths = [tmp_path / f"{i}.h5" for i in range(7)]
    with h5py.File(paths[0], "w") as file:
        file.create_dataset("x", data=values, maxshape=(None, 50, 40), chunks=(5, 50, 40))
    repacked(paths[0], paths[1], "-f", "UD=59810,0,1,16")
    repacked(paths[1], paths[2])
    repacked(paths[2], paths[3], "-l", "x:CHUNK=10x25x40")
    repacked(paths[3], paths[4], "-f", "UD=59810,0,1,2")
    repacked(paths[4], paths[5], "-f", "SHUF", "-f", "UD=59810,1,3,18,0,64")
    run("h5copy", "-i", paths[5], "-o", paths[6], "-s", "x", "-d", "x")
    wanted = [None, (16, 5, 160), (16, 5, 160), (16, 10, 160), (2, 0, 160), (18, 10, 160), (18, 10, 160)]
    for path, rows in zip(paths, wanted):
        with h5py.File(path, "r") as file:
            found = lmc_values(file["x"]) if rows else None
            assert found is None or (found[0],) + found[8:] == rows
            assert file["x"][...].tobytes() == values.tobytes()


def test_repack_of_one_dataset(plain, tmp_path):
    path = repacked(plain, tmp_path / "one.h5", "-f", "/contiguous,/gzip:UD=59810,0,0")
    assert filtered(path) - {"hard"} == {"contiguous", "gzip"}
    run("h5diff", plain, path)


def test_repack_with_bad_values_keeps_the_data(plain, tmp_path):
    """h5repack says nothing, and the datasets stay as they were; -v tells."""
    path = repacked(plain, tmp_path / "bad.h5", "-f", "UD=59810,0,1,9")
    assert not filtered(path)
    run("h5diff", plain, path)
    check_content(path)
    said = run("h5repack", "-v", "-f", "UD=59810,0,1,9", plain, tmp_path / "verbose.h5").stdout
    assert re.search("warning: could not create dataset </contiguous>. Applying original settings", said)


@pytest.mark.parametrize("bed", beds_written())
@pytest.mark.parametrize("sweep", ["contents", "layouts", "histories", "objects"])
def test_repack_of_what_other_libraries_wrote(bed, sweep, tmp_path):
    source = os.path.join(EXCHANGE, bed, sweep + ".h5")
    path = repacked(source, tmp_path / "none.h5", "-f", "NONE")
    assert not [name for name in filtered(path) if "reference" not in name]  # their pipelines are always kept
    run("h5diff", source, path)
    with h5py.File(path, "r") as file:
        if sweep == "objects":
            faults = [objects.fault(file, *case) for case in objects.CASES]
        else:
            faults = [case.fault(file[group]) for group, cases in sweeps.SWEEPS[sweep].items() if group in file
                      for case in cases if case.filetype.is_here]
    assert faults and not any(faults), faults


# ---- what the tools show ----


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    path = tmp_path_factory.mktemp("shown") / "shown.h5"
    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        for name, options in (("x", {}), ("y", {"compression_opts": (2, 0, 64), "shuffle": True})):
            file.create_dataset(name, data=numpy.arange(1000, dtype="<f4"), chunks=(100,), compression=FILTER_ID,
                                **options)
    return path


def test_h5dump_shows_name_and_values(shown):
    text = run("h5dump", "-pH", shown).stdout
    assert f"FILTER_ID {FILTER_ID}" in text and f"COMMENT {FILTER_NAME}" in text
    assert "PARAMS { 0 0 0 826494284 4 1179649 400 0 }" in text
    assert "PARAMS { 2 0 64 826494284 4 17957377 400 0 }" in text


def test_h5ls_shows_name_and_values(shown):
    text = run("h5ls", "-v", shown).stdout
    assert f"{FILTER_NAME}-{FILTER_ID} OPT {{0, 0, 0, 826494284, 4, 1179649, 400, 0}}" in text


def test_h5stat_counts_it(shown):
    assert re.search(r"USER-DEFINED filter: 2", run("h5stat", shown).stdout)


def dumped(path, *options):
    """Text of h5dump without the file's name."""
    return run("h5dump", *options, path).stdout.split("\n", 1)[1]


def test_h5dump_gives_the_same_data(plain, tmp_path):
    there = repacked(plain, tmp_path / "there.h5", "-f", "UD=59810,0,0")
    chosen = ("f8be", "u2le", "string5", "compound_nested", "array_f4")
    for name in ["/contiguous", "/gzip"] + ["/cases/" + case.name for case in CASES if case.filetype.name in chosen]:
        text = dumped(there, "-d", name)
        assert text == dumped(plain, "-d", name) and "(0" in text


def test_h5copy_copies_chunks(shown, tmp_path):
    """Also where the plugin is missing: they are not decoded."""
    for plugin in (True, False):
        path = tmp_path / f"copy{plugin}.h5"
        run("h5copy", "-i", shown, "-o", path, "-s", "/x", "-d", "/x", plugin=plugin)
        with h5py.File(path, "r") as copy, h5py.File(shown, "r") as file:
            assert copy["x"][...].tobytes() == file["x"][...].tobytes()
            assert copy["x"].id.read_direct_chunk((300,)) == file["x"].id.read_direct_chunk((300,))


# ---- faults ----


def test_repack_without_the_plugin(shown, tmp_path):
    """Without -f chunks are copied; with it h5repack leaves datasets out and says so: docs/hdf5-filter.md warns."""
    path = repacked(shown, tmp_path / "copied.h5", plugin=False)
    run("h5diff", shown, path)
    result = run("h5repack", "-f", "NONE", shown, tmp_path / "lost.h5", plugin=False, rc=None)
    assert result.returncode != 0 or "is not available" in result.stdout


@pytest.fixture(scope="module")
def damaged(shown, tmp_path_factory):
    path = tmp_path_factory.mktemp("damaged") / "damaged.h5"
    path.write_bytes(shown.read_bytes())
    with h5py.File(path, "r+") as file:
        _, chunk = file["x"].id.read_direct_chunk((400,))
        file["x"].id.write_direct_chunk((400,), chunk[:60] + bytes([chunk[60] ^ 1]) + chunk[61:])
    return path


def test_tools_report_a_damaged_chunk(damaged, shown, tmp_path):
    for command in (("h5dump", damaged), ("h5dump", "-d", "/x", damaged), ("h5diff", damaged, shown),
                    ("h5repack", "-f", "NONE", damaged, tmp_path / "out.h5"),
                    ("h5repack", "-l", "CHUNK=30", damaged, tmp_path / "out2.h5")):
        result = run(*command, rc=None)
        assert result.returncode > 0, command
    assert "lmc: chunk: " in run("h5dump", "--enable-error-stack", damaged, rc=1).stdout
    run("h5dump", "-d", "/y", damaged)
    run("h5ls", "-v", damaged)
