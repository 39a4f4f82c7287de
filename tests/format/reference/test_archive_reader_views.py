"""Views: what archives of files of other kinds list, by section 8.6 of docs/archive.md. The reference reader and lmc-st
must list the same tensors with the same contents, or both refuse. An archive gives its file back whatever it lists."""

import json
import random

import pytest

import archive_view_cases
import lmc_archive
from archive_containers import npy
from archive_tool import judged
from lmc_archive_layout import NPY

CONTENT_NBYTES_MAX = 1 << 20


def listed(tool, path):
    done = tool.run("ls", "--json", path)
    return json.loads(done.stdout) if done.returncode == 0 else None


def differences(tool, path):
    """Between the listings and contents of the two readers."""
    archive = lmc_archive.opened(lmc_archive.read(path))
    found = listed(tool, path)
    expected = [(tensor.name, tensor.dtype, tensor.shape) for tensor in archive.listing]
    if found is None or [(tensor["name"], tensor["dtype"], tensor["shape"]) for tensor in found] != expected:
        return f"lmc-st lists {found}, the document says {expected}"
    for tensor in archive.listing:
        if "\0" in tensor.name or tensor.view and tensor.view.nbytes > CONTENT_NBYTES_MAX:
            continue
        done = tool.run("get", path, tensor.name)
        if done.returncode != 0 or done.stdout != tensor.content(archive.content(tensor.number)):
            return f"{tensor.name!r}: {done.returncode} {done.stderr} {done.stdout[:40]}"
    return None


@pytest.mark.parametrize("archive, original",
                         [pytest.param(*case[1:], id=case[0]) for case in archive_view_cases.cases()])
def test_forged_views(tool, archive, original):
    path = tool.file("case.lmc", archive)
    assert judged(tool, path, original) is None
    assert original is None or differences(tool, path) is None


def test_names_of_safetensors_files_have_no_views(tool):
    """In a safetensors file, the key means nothing."""
    header = b'{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"views":[{"dtype":"U8","shape":[9]}]}}'
    path = tool.file("plain.safetensors", len(header).to_bytes(8, "little") + header + b"abcd")
    assert [tensor["shape"] for tensor in listed(tool, path)] == [[4]]


@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("descr", ["'>f4'", "'<f4'", "'>c8'", "'>c16'", "'<U2'", "'>i2'", "[('a','<f4'),('b','>i4')]"])
def test_views_of_the_writer(tool, seed, descr, fortran):
    content = random.Random(seed).randbytes(2 * 3 * 16)
    nbytes = {"'>c16'": 16, "'>i2'": 2, "'>f4'": 4, "'<f4'": 4}.get(descr, 8)
    data = npy(content[: 6 * nbytes], descr, shape=(2, 3), fortran_order=fortran)
    path = tool.file("views.npy", data)
    assert tool.run("convert", "-f", "-o", path + ".lmc", path).returncode == 0
    archive = lmc_archive.opened(lmc_archive.read(path + ".lmc"))
    assert archive.layout.kind == NPY
    assert differences(tool, path + ".lmc") is None
    assert judged(tool, path + ".lmc", data) is None
    assert bool(archive.listing[0].view) == (fortran or descr != "'<f4'")
