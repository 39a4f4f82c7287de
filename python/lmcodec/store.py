"""Stores of models on many machines.

    from dask.distributed import Client
    lmcodec.store.add_many("s3://bucket/store", ["Qwen2.5-7B", "Qwen2.5-7B-Instruct"], Client("scheduler:8786"))

lmcodec.Store is a store itself, on this machine or at a URL (docs/store.md).
"""

from ._remote.add_many import add_many as add_many
from ._runs.local_store import Pushed, Store, StoredModel, StorePlan

__all__ = ["Pushed", "Store", "StorePlan", "StoredModel", "add_many"]
