"""Checkpoints of torch.distributed.checkpoint with LMC.

    dcp.save(state, storage_writer=lmcodec.dcp.Writer("run/step-20", base="run/step-10"))
    dcp.load(state, storage_reader=lmcodec.dcp.Reader("run/step-20"))

    lmcodec.dcp.enable()                                             # torch's own calls read them, too
    dcp.load(state, checkpoint_id="run/step-20")
    lmcodec.dcp.drop("run/step-10")                                  # step-20, which needs it, is stored again

    dcp.save(state, storage_writer=FileSystemWriter("run/step-20", _extensions=[lmcodec.dcp.Lmc()]))
    dcp.load(state, storage_reader=FileSystemReader("run/step-20", _extension_registry=lmcodec.dcp.registry()))

    lmcodec.convert("hf", "hf-lmc")                                  # what HuggingFaceStorageWriter has written
    dcp.load(state, storage_reader=lmcodec.dcp.HuggingFaceReader("hf-lmc"))

Writer stores archives, whose tensors have their dtypes. Lmc codes the streams of torch's own writer.
"""

from __future__ import annotations

import importlib.util

import torch

_NEEDED = "lmcodec.dcp needs torch 2.7 or newer with torch.distributed.checkpoint: torch %s "


def _check_torch() -> None:
    """ImportError if this torch lacks what is built on."""
    if not torch.distributed.is_available():
        raise ImportError((_NEEDED + "was built without torch.distributed") % torch.__version__)
    try:
        found = importlib.util.find_spec("torch.distributed.checkpoint._extension")
    except ImportError:
        found = None
    if found is None:
        raise ImportError((_NEEDED + "has no extensions of checkpoints") % torch.__version__)


_check_torch()

from ._checkpoints import Checkpoint, checkpoints, drop, verify  # noqa: E402
from ._hf import HuggingFaceReader  # noqa: E402
from ._reader import Reader, enable  # noqa: E402
from ._stream import Lmc, registry  # noqa: E402
from ._writer import Writer  # noqa: E402

__all__ = ["Checkpoint", "HuggingFaceReader", "Lmc", "Reader", "Writer", "checkpoints", "drop", "enable", "registry",
           "verify"]
