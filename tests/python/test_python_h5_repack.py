"""lmcodec.h5.repack(): what is kept, and that the output appears whole or not at all."""
import os

import numpy
import pytest

h5py = pytest.importorskip("h5py", reason="h5py is not installed (Debian: python3-h5py)")
import lmcodec  # noqa: E402
import lmcodec.h5 as h5  # noqa: E402
from h5py import h5d, h5s, h5t  # noqa: E402


@pytest.fixture
def src(directory):
    return os.path.join(directory, "src.h5")


@pytest.fixture
def dst(directory):
    return os.path.join(directory, "dst.h5")


@pytest.fixture
def weights():
    return (numpy.random.default_rng(1).standard_normal((128, 1024)) * 0.02).astype("f4")


def test_datasets(src, dst, weights):
    with h5py.File(src, "w") as file:
        file["plain"] = weights
        file["big endian"] = weights.astype(">f4")
        file["complex"] = weights.astype("c16")
        file["flags"] = weights > 0
        file["records"] = numpy.zeros(10000, [("a", "i2"), ("b", "f8", (3,))])
        file["bytes"] = numpy.array([b"abc", b"defg"] * 9000)
        file.create_dataset("enum", data=numpy.arange(40000) % 3, dtype=h5py.enum_dtype({"A": 0, "B": 1, "C": 2}))
        file.create_dataset("gzip", data=weights, chunks=(32, 1024), compression="gzip", shuffle=True, fletcher32=True)
        file.create_dataset("growing", data=weights, maxshape=(None, 1024), fillvalue=7, chunks=(32, 512))
        file.create_dataset("scaled", data=numpy.arange(100000), scaleoffset=0)
        file.create_dataset("rows", data=weights, chunks=(128, 1024), compression=h5.LMC("fast", rows=True))
        file["small"] = weights[0, :9]
        file["scalar"] = 7.5
        file["empty"] = h5py.Empty("f4")
        file["zero"] = numpy.zeros((0, 5))
        file["text"] = "text"
        file["texts"] = numpy.array(["a", "bc"] * 9000, dtype=h5py.string_dtype())
        file.create_dataset("lists", data=[numpy.arange(n) for n in range(3)], dtype=h5py.vlen_dtype("i4"))
    result = h5.repack(src, dst, level="max")
    assert result.stored_nbytes == os.path.getsize(dst) < result.nbytes == os.path.getsize(src)
    assert (result.dataset_count, result.encoded_count) == (18, 10) and result.ratio < 1
    found = h5.inspect(dst)
    with h5py.File(src) as old, h5py.File(dst) as new:
        assert list(old) == list(new)
        for name in old:
            assert old[name].dtype == new[name].dtype and old[name].shape == new[name].shape, name
            assert old[name].maxshape == new[name].maxshape, name
            assert old[name].id.get_type() == new[name].id.get_type(), name
            if old[name].shape:
                assert all(map(numpy.array_equal, old[name][()], new[name][()])), name
        assert new["scalar"][()] == 7.5 and new["text"][()] == old["text"][()] and new["growing"].fillvalue == 7
        assert h5py.check_enum_dtype(new["enum"].dtype) == {"A": 0, "B": 1, "C": 2}
        assert new["rows"].id.get_create_plist().get_filter(0)[2][0] == 18
    encoded = {name for name, report in found.items() if report.is_lmc}
    assert encoded == {"plain", "big endian", "complex", "flags", "records", "bytes", "enum", "gzip", "growing", "rows"}
    assert found["gzip"].filters == ("lmc", "fletcher32") and found["gzip"].chunks == (32, 1024)
    assert found["scaled"].filters == ("scaleoffset",) and found["growing"].chunks == (32, 512)
    assert not any(report.problems for report in found.values())


def test_chunks(src, dst, weights):
    with h5py.File(src, "w") as file:
        file.create_dataset("w", data=weights, chunks=(1, 128), compression="gzip")
        file.create_dataset("growing", data=weights[:, :50], maxshape=(None, 50), chunks=(1000, 50))
    h5.repack(src, dst, chunk_nbytes=1 << 17, min_nbytes=0)
    assert h5.inspect(dst)["w"].chunks == (32, 1024)
    with h5py.File(dst) as file:
        assert numpy.array_equal(file["w"][()], weights) and numpy.array_equal(file["growing"][()], weights[:, :50])


