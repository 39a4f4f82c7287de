"""References of the kind that came with HDF5 1.12 (H5T_STD_REF), which h5py does not make: through HDF5's own calls."""

import ctypes

import pytest

from bed import FILTER_ID, MAGIC, h5py, memory_file
from library import hdf5, lmc_values

REFERENCE_NBYTES = 64  # of a H5R_ref_t
COUNT = 25
hid = ctypes.c_int64


def calls():
    library = hdf5()
    for name in ("H5Dcreate2", "H5Dopen2"):
        getattr(library, name).restype = hid
    library.H5Rget_obj_name.restype = ctypes.c_ssize_t
    return library, hid.in_dll(library, "H5T_STD_REF_g")


def name_of(library, reference):
    name = ctypes.create_string_buffer(50)
    return name.value.decode() if library.H5Rget_obj_name(reference, hid(0), name, ctypes.c_size_t(50)) > 0 else None


@pytest.mark.parametrize("flags", [0, h5py.h5z.FLAG_OPTIONAL], ids=["mandatory", "optional"])
def test_new_references(flags):
    library, std_ref = calls()
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_chunk((10,))
    dcpl.set_filter(FILTER_ID, flags, ())
    written = (ctypes.c_ubyte * (REFERENCE_NBYTES * COUNT))()
    with memory_file(rdcc_nbytes=0) as file:
        space = h5py.h5s.create_simple((COUNT,))
        dataset = library.H5Dcreate2(hid(file.id.id), b"x", std_ref, hid(space.id), hid(0), hid(dcpl.id), hid(0))
        assert dataset >= 0
        for i in range(COUNT):
            if i % 3:
                name = f"/target{i}"
                file.create_group(name)
                place = ctypes.byref(written, REFERENCE_NBYTES * i)
                assert library.H5Rcreate_object(hid(file.id.id), name.encode(), hid(0), place) >= 0
        assert library.H5Dwrite(hid(dataset), std_ref, hid(0), hid(0), hid(0), written) >= 0
        assert lmc_values(file["x"])[3] == MAGIC
        assert {file["x"].id.get_chunk_info(i).filter_mask for i in range(3)} == {0}
        found = (ctypes.c_ubyte * (REFERENCE_NBYTES * COUNT))()
        assert library.H5Dread(hid(dataset), std_ref, hid(0), hid(0), hid(0), found) >= 0
        names = [name_of(library, ctypes.byref(found, REFERENCE_NBYTES * i)) if i % 3 else None for i in range(COUNT)]
        assert names == [f"/target{i}" if i % 3 else None for i in range(COUNT)]
        for references in (written, found):
            for i in range(COUNT):
                library.H5Rdestroy(ctypes.byref(references, REFERENCE_NBYTES * i))
        library.H5Dclose(hid(dataset))
