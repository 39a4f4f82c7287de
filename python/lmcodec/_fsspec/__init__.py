"""The file system of fsspec."""
