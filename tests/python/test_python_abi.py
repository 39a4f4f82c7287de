"""The structs of the binding are those of the headers: sizes and places of all members, as the C compiler has them."""
import ctypes
import os
import shutil
import subprocess

import pytest

from lmcodec import _abi
from lmcodec._cuda import cuda_abi

STRUCTS = {**_abi.STRUCTS, **cuda_abi.STRUCTS}
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler (Debian: gcc)")
def test_structs_of_the_binding_are_those_of_the_headers(directory):
    lines = []
    for name, struct in STRUCTS.items():
        lines.append('printf("%s %%zu\\n", sizeof(%s));' % (name, name))
        lines += ['printf("%s.%s %%zu %%zu\\n", offsetof(%s, %s), sizeof(((%s *)0)->%s));'
                  % (name, member, name, member, name, member) for member, _ in struct._fields_]
    source, program = os.path.join(directory, "sizes.c"), os.path.join(directory, "sizes")
    with open(source, "w") as file:
        file.write('#include "lmc_cuda.h"\n#include "lmc_run.h"\n#include "lmc_st_experimental.h"\n'
                   '#include "lmc_store.h"\n#include <stdio.h>\nint main(void) {\n%s\nreturn 0; }\n' % "\n".join(lines))
    subprocess.run(["cc", "-I", os.path.join(ROOT, "include"), "-o", program, source], check=True)
    in_c = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split("\n")[:-1]
    here = []
    for name, struct in STRUCTS.items():
        here.append("%s %d" % (name, ctypes.sizeof(struct)))
        here += ["%s.%s %d %d" % (name, member, getattr(struct, member).offset, getattr(struct, member).size)
                 for member, _ in struct._fields_]
    assert here == in_c


def test_results_know_their_size():
    for struct in (_abi.Diag, _abi.Info, _abi.StDiag, _abi.StResult, _abi.RunStep, _abi.StoreModel,
                   _abi.StorePlanResult):
        assert struct().struct_size == ctypes.sizeof(struct)


def test_settings_get_the_size_that_the_package_knows():
    params = _abi.Params()
    _abi.params_init(ctypes.byref(params), ctypes.sizeof(params))
    assert params.struct_size == ctypes.sizeof(params) and params.row_nbytes == 0
    for struct in (_abi.StOptions, _abi.StConvertOptions, _abi.StVerifyOptions, _abi.RunAddOptions,
                   _abi.StoreAddOptions):
        assert struct().struct_size == ctypes.sizeof(struct) and struct().common.thread_count == 0


def test_every_level_and_dtype_has_the_number_of_the_library():
    assert _abi.dtype_name(_abi.DTYPE_COUNT) is None
    assert _abi.DTYPES["U8"] == 0 and _abi.DTYPES["F64"] == 21
    assert _abi.DTYPE_NBITS["F4"] == 4


@pytest.mark.parametrize("kind", ["run", "store"])
def test_every_event_has_a_name(kind):
    name_of, events = {"run": (_abi.run_event_name, _abi.RUN_EVENTS),
                       "store": (_abi.store_event_name, _abi.STORE_EVENTS)}[kind]
    assert name_of(len(events)) is None and events[0] == "added" and events[4] == "verified"