@pytest.mark.parametrize("shape, chunk", [((7, 5, 3), (2, 3, 2)), ((100000,), (999,)), ((3000, 3000), (7, 3000)),
                                          ((50, 20), (60, 30))])
def test_edges(src, dst, shape, chunk):
    values = numpy.arange(numpy.prod(shape), dtype="i4").reshape(shape)
    with h5py.File(src, "w") as file:
        file.create_dataset("w", data=values, chunks=chunk, maxshape=(None,) * len(shape))
    assert h5.repack(src, dst, min_nbytes=0).encoded_count == 1
    with h5py.File(dst) as file:
        assert numpy.array_equal(file["w"][()], values)


def test_sparse(src, dst):
    """Chunks that do not exist are not written."""
    with h5py.File(src, "w") as file:
        dataset = file.create_dataset("w", shape=(1 << 20, 1 << 10), dtype="f4", chunks=(256, 1024), fillvalue=3)
        dataset[5000:5003, 7] = 5
    h5.repack(src, dst)
    assert h5.inspect(dst)["w"].chunk_count == 1 and os.path.getsize(dst) < 1 << 20
    with h5py.File(dst) as file:
        assert file["w"][5002, 7] == 5 and file["w"][5003, 7] == 3


def test_types_that_numpy_lacks(src, dst):
    """Elements are copied as they are stored."""
    datatype = h5t.IEEE_F32LE.copy()
    datatype.set_fields(15, 8, 7, 0, 7)
    datatype.set_size(2)
    datatype.set_ebias(127)
    values = numpy.arange(20000, dtype="u2")
    with h5py.File(src, "w") as file:
        dataset = h5d.create(file.id, b"bf16", datatype, h5s.create_simple(values.shape))
        dataset.write(h5s.ALL, h5s.ALL, values, mtype=datatype)
    h5.repack(src, dst)
    assert h5.inspect(dst)["bf16"].is_lmc
    with h5py.File(dst) as file:
        found = numpy.empty_like(values)
        file["bf16"].id.read(h5s.ALL, h5s.ALL, found, mtype=datatype)
        assert numpy.array_equal(found, values) and file["bf16"].id.get_type() == datatype


def test_links_and_groups(src, dst, weights):
    with h5py.File(src, "w") as file:
        tracked = file.create_group("tracked", track_order=True)
        for name in ("z", "\u00e4", "a"):
            tracked[name] = weights
            tracked.attrs[name] = name
        file["a/b/c/deep"] = weights
        file["a/hard"] = tracked["z"]
        file["a/loop"] = file["a"]
        file["a/soft"] = h5py.SoftLink(tracked.name + "/a")
        file["a/dangling"] = h5py.SoftLink("/nothing")
        file["a/external"] = h5py.ExternalLink("other.h5", "/w")
        file.create_group("nothing here")
    result = h5.repack(src, dst)
    assert result.dataset_count == 4
    with h5py.File(dst) as file:
        assert sorted(file) == ["a", "nothing here", "tracked"]
        assert list(file["tracked"]) == ["z", "\u00e4", "a"] == list(file["tracked"].attrs)
        assert file["a/hard"] == file["tracked/z"] and file["a/loop/loop"] == file["a"]
        assert file["a"].get("soft", getlink=True).path == file["tracked"].name + "/a"
        assert file["a"].get("dangling", getlink=True).path == "/nothing"
        link = file["a"].get("external", getlink=True)
        assert (link.filename, link.path) == ("other.h5", "/w")
        assert numpy.array_equal(file["a/b/c/deep"][()], weights)


