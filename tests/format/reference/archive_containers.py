"""archive_containers.py - files of other kinds than safetensors to make archives of: small ones of every kind, from a
random source."""

import io
import struct
import zipfile

from archive_files import noise, sparse, weights

PIECE_NBYTES = 1048576
LARGE_NBYTES = 70000  # of entries that are tensors whatever they hold


def npy(content, descr="'<f4'", shape=None, version=1, fortran_order=False, padding=0):
    shape = (len(content) // 4,) if shape is None else shape
    text = f"{{'descr': {descr}, 'fortran_order': {fortran_order}, 'shape': {shape}, }}".encode()
    length_nbytes = 2 if version == 1 else 4
    text += b" " * (-(9 + length_nbytes + len(text)) % 64 + padding) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(length_nbytes, "little") + text + content


def gguf_string(text):
    return struct.pack("<Q", len(text)) + text


def gguf_value(key, kind, data):
    return gguf_string(key) + struct.pack("<I", kind) + data


GGUF_VALUES = [
    gguf_value(b"general.name", 8, gguf_string(b"test")), gguf_value(b"u8", 0, b"\1"), gguf_value(b"f64", 12, bytes(8)),
    gguf_value(b"list", 9, struct.pack("<IQ3i", 5, 3, 1, 2, 3)),
    gguf_value(b"words", 9, struct.pack("<IQ", 8, 2) + gguf_string(b"a") + gguf_string(b"")),
]


def gguf(tensors, values=(), alignment=32, version=3, tail=b""):
    """Of (name, type, dimensions in the file's order, content)."""
    values = list(values)
    if alignment != 32:
        values.append(gguf_value(b"general.alignment", 4, struct.pack("<I", alignment)))
    infos, data = b"", b""
    for name, kind, dimensions, content in tensors:
        data += bytes(-len(data) % alignment)
        numbers = len(dimensions), *dimensions, kind, len(data)
        infos += gguf_string(name) + struct.pack(f"<I{len(dimensions)}QIQ", *numbers)
        data += content
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)) + b"".join(values) + infos
    return head + bytes(-len(head) % alignment) + data + tail


def gguf_tensors(rng):
    blocks = [(b"q4_0", 2, 18, 32), (b"q8_0", 8, 34, 32), (b"q4_k", 12, 144, 256), (b"q6_k", 14, 210, 256)]
    tensors = [(b"f32", 0, [6, 50], weights(rng, 1200)), (b"f16", 1, [700], weights(rng, 1400)),
               (b"bf16", 30, [3, 2, 5], weights(rng, 60)), (b"i8", 24, [7], noise(rng, 7)), (b"empty", 0, [0], b"")]
    return tensors + [(name, kind, [elements, 3], noise(rng, 3 * nbytes)) for name, kind, nbytes, elements in blocks]


def zipped(entries, comment=b"", prefix=b"", **options):
    """Of (name, content), or (name, content, method)."""
    file = io.BytesIO(prefix)
    file.seek(len(prefix))
    with zipfile.ZipFile(file, "a", **options) as archive:
        for name, content, *method in entries:
            info = name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name)
            info.compress_type = method[0] if method else zipfile.ZIP_STORED
            archive.writestr(info, content)
        archive.comment = comment
    return file.getvalue()


def zipped_at_one_place(entries):
    """All local headers are said to be at the begin."""
    file = bytearray(zipped(entries))
    at = file.find(b"PK\1\2")
    while at >= 0:
        file[at + 42 : at + 46] = bytes(4)
        at = file.find(b"PK\1\2", at + 4)
    return bytes(file)


def streamed(entries):
    """With sizes behind the data, as a writer without seeking makes it."""
    class Stream(io.RawIOBase):
        def __init__(self):
            self.data = b""

        def writable(self):
            return True

        def write(self, data):
            self.data += bytes(data)
            return len(data)

    stream = Stream()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content)
    return stream.data


def zip64(entries):
    """With sizes of 64 bits in the local headers."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries:
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry:
                entry.write(content)
    return file.getvalue()


def widened(entries, index, fields, extra):
    """Fields of a directory entry are all ones, by their offsets in it; the entry has these extra fields."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.infolist()[index].extra = extra
    data = bytearray(file.getvalue())
    at = -1
    for _ in range(index + 1):
        at = data.find(b"PK\1\2", at + 1)
    for field in fields:
        data[at + field : at + field + 4] = b"\xff" * 4
    return bytes(data)


