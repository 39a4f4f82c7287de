"""python exchange.py write|read FOLDER - files that one system writes and another one reads. `write` prints checksums
of frames and archives as JSON; `read` fails if a file has other content."""
import hashlib
import json
import os
import sys

import numpy

import lmcodec
import lmcodec.numpy

NAMES = {"archive": "gr\u00f6\u00dfe \u6a21\u578b.lmc", "later": "later.lmc",
         "h5": "gr\u00f6\u00dfe.h5", "repacked": "repacked.h5"}


def content(count, seed=0):
    """The same on all systems and with all versions of NumPy: numbers with a bell, as weights have."""
    bits = numpy.arange(count * 4, dtype="u8") * numpy.uint64(0x9E3779B97F4A7C15 + 2 * seed)
    uniform = ((bits ^ bits >> numpy.uint64(29)) * numpy.uint64(0xBF58476D1CE4E5B9) >> numpy.uint64(40)).astype("f8")
    return (uniform.reshape(count, 4).sum(axis=1) / 2**25 - 1).astype("f4")


TENSORS = {"w": content(300000).reshape(600, 500), "half": content(70000, 1).astype("f2").reshape(700, 100),
           "numbers": numpy.arange(10000, dtype="i8") // 7, "flags": content(999, 2) > 0,
           "none": numpy.zeros((0, 4), "f4")}
LATER = {**TENSORS, "w": TENSORS["w"] + (numpy.arange(500) == 3).astype("f4")}


def checksum(data):
    return hashlib.sha256(data).hexdigest()


def h5():
    try:
        import h5py
    except ImportError:
        return None
    import lmcodec.h5
    return h5py


def write(folder):
    sums = {"%s %s" % (name, level): checksum(lmcodec.encode(array, level=level))
            for name, array in TENSORS.items() for level in ("default", "fast", "max") if name != "none"}
    path, later = (os.path.join(folder, NAMES[name]) for name in ("archive", "later"))
    lmcodec.numpy.save_file(TENSORS, path, {"made": "as a test"})
    lmcodec.numpy.save_file(LATER, later, base=path)
    lmcodec.numpy.save_file(TENSORS, os.path.join(folder, "plain.safetensors"))
    lmcodec.Run(os.path.join(folder, "run")).add(os.path.join(folder, "plain.safetensors"), 7)
    lmcodec.convert(os.path.join(folder, "plain.safetensors"))
    for name in (NAMES["archive"], NAMES["later"], "plain.safetensors", "plain.safetensors.lmc"):
        sums[name] = checksum(open(os.path.join(folder, name), "rb").read())
    sums["bytes"] = checksum(lmcodec.numpy.save(TENSORS))
    h5py = h5()
    if h5py is not None:
        with h5py.File(os.path.join(folder, NAMES["h5"]), "w") as file:
            for name, array in TENSORS.items():
                if array.ndim == 2 and array.size:
                    data = file.create_dataset(name, data=array, chunks=(100, array.shape[1]), **lmcodec.h5.LMC("max"))
                    sums["chunks of " + name] = checksum(b"".join(
                        data.id.read_direct_chunk((row, 0))[1] for row in range(0, array.shape[0], 100)))
        lmcodec.h5.repack(os.path.join(folder, NAMES["h5"]), os.path.join(folder, NAMES["repacked"]))
    json.dump(sums, sys.stdout)


def read(folder):
    path, later = (os.path.join(folder, NAMES[name]) for name in ("archive", "later"))
    with lmcodec.safe_open(path, "np") as file:
        assert file.metadata()["made"] == "as a test"
    for place, tensors in ((path, TENSORS), (later, LATER), (os.path.join(folder, "plain.safetensors"), TENSORS)):
        loaded = lmcodec.numpy.load_file(place)
        assert loaded.keys() == tensors.keys(), place
        assert all((loaded[name] == tensors[name]).all() for name in tensors), place
    with lmcodec.open_original(os.path.join(folder, "plain.safetensors.lmc")) as original:
        assert original.read() == open(os.path.join(folder, "plain.safetensors"), "rb").read()
    assert lmcodec.Run(os.path.join(folder, "run")).load(7, framework="np")["numbers"][-1] == 1428
    h5py = h5()
    for name in ("h5", "repacked") if h5py is not None else ():
        with h5py.File(os.path.join(folder, NAMES[name]), "r") as file:
            assert len(file) == 2 and all((file[key][()] == TENSORS[key]).all() for key in file), name
    print("read" if h5py is not None else "read without HDF5")


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](sys.argv[2])