def test_attributes(src, dst, weights):
    values = {"text": "text", "bytes": numpy.bytes_(b"abc"), "number": 7, "array": numpy.arange(6.).reshape(2, 3),
              "texts": ["a", "bc"], "flag": True, "complex": 1j, "wide": numpy.zeros(1000)}
    with h5py.File(src, "w") as file:
        file["w"], file["small"] = weights, weights[0]
        file.create_group("g")
        for place in (file, file["w"], file["small"], file["g"]):
            for name, value in values.items():
                place.attrs[name] = value
            place.attrs["empty"] = h5py.Empty("f4")
            place.attrs.create("lists", [numpy.arange(n) for n in range(3)], dtype=h5py.vlen_dtype("i4"))
    h5.repack(src, dst)
    with h5py.File(src) as old, h5py.File(dst) as new:
        for name in ("/", "w", "small", "g"):
            assert set(old[name].attrs) == set(new[name].attrs)
            for key in values:
                assert numpy.array_equal(new[name].attrs[key], old[name].attrs[key]), (name, key)
                assert new[name].attrs.get_id(key).get_type() == old[name].attrs.get_id(key).get_type(), (name, key)
            assert isinstance(new[name].attrs["empty"], h5py.Empty)
            assert [list(one) for one in new[name].attrs["lists"]] == [[], [0], [0, 1]]


def test_references(src, dst, weights):
    with h5py.File(src, "w") as file:
        file["w"], file["v"] = weights, weights
        file.create_group("g")
        references = numpy.array([file["w"].ref, file["g"].ref, h5py.Reference()], dtype=h5py.ref_dtype)
        file["references"] = references
        file["region"] = file["w"].regionref[1:3, 5:9]
        record = numpy.zeros(2, [("n", "i4"), ("r", h5py.ref_dtype)])
        record[0], record[1] = (0, h5py.Reference()), (5, file["v"].ref)
        file["records"] = record
        for place in (file, file["w"], file["references"]):
            place.attrs["one"] = file["g"].ref
            place.attrs["many"] = references
            place.attrs["region"] = file["w"].regionref[1:3, 5:9]
        file["w"].make_scale("x")  # REFERENCE_LIST and DIMENSION_LIST, as netCDF-4 has them
        file["v"].dims[0].attach_scale(file["w"])
        file["gone"] = weights
        file["dangling"] = file["gone"].ref
        del file["gone"]
    h5.repack(src, dst)
    with h5py.File(dst) as file:
        assert [file[one].name for one in file["references"][:2]] == ["/w", "/g"] and not file["references"][2]
        assert file["w"][file["region"][()]].shape == (2, 4)
        assert file[file["records"][1]["r"]] == file["v"] and file["records"][1]["n"] == 5
        for name in ("/", "w", "references"):
            assert file[file[name].attrs["one"]] == file["g"] and file[file[name].attrs["many"][0]] == file["w"]
            assert file["w"][file[name].attrs["region"]].shape == (2, 4)
        assert file["v"].dims[0][0] == file["w"] and file[file["w"].attrs["REFERENCE_LIST"][0][0]] == file["v"]
        assert not file["dangling"][()]


def test_committed_types(src, dst, weights):
    with h5py.File(src, "w") as file:
        file["types/float"] = numpy.dtype("f4")
        file["types/float"].attrs["about"] = "shared"
        file["types/records"] = numpy.dtype([("a", "i2"), ("b", h5py.string_dtype())])
        file.create_dataset("w", data=weights, dtype=file["types/float"])
        file.create_dataset("small", data=weights[0], dtype=file["types/float"])
        file["w"].attrs.create("typed", 5, dtype=file["types/float"])
        file["types/inside"] = weights
    h5.repack(src, dst)
    with h5py.File(dst) as file:
        assert sorted(file["types"]) == ["float", "inside", "records"]
        assert file["types/float"].attrs["about"] == "shared"
        for typed in (file["w"].id, file["small"].id, file["w"].attrs.get_id("typed")):
            assert typed.get_type().committed() and typed.get_type() == file["types/float"].id


