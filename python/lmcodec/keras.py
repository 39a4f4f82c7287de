"""Weights and models of Keras 3 with LMC.

    lmcodec.keras.save_weights(model, "model.weights.h5")
    model.load_weights("model.weights.h5")        # works once lmcodec.keras or lmcodec.h5 is imported
"""

from __future__ import annotations

import os
from typing import Any

from . import h5

__all__ = ["load_model", "load_weights", "save_model", "save_weights"]


def save_weights(model: Any, path: str | os.PathLike[str], *, level: str = "default", **options: Any) -> None:
    """`model.save_weights()`, with LMC for the weights. level: "default", "fast" or "max". options are for Keras."""
    with h5.compress(level):
        model.save_weights(path, **options)


def save_model(model: Any, path: str | os.PathLike[str], *, level: str = "default", **options: Any) -> None:
    """`model.save()`, with LMC for the weights: of a file *.keras or *.h5. Arguments are those of save_weights()."""
    with h5.compress(level):
        model.save(path, **options)


def load_weights(model: Any, path: str | os.PathLike[str], **options: Any) -> None:
    """`model.load_weights()`."""
    model.load_weights(path, **options)


def load_model(path: str | os.PathLike[str], **options: Any) -> Any:
    """`keras.saving.load_model()`."""
    import keras

    return keras.saving.load_model(path, **options)
