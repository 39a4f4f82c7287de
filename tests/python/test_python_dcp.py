"""lmcodec.dcp tells which torch it needs, where it is an older one."""
import importlib

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (Debian: python3-torch)")


def test_an_older_torch_is_refused_by_its_version():
    try:
        importlib.import_module("torch.distributed.checkpoint._extension")
    except ImportError:
        with pytest.raises(ImportError, match="needs torch 2.7 or newer.*torch %s" % torch.__version__):
            importlib.import_module("lmcodec.dcp")
    else:
        assert importlib.import_module("lmcodec.dcp").Writer


def test_a_torch_without_torch_distributed_is_refused(monkeypatch):
    import sys
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    for name in [name for name in sys.modules if name.startswith("lmcodec.dcp")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match="torch.distributed"):
        importlib.import_module("lmcodec.dcp")