def test_virtual_and_external(directory, src, dst, weights):
    with h5py.File(src, "w") as file:
        file["w"] = weights
        layout = h5py.VirtualLayout(weights.shape, "f4")
        layout[:] = h5py.VirtualSource(file["w"])
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("external", data=weights, external=[(os.path.join(directory, "data"), 0, weights.nbytes)])
    h5.repack(src, dst)
    with h5py.File(dst) as file:
        assert file["virtual"].is_virtual and numpy.array_equal(file["virtual"][()], weights)
        assert file["external"].external and numpy.array_equal(file["external"][()], weights)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_file_properties(src, dst, weights, libver):
    with h5py.File(src, "w", userblock_size=1024, libver=libver, track_order=True) as file:
        file["b"], file["a"] = weights, weights
        if libver == "latest":
            file.attrs["large"] = numpy.zeros(20000)
    with open(src, "r+b") as plain:
        plain.write(b"a user block")
    h5.repack(src, dst)
    with open(dst, "rb") as plain:
        assert plain.read(1024) == b"a user block" + bytes(1012)
    with h5py.File(dst) as file:
        assert list(file["/"]) == ["b", "a"] and file.userblock_size == 1024


# ---- the output ----

def test_existing_output(directory, src, dst, weights):
    with h5py.File(src, "w") as file:
        file["w"] = weights
    with open(dst, "wb") as file:
        file.write(b"precious")
    with pytest.raises(FileExistsError):
        h5.repack(src, dst)
    with open(dst, "rb") as file:
        assert file.read() == b"precious"
    h5.repack(src, dst, overwrite=True)
    h5.repack(src, src, overwrite=True)
    for path in (src, dst):
        assert h5.inspect(path)["w"].is_lmc
    assert sorted(os.listdir(directory)) == ["dst.h5", "src.h5"]


def test_errors_name_the_file(src, dst):
    for read in (lambda: h5.repack(src, dst), lambda: h5.inspect(src)):
        with pytest.raises(FileNotFoundError) as caught:
            read()
        assert caught.value.filename == src
    with h5py.File(src, "w"):
        pass
    nowhere = os.path.join(os.path.dirname(src), "none", "dst.h5")
    for overwrite in (False, True):
        with pytest.raises(FileNotFoundError) as caught:
            h5.repack(src, nowhere, overwrite=overwrite)
        assert os.path.realpath(caught.value.filename) == os.path.realpath(nowhere)
    with open(src, "w") as file:
        file.write("this is a text, and no HDF5 file " * 10)
    for read in (lambda: h5.repack(src, dst), lambda: h5.inspect(src)):
        with pytest.raises(OSError, match="not an HDF5 file") as caught:
            read()
        assert src in str(caught.value)


@pytest.mark.parametrize("sizes", [{"chunk_nbytes": 0}, {"chunk_nbytes": -1}, {"chunk_nbytes": 1.5},
                                   {"min_nbytes": -1}, {"min_nbytes": None}], ids=str)
def test_sizes_that_are_refused(src, dst, weights, sizes):
    with h5py.File(src, "w") as file:
        file["w"] = weights
    with pytest.raises(lmcodec.ArgumentError, match=next(iter(sizes))):
        h5.repack(src, dst, **sizes)
    with pytest.raises(lmcodec.ArgumentError, match=next(iter(sizes))), h5.compress(**sizes):
        pass
    assert not os.path.exists(dst)


def test_paths_of_bytes(src, dst, weights):
    with h5py.File(src, "w") as file:
        file["w"] = weights
    for overwrite in (False, True):
        h5.repack(os.fsencode(src), os.fsencode(dst), overwrite=overwrite)
        assert h5.inspect(dst)["w"].is_lmc


@pytest.mark.parametrize("options, reason", [
    ({"compression": h5.LMC()}, "lmc: chunk: "), ({"compression": h5.LMC(), "shuffle": True}, "lmc: chunk: "),
    ({"compression": "gzip"}, "read data ("), ({"fletcher32": True}, "read data (")],  # the text of HDF5
    ids=["lmc", "shuffle and lmc", "gzip", "fletcher32"])
