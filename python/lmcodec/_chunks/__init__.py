"""Chunks of arrays in the form of the HDF5 filter, for Zarr, numcodecs and h5py."""