def widened_files(rng):
    arrays = [("v.npy", npy(weights(rng, 400))), ("w.npy", npy(weights(rng, 800)))]
    stored, original, local = 20, 24, 42
    sizes, place = struct.pack("<2Q", *[len(arrays[1][1])] * 2), struct.pack("<Q", 30 + 5 + len(arrays[0][1]))

    def field(kind, content, nbytes=None):
        return struct.pack("<2H", kind, len(content) if nbytes is None else nbytes) + content

    for what, fields, extra in (
            ("all", (stored, original, local), field(1, sizes + place)),
            ("all, a disk, and other fields", (stored, original, local),
             field(2, b"abc") + field(1, sizes + place + bytes(4)) + field(3, b"")),
            ("the place alone", (local,), field(1, place)), ("a size alone", (original,), field(1, sizes[:8])),
            ("no place", (local,), field(1, sizes[:7])), ("no second size", (stored, original), field(1, sizes[:8])),
            ("no field", (original,), b""), ("an empty field before it", (original,), field(1, b"") + field(1, sizes)),
            ("a field too long", (original,), field(1, sizes, 17)), ("cut after another field", (original,),
                                                                     field(2, b"", 99) + field(1, sizes))):
        yield what, widened(arrays, 1, fields, extra)
    torch = [("first", b""), *torch_entries(rng, "b"), *torch_entries(rng, "a")]
    yield "a second folder without a size", widened(torch, len(torch) // 2 + 1, (original,), b"")
    yield "a second folder without a place", widened(torch, len(torch) // 2 + 1, (local,), b"")
    commented = zipfile.ZipInfo("w.npy")
    commented.comment = b"PK\6\7" + bytes(16)
    yield "a locator without its end record", zipped([(commented, arrays[1][1])])


def zip64_end(count, directory_nbytes):
    """The end records of a directory that begins with the ZIP, with numbers of 64 bits."""
    wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, directory_nbytes, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, directory_nbytes, 1)
    return wide + locator + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)


def pickled_text(text):
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def pickled_number(number):
    return b"J" + struct.pack("<i", number)


def pickled_tensor(key, count):
    storage = b"(" + pickled_text("storage") + b"ctorch\nFloatStorage\n" + pickled_text(key) + pickled_text("cpu") + \
        pickled_number(count) + b"tQ"
    dimensions = pickled_number(count) + b"\x85" + pickled_number(1) + b"\x85"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + pickled_number(0) + dimensions + \
        b"\x89ccollections\nOrderedDict\n)RtR"