def test_a_dataset_that_cannot_be_read_is_named(src, dst, weights, options, reason):
    """With the reason of LMC's filter if that failed: an earlier failure of it is none of another filter."""
    with h5py.File(src, "w") as file:
        file["sound"] = weights
        dataset = file.create_dataset("parts/w", data=weights, chunks=(64, 1024), **options)
        stored = bytearray(dataset.id.read_direct_chunk((64, 0))[1])
        stored[len(stored) // 2] ^= 1
        dataset.id.write_direct_chunk((64, 0), bytes(stored))
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            h5.repack(src, dst)
        assert str(caught.value).startswith("%s: dataset /%s: " % (src, "parts/w")) and reason in str(caught.value)
        assert ("lmc: " in str(caught.value)) == ("lmc" in reason) == bool(h5.last_error())
        fail_in_the_filter(src + ".other", weights)


def fail_in_the_filter(path, weights):
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("w", data=weights, chunks=(64, 1024), compression=h5.LMC())
        dataset.id.write_direct_chunk((0, 0), b"damaged")
        with pytest.raises(OSError):
            dataset[()]
    assert h5.last_error().startswith("lmc: chunk: ")


def test_nothing_is_left(directory, src, dst, weights):
    with pytest.raises(OSError):
        h5.repack(src, dst)
    with h5py.File(src, "w") as file:
        dataset = file.create_dataset("w", data=weights, chunks=(64, 1024), compression=h5.LMC())
        dataset.id.write_direct_chunk((0, 0), b"damaged")
    with pytest.raises(OSError):
        h5.repack(src, dst)
    with pytest.raises(lmcodec.ArgumentError):
        h5.repack(src, dst, level="best")
    with pytest.raises(OSError):
        h5.repack(src, os.path.join(directory, "none", "dst.h5"))
    assert os.listdir(directory) == ["src.h5"]


@pytest.mark.posix
def test_mode_time_and_link_of_the_output(directory, src, dst, weights):
    with h5py.File(src, "w") as file:
        file["w"] = weights
    os.chmod(src, 0o440)
    os.utime(src, (5, 7))
    link = os.path.join(directory, "link.h5")
    os.symlink("src.h5", link)
    h5.repack(src, dst)
    h5.repack(link, link, overwrite=True)
    assert os.path.islink(link) and h5.inspect(src)["w"].is_lmc
    for path in (src, dst):
        assert os.stat(path).st_mode & 0o777 == 0o440 and os.stat(path).st_mtime == 7


@pytest.mark.parametrize("chunk", [64, 65536])
def test_datasets_that_another_compression_stores_in_fewer_bytes(src, dst, weights, chunk):
    with h5py.File(src, "w") as file:
        for name, values in (("times", numpy.arange(200000) * 1000), ("w", weights.reshape(-1)),
                             ("more times", numpy.arange(200000) * 1001)):
            file.create_dataset(name, data=values, chunks=(max(chunk, values.size if name == "w" else 0),),
                                compression="gzip", shuffle=True)
            file[name].attrs["about"] = name
    result, found = h5.repack(src, dst), h5.inspect(dst)
    assert result.stored_nbytes <= result.nbytes and (result.dataset_count, result.encoded_count) == (3, 1)
    assert found["times"].filters == found["more times"].filters == ("shuffle", "deflate") and found["w"].is_lmc
    with h5py.File(src) as old, h5py.File(dst) as new:
        for name in old:
            assert (old[name][()] == new[name][()]).all() and new[name].attrs["about"] == name


def test_storage_that_was_never_allocated(src, dst):
    with h5py.File(src, "w") as file:
        file.create_dataset("none", (1 << 40,), "f8", fillvalue=3)
    h5.repack(src, dst)
    assert h5.inspect(dst)["none"].is_lmc and h5.inspect(dst)["none"].stored_nbytes == 0
    with h5py.File(dst) as file:
        assert file["none"][1 << 39] == 3


def test_fill_value_of_variable_length(src, dst):
    """As netCDF-4 gives to variables of text."""
    with h5py.File(src, "w") as file:
        file.create_dataset("texts", shape=(50,), dtype=h5py.string_dtype(), fillvalue="nothing", chunks=(7,),
                            maxshape=(None,), compression="gzip")[3] = "x"
        file["texts"].attrs["about"] = "texts"
    h5.repack(src, dst)
    with h5py.File(dst, "r+") as file:
        texts = file["texts"]
        assert texts.compression == "gzip" and texts.attrs["about"] == "texts" and texts.chunks == (7,)
        assert list(texts.asstr()[2:5]) == ["nothing", "x", "nothing"]
        texts.resize((60,))
        assert texts.asstr()[59] == "nothing"
