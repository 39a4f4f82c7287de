"""one_file.py ACTION FILE SEED [VALUE...]  (a dataset "w" with the numbers of a seed)

write       writes a dataset with these user values
read        reads it: by h5py, and by PyTables and netCDF4 if they are there; prints the filter's values
read-bytes  the same, where the program that wrote it kept no values
damage      changes a byte in the midst of its first chunk
content     writes the bare numbers
same-chunks compares the stored chunks with those of another file (instead of VALUEs); prints the filter's values
"""
import importlib.util
import sys

import h5py

from common import CHUNKS, check, check_values, filter_of, read_h5py, same, weights, write_h5py


def read_by_all(path, content, user):
    values = read_h5py(h5py, path, content)
    if user is not None:
        check_values(values, user or values[:3])
    print(*values)
    if importlib.util.find_spec("tables"):
        import tables
        with tables.open_file(path) as file:
            check(same(file.root.w[...], content), "PyTables reads other numbers")
    if importlib.util.find_spec("netCDF4"):
        import netCDF4
        with netCDF4.Dataset(path) as file:
            file.set_auto_mask(False)
            check(same(file["w"][...], content), "netCDF4 reads other numbers")


def damage(path):
    with h5py.File(path, "a") as file:
        mask, stored = file["w"].id.read_direct_chunk((0, 0))
        middle = len(stored) // 2
        changed = stored[:middle] + bytes([stored[middle] ^ 1]) + stored[middle + 1:]
        file["w"].id.write_direct_chunk((0, 0), changed, mask)


def check_same_chunks(path, other_path):
    with h5py.File(path, "r") as file, h5py.File(other_path, "r") as other:
        for row in range(0, file["w"].shape[0], CHUNKS[0]):
            one, two = (opened["w"].id.read_direct_chunk((row, 0)) for opened in (file, other))
            check(one == two, "the chunks at row %d differ" % row)
        print(*filter_of(file["w"])[2])


def main():
    action, path, seed = sys.argv[1:4]
    content = weights(int(seed))
    if action == "same-chunks":
        check_same_chunks(path, sys.argv[4])
        return
    user = tuple(int(value) for value in sys.argv[4:])
    if action == "write":
        write_h5py(h5py, path, content, compression_opts=user)
    elif action == "damage":
        damage(path)
    elif action == "content":
        with open(path, "wb") as file:
            file.write(content.tobytes())
    else:
        read_by_all(path, content, None if action == "read-bytes" else user)


main()