def pickled_state(storages):
    """What torch writes of a dictionary of tensors of F32, one for each storage."""
    items = [pickled_text(f"w{key}") + pickled_tensor(key, len(content) // 4) for key, content in storages]
    return b"\x80\x02}(" + b"".join(items) + b"u."


def torch_entries(rng, prefix="archive", is_understood=False):
    """An archive of torch, whose pickle nobody understands unless it is to be understood."""
    storages = [weights(rng, 4096), noise(rng, 24), weights(rng, LARGE_NBYTES)]
    numbered = [(str(i), content) for i, content in enumerate(storages)]
    return [(f"{prefix}/data.pkl", pickled_state(numbered) if is_understood else noise(rng, 200)),
            (f"{prefix}/byteorder", b"little"),
            (f"{prefix}/.data/serialization_id", b"1"),
            *((f"{prefix}/data/{key}", content) for key, content in numbered),
            (f"{prefix}/constants/0", weights(rng, 80)), (f"{prefix}/version", b"3\n")]


def npz_entries(rng):
    return [("w.npy", npy(weights(rng, 4000))), ("empty.npy", npy(b"")), ("no array.npy", noise(rng, 300)),
            ("objects.npy", npy(noise(rng, 40), "'|O'", (5,))), ("array.txt", npy(weights(rng, 400))),
            ("deflated.npy", npy(sparse(rng, 4000)), zipfile.ZIP_DEFLATED)]


def large_entries(rng):
    return [("small", noise(rng, 65535)), ("just", weights(rng, 65536)), ("none", b""),
            ("pickle.pkl", noise(rng, LARGE_NBYTES)), ("objects.npy", npy(noise(rng, LARGE_NBYTES), "'|O'")),
            ("deflated", bytes(LARGE_NBYTES), zipfile.ZIP_DEFLATED), ("large", sparse(rng, 2 * PIECE_NBYTES + 13))]


def npy_files(rng):
    yield "f4", npy(weights(rng, 12000))
    yield "f4 of three dimensions", npy(weights(rng, 240), shape=(3, 4, 5))
    yield "Fortran order", npy(weights(rng, 240), shape=(12, 5), fortran_order=True)
    yield "big-endian", npy(noise(rng, 80), "'>f8'", (10,))
    yield "complex", npy(noise(rng, 160), "'<c16'", (10,))
    yield "text", npy(noise(rng, 120), "'<U6'", (5,))
    yield "fields", npy(noise(rng, 160), "[('a', '<f4'), ('b', '<i2', (2, 3))]", (10,))
    yield "objects", npy(noise(rng, 160), "'|O'", (10,))
    yield "no elements", npy(b"", shape=(0, 3))
    yield "no dimensions", npy(b"abcd", shape=())
    yield "version 2", npy(weights(rng, 400), version=2)
    yield "version 3", npy(weights(rng, 400), "[('\u00e9', '<f4')]", version=3).replace(b"\xe9", b"\xc3\xa9")
    yield "bytes behind", npy(weights(rng, 400), shape=(90,))
    yield "long header", npy(weights(rng, 400), padding=3000)
    yield "one byte", npy(b"x", "'|u1'", (1,))


def gguf_files(rng):
    yield "no tensors", gguf([])
    yield "values alone", gguf([], GGUF_VALUES)
    yield "tensors", gguf(gguf_tensors(rng), GGUF_VALUES)
    yield "version 2", gguf(gguf_tensors(rng), version=2)
    yield "alignment 64", gguf(gguf_tensors(rng), alignment=64)
    yield "alignment 8", gguf(gguf_tensors(rng), alignment=8)
    yield "unknown type", gguf([(b"a", 9999, [8], noise(rng, 64)), (b"b", 0, [8], noise(rng, 32))])
    yield "part of a block", gguf([(b"a", 8, [33], noise(rng, 64)), (b"b", 0, [8], noise(rng, 32))])
    yield "no dimensions", gguf([(b"a", 0, [], noise(rng, 4)), (b"b", 0, [8], noise(rng, 32))])
    yield "bytes behind", gguf(gguf_tensors(rng), tail=noise(rng, 50))


def zip_files(rng):
    torch, npz = torch_entries(rng), npz_entries(rng)
    yield "no entries", zipped([])
    yield "torch", zipped(torch)
    yield "torch, a pickle that is understood", zipped(torch_entries(rng, is_understood=True))
    storages = [("0", weights(rng, 400)), ("1", b"")]
    entries = [("a/data.pkl", pickled_state(storages))] + [("a/data/" + key, content) for key, content in storages]
    yield "an empty storage of a pickle that is understood", zipped(entries)
    yield "torch, long prefix", zipped(torch_entries(rng, "a/b/c"))
    yield "npz", zipped(npz)
    yield "large", zipped(large_entries(rng))
    yield "both", zipped(torch + npz)
    yield "comment", zipped(npz, comment=b"PK\5\6" + bytes(18))
    yield "two behind each other", zipped(torch) + zipped(npz)
    yield "three behind each other", zipped(npz, b"?") + zipped([]) + zipped(npz)
    yield "junk before", noise(rng, 3000) + zipped(torch)
    yield "junk before, places of the whole file", zipped(torch, prefix=noise(rng, 3000))
    yield "two, junk before and between", noise(rng, 300) + zipped(torch) + noise(rng, 5) + zipped(npz)
    yield "streamed", streamed(torch)
    yield "zip64", zip64(torch)
    for what, file in widened_files(rng):
        yield f"numbers of 64 bits: {what}", file
    twice = zipped([("w.npy", npy(weights(rng, 400))), ("v.npy", npy(weights(rng, 800)))])
    yield "an empty storage", zipped([*torch, ("archive/data/empty", b"")])
    yield "a deflated pickle", zipped([(*torch[0], zipfile.ZIP_DEFLATED), *torch[1:]])
    yield "two folders", zipped(torch_entries(rng, "b") + torch_entries(rng, "a"))
    yield "bytes behind", zipped(torch) + noise(rng, 100)
    yield "two entries at one place", zipped_at_one_place([("w.npy", npy(weights(rng, 400))), ("v", noise(rng, 70000))])
    yield "a name twice", twice.replace(b"v.npy", b"w.npy")


KINDS = {"npy": npy_files, "gguf": gguf_files, "zip": zip_files}


def files(rng):
    """(kind, name, file)."""
    for kind, make in KINDS.items():
        for name, file in make(rng):
            yield kind, name, file
