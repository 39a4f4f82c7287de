"""Servers that fail, and files that are damaged or change: an exception that names the URL, or the right bytes."""
import errno
import traceback

import numpy
import pytest

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

import fsspec  # noqa: E402
import lmcodec  # noqa: E402
import lmcodec.numpy  # noqa: E402
import lmcodec.remote  # noqa: E402
from lmcodec._remote.chain import Place  # noqa: E402
from lmcodec._remote.source import Source  # noqa: E402

from range_server import RangeServer  # noqa: E402
from remote_files import chain_files, check_equal, content_of, write_chain  # noqa: E402


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Content of an archive whose tensors are not in its first 512 KiB, and the tensors."""
    path = str(tmp_path_factory.mktemp("made") / "a.safetensors.lmc")
    random = numpy.random.default_rng(4)
    tensors = {"a.first": random.integers(0, 256, 600000, dtype="u1"),
               "matrix": random.standard_normal((2000, 600)).astype("f4")}
    lmcodec.numpy.save_file(tensors, path)
    return content_of(path), tensors


@pytest.fixture
def server(made):
    with RangeServer({"d/a.lmc": made[0]}) as running:
        yield running


def open_quickly(server, **options):
    """Without many tries."""
    return lmcodec.remote.open(server.url + "d/a.lmc", "np", **{"retries": 1, "timeout": 5, **options})


@pytest.mark.parametrize("fault", ["503", "drop", "short"])
def test_what_passes(fault, made, server):
    """Any request may fail once or twice."""
    server.faults = [fault]
    with open_quickly(server, retries=3) as opened:
        server.faults = [fault, "", fault, fault]
        check_equal(opened.get_tensors(), made[1])
        server.faults = [fault, fault]
        assert numpy.array_equal(opened.get_slice("matrix")[1000:1002], made[1]["matrix"][1000:1002])
    assert server.faults == []


@pytest.mark.parametrize("fault,text", [("503", "503"), ("drop", "bytes"), ("short", "bytes instead of"),
                                        ("ignore", "Range"), ("shift", "another part"), ("unsized", "the size"),
                                        ("gzip", "gzip")])
def test_what_stays(fault, text, server):
    with open_quickly(server) as opened:
        server.forget()
        server.always = fault
        for read in (lambda: opened.get_tensor("matrix"), opened.get_tensors,
                     lambda: opened.get_slice("matrix")[7]):
            with pytest.raises(OSError, match=text) as raised:
                read()
            assert raised.value.filename == server.url + "d/a.lmc"
        assert server.count() <= 2 * 4  # a read is tried once more, and a slice reads two ends at once
        if fault in ("ignore", "shift", "gzip", "unsized"):
            assert server.count() <= 4
    with pytest.raises(OSError, match=text):
        open_quickly(server)


def test_a_server_that_sends_nothing(server):
    server.always = "hang"
    with pytest.raises(TimeoutError) as raised:
        open_quickly(server, timeout=0.2, retries=0)
    assert raised.value.filename == server.url + "d/a.lmc"


@pytest.mark.parametrize("fault", ["trickle", "trickling head"])
@pytest.mark.parametrize("options,text", [
    ({"lowest_rate": 1000, "timeout": 0.5, "retries": 1}, "a second are the least"),
    ({"lowest_rate": 0, "time_limit": 0.5}, "time_limit of 0.5 s")], ids=["rate", "limit"])
def test_a_server_that_trickles(options, text, fault, made, server):
    """A byte comes within each timeout. The answer would take hours."""
    with open_quickly(server, **options) as opened:
        server.always = fault
        for read in (lambda: opened.get_tensor("matrix"), lambda: opened.get_slice("matrix")[7]):
            with pytest.raises(TimeoutError, match=text) as raised:
                read()
            assert raised.value.errno == errno.ETIMEDOUT and raised.value.filename == server.url + "d/a.lmc"
        with pytest.raises(TimeoutError, match=text):
            open_quickly(server, **options)
        server.always = ""
        check_equal(opened.get_tensors(), made[1])  # the limit is of each call


def test_a_base_that_trickles(directory, server):
    """It is not taken for missing: the next read looks again."""
    steps = write_chain(directory, 2)
    server.files = chain_files(directory, 2)
    with RangeServer(chain_files(directory, 1)) as slow:
        slow.always = "trickle"
        with lmcodec.remote.open(server.url + "d/s1.safetensors.lmc", "np", base=slow.url + "d/s0.safetensors.lmc",
                                 retries=0, lowest_rate=0, time_limit=1) as opened:
            with pytest.raises(TimeoutError) as raised:
                opened.get_tensor("matrix")
            assert raised.value.filename == slow.url + "d/s0.safetensors.lmc"
            slow.always = ""
            check_equal(opened.get_tensors(), steps[1])


def test_the_time_limit_counts_pauses(server):
    server.always = "503"
    with pytest.raises(TimeoutError, match="time_limit"):
        open_quickly(server, retries=1000, time_limit=0.5)


def test_a_failure_is_raised_in_its_thread(server):
    """The library reads, and its read fails. Another thread hears nothing of it."""
    import threading
    with lmcodec.remote.File(server.url + "d/a.lmc", retries=0) as file:
        source = file._root.source
        room = numpy.empty(10, "u1")
        raised = []

        def read():
            assert source._read(source.nbytes - 10, room.ctypes.data, 10) != 0
            with pytest.raises(OSError, match="503") as found:
                source.raise_failure()
            raised.append(found.value)

        server.always = "503"
        assert source._read(source.nbytes + 1, room.ctypes.data, 10) != 0
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        assert len(raised) == 1
        with pytest.raises(OSError, match="not in the file"):
            source.raise_failure()
        source.raise_failure()


def test_a_small_file_of_a_server_without_ranges(server):
    """All of it is the part that was asked for."""
    tensors = {"a": numpy.arange(100)}
    server.files["small.lmc"] = lmcodec.numpy.save(tensors)
    server.always = "ignore"
    with lmcodec.safe_open(server.url + "small.lmc", "np") as opened:
        check_equal(opened.get_tensors(), tensors)


def test_an_empty_file_whose_size_is_not_told(server):
    server.always = "416"
    with pytest.raises(lmcodec.DataError, match="the file is empty"):
        open_quickly(server)


def test_redirections_without_end(server):
    server.always = "circle"
    with pytest.raises(OSError, match="redirects too often") as raised:
        lmcodec.remote.open(server.url + "d/a.lmc?signature=secret", "np", retries=3)
    assert raised.value.filename == server.url + "d/a.lmc"
    assert server.count() < 20  # it is not tried again
    assert "secret" not in shown(raised.value)


def shown(error):
    """What a program prints that ends with this error; but for the lines of its source."""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return "".join(line for line in lines if not line.startswith("  File"))


def test_no_server(server):
    with RangeServer() as gone:
        url = gone.url
    with pytest.raises(OSError) as raised:
        lmcodec.remote.open(url + "a.lmc", "np", retries=1)
    assert raised.value.filename == url + "a.lmc"


@pytest.mark.parametrize("place", ["{}d/none.lmc", "memory://remote-none/none.lmc", "file:///nowhere/none.lmc"])
def test_no_file(place, server):
    url = place.format(server.url)
    with pytest.raises(FileNotFoundError) as raised:
        lmcodec.safe_open(url + "?signature=secret" if "127" in url else url, "np")
    assert raised.value.errno == errno.ENOENT and raised.value.filename == url
    assert server.count("d/none.lmc") <= 1  # it is not tried again


def test_a_folder(directory):
    with pytest.raises(OSError, match="directory"):
        lmcodec.safe_open("file://" + directory, "np")


@pytest.mark.parametrize("content", [b"", b"abc", b"\x10" + bytes(7) + b"{" + bytes(100), b"<html>no such page</html>"],
                         ids=["empty", "short", "header", "page"])
def test_no_such_file_format(content, server):
    server.files["x.lmc"] = content
    with pytest.raises(lmcodec.DataError) as raised:
        lmcodec.safe_open(server.url + "x.lmc", "np")
    assert raised.value.file == server.url + "x.lmc"


@pytest.mark.parametrize("cut", [100, 5000, 700000, -1])
def test_a_cut_file(cut, made, server):
    server.files["x.lmc"] = made[0][:cut]
    with pytest.raises(lmcodec.DataError):
        lmcodec.safe_open(server.url + "x.lmc", "np").get_tensors()


def test_damage(made, server):
    """At each of many places: no wrong byte passes."""
    content, tensors = made
    with lmcodec.safe_open(server.url + "d/a.lmc", "np"):
        header_end = 8 + int.from_bytes(content[:8], "little")
    for at in [3, 40, header_end - 3, header_end + 20, header_end + 200, *range(header_end + 700, len(content), 300007),
               len(content) - 1]:
        damaged = bytearray(content)
        damaged[at] ^= 4
        server.files["d/%d.lmc" % at] = bytes(damaged)
        with pytest.raises(lmcodec.LMCError) as raised, \
                lmcodec.safe_open(server.url + "d/%d.lmc" % at, "np") as opened:
            check_equal(opened.get_tensors(), tensors)
        assert raised.value.file == server.url + "d/%d.lmc" % at
        if at > header_end + 700:
            assert raised.value.tensor in tensors and isinstance(raised.value, lmcodec.DataError)
            assert raised.value.offset is not None


@pytest.mark.parametrize("etag", [True, False], ids=["tags", "no tags"])
@pytest.mark.parametrize("change", ["other", "longer", "shorter", "gone"])
def test_a_file_that_changes(change, etag, made, server):
    """Sizes and tags tell it, or the checksums do."""
    content, tensors = made
    other = lmcodec.numpy.save({name: array[::-1].copy() for name, array in tensors.items()})
    server.etag = etag
    with open_quickly(server) as opened:
        changed = {"other": other[:len(content)].ljust(len(content), b"x"), "longer": content + b"x",
                   "shorter": content[:700000]}
        if change == "gone":
            del server.files["d/a.lmc"]
        else:
            server.files["d/a.lmc"] = changed[change]
        server.forget()
        expected = FileNotFoundError if change == "gone" else lmcodec.DataError
        for read in (opened.get_tensors, lambda: opened.get_slice("matrix")[1900]):
            with pytest.raises(expected) as raised:
                read()
            if change != "gone":
                assert raised.value.file == server.url + "d/a.lmc"
            if change != "gone" and (etag or change != "other"):
                assert "has changed" in str(raised.value)
        assert server.count() <= 3  # nothing is tried again
        server.files["d/a.lmc"] = content
        check_equal(opened.get_tensors(), tensors)


def test_a_store_that_shrinks(made):
    """Without tags: what is missing is told."""
    memory = fsspec.filesystem("memory")
    memory.pipe("remote-shrinks/a.lmc", made[0])
    with lmcodec.remote.open("memory://remote-shrinks/a.lmc", "np", retries=1) as opened:
        memory.pipe("remote-shrinks/a.lmc", made[0][:-1000])
        with pytest.raises(OSError, match="bytes instead of") as raised:
            opened.get_tensors()
        assert raised.value.filename == "memory://remote-shrinks/a.lmc"


def test_secrets_are_not_shown(server):
    url = server.url.replace("127.0.0.1", "user:password@127.0.0.1") + "d/a.lmc?X-Amz-Signature=secret"
    server.always = "503"
    with pytest.raises(OSError) as raised:
        lmcodec.remote.open(url, "np", retries=0)
    assert "secret" not in str(raised.value) and "password" not in str(raised.value)
    with RangeServer() as gone:
        place = gone.url
    for user in ("user:password@", "user:pass@word:password@", "password@"):
        with pytest.raises(OSError) as raised:
            lmcodec.remote.open(place.replace("127", user + "127") + "a.lmc?signature=secret", "np", retries=0)
        assert raised.value.filename == place + "a.lmc"
        assert "secret" not in shown(raised.value) and "password" not in shown(raised.value)
    server.always = ""
    server.files["d/b.lmc"] = server.files["d/a.lmc"][:-1]
    with pytest.raises(lmcodec.DataError) as raised:
        lmcodec.safe_open(url.replace("a.lmc", "b.lmc"), "np")
    assert "secret" not in str(raised.value) and "password" not in str(raised.value)


@pytest.mark.parametrize("fault", ["503", "drop", "hang"])
def test_an_outage_while_a_base_is_searched_for(fault, directory):
    """It does not make the base a missing one: the open file reads on once the server answers again."""
    steps = write_chain(directory, 2)
    with RangeServer(chain_files(directory, 2)) as server, \
            lmcodec.remote.open(server.url + "d/s1.safetensors.lmc", "np", retries=0, timeout=1) as opened:
        server.always = fault
        with pytest.raises(OSError, match="http://"):
            opened.get_tensors()
        server.always = ""
        check_equal(opened.get_tensors(), steps[1])


def test_a_place_that_is_refused_has_no_base(directory):
    """The search goes on: one server forbids names, another one has the base."""
    steps = write_chain(directory, 2)
    files = chain_files(directory, 2)
    with RangeServer({"d/s1.safetensors.lmc": files.pop("d/s1.safetensors.lmc")}) as server, \
            RangeServer(files) as other, RangeServer() as strange:
        server.missing, strange.missing = 403, 400
        with lmcodec.remote.open(server.url + "d/s1.safetensors.lmc", "np",
                                 base_dirs=[strange.url + "d", other.url + "d"]) as opened:
            check_equal(opened.get_tensors(), steps[1])


def test_signatures_are_not_shown(made):
    """Neither of a damaged archive nor of an index of weights."""
    from lmcodec._serving.weights import parts_of
    for index in (b"[", b'{"weight_map": 1}', b'{"weight_map": {"a": "../x"}}'):
        with RangeServer({"d/a.lmc": made[0][:-1], "m/model.safetensors.index.json": index}) as server:
            signed = server.url + "%s?signature=secret"
            [part] = parts_of(signed % "d/a.lmc", None, (), None)
            assert part.shown == server.url + "d/a.lmc"
            for call in (lambda: lmcodec.numpy.load(signed % "d/a.lmc"),
                         lambda: parts_of(signed % "m", None, (), None)):
                with pytest.raises(lmcodec.DataError, match=server.url) as raised:
                    call()
                assert "secret" not in str(raised.value) + str(raised.value.file)


def test_urls_that_differ_in_their_query_alone(made):
    """What was fetched of frames of one is not taken for that of the other."""
    contents = {"get?a.lmc": made[0], "get?b.lmc": bytes(reversed(made[0]))}
    with RangeServer(contents) as server, lmcodec.remote.File(server.url + "get?a.lmc") as file:
        settings = file._made_of[1]
        sources = [Source(settings.locate(server.url + name), settings, file._requests) for name in contents]
        for _ in range(2):
            ends = file._fetch_ends([Place(source, True, 700000, 100000, 0, 0) for source in sources], [0, 0])
            for (source, ranges), content in zip(ends, contents.values()):
                assert ranges.extents[0].view(700000, 700100) == content[700000:700100]
