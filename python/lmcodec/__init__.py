"""LMC: lossless compression of tensors."""

from lmcodec._library import library, native_dir

__all__ = ["PLUGIN_PATH", "__version__"]

PLUGIN_PATH: str = native_dir()
"""The directory of the HDF5 plugin, as HDF5_PLUGIN_PATH takes it."""

__version__: str = library().lmc_version_text().decode()
