"""safe_open(): the tensors of a file in a framework, as the safetensors package gives them."""

from __future__ import annotations

import warnings
from typing import Any, Mapping, Sequence

from .._arrays import Arrays, arrays_of
from .._codec import threads_of
from .._errors import ArgumentError, ClosedError
from .file import File, TensorInfo
from .into import Target, convert, targets_of
from .members import Checksums
from .options import Path, Progress
from .progress import ProgressCall, call_of, part_of
from .slices import Slice


class safe_open:
    """An open archive or safetensors file whose tensors are read as arrays of a framework, like safetensors.safe_open.

    filename: of the file, a URL such as "s3://bucket/model.lmc" (lmcodec.remote), or an open File. Its content
        decides whether it is an archive.
    framework: "pt", "torch", "pytorch"; "np", "numpy"; "flax", "jax".
    device: where tensors of torch go: "cpu", "cuda", "cuda:1", "mps", ... or the number of an accelerator.
    backend: accepted for compatibility with safetensors ("mmap" or "pread"); ignored.
    threads: how many share the work of large reads; None for one per core.
    base, base_dirs: as for File. storage_options: of a URL, for fsspec's file system: credentials, endpoints.

    Raises OSError, DataError, ArgumentError (such as a device for NumPy), ImportError (no such framework); a closed
    file raises ClosedError. Several threads may use one object. It can be pickled, as File can. It is also a context
    manager.
    """

    def __init__(self, filename: Path | File, framework: str, device: Any = "cpu", *, backend: str = "mmap",
                 threads: int | None = None, base: Path | None = None, base_dirs: Sequence[Path] = (),
                 storage_options: Mapping[str, Any] | None = None) -> None:
        if backend not in ("mmap", "pread"):
            raise ArgumentError('backend "%s" is invalid (expected one of: "mmap", "pread")' % (backend,))
        threads_of(threads)
        self._file: File | None = _file_of(filename, base, base_dirs, storage_options)
        self._arrays: Arrays = arrays_of(framework, device)
        self._threads = threads
        self._checksums = Checksums()

    def keys(self) -> list[str]:
        """Names of the tensors, sorted."""
        return sorted(self._open().tensors)

    def offset_keys(self) -> list[str]:
        """Names of the tensors in the order of their content, and then those of further views."""
        return list(self._open().tensors)

    def metadata(self) -> dict[str, str] | None:
        """`__metadata__` of the file, or None if it has none."""
        return self._open().metadata

    @property
    def file(self) -> File:
        """The open file."""
        return self._open()

    @property
    def content_nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in self._open().tensors.values())

    def get_tensor(self, name: str, *, out: Any = None) -> Any:
        """One tensor. out: an array for it, as for get_tensors(); it is returned.

        Raises TensorNotFound, DTypeError, as File.read_into() does, and as get_tensors() does for `out`.
        """
        return self.get_tensors([name], out=None if out is None else {name: out})[name]

    def get_tensors(self, names: Sequence[str] | None = None, *, out: Mapping[str, Any] | None = None,
                    dtype: Any = None, progress: Progress | None = None) -> dict[str, Any]:
        """All tensors, or those of these names. Threads share the work.

        out: arrays for some of the tensors, which get their content and are returned. They have the shapes of the
            tensors. One that is contiguous, in memory and of the tensor's dtype is decoded to, without a copy. Any
            other is filled piece by piece, as `array[...] = tensor` converts. For "flax", these are NumPy arrays.
        dtype: of the framework: new tensors of floating point are converted to it while they are read.
        progress(done bytes, all bytes) is called while the file is read. An exception from it ends the call.

        A plain file of numpy.savez() has a CRC-32 for each array. It is verified before the array is read.

        Raises as get_tensor() does, and TypeError or ArgumentError for an array in `out` that is not one of the
        framework, has another shape, or cannot be written. Nothing has been written to `out` if a name, a shape, a
        dtype or the base is wrong. After any other exception each array there holds old content, new content, or both
        mixed.
        """
        if isinstance(names, (str, bytes)):
            raise TypeError("a list of names is wanted, not one name")
        file, call = self._open(), call_of(progress)
        wanted = file.tensors if names is None else {name: file.find(name) for name in names}
        file.check_repeats(wanted)
        total = sum(tensor.nbytes for tensor in wanted.values())
        results: dict[str, Any] = {}
        refused: list[str] = []
        loader = self._arrays.loader
        targets = targets_of(file, self._arrays, wanted, out, dtype)
        self._checksums.check(file, wanted.values())
        if loader is not None:
            for_device = {name: tensor for name, tensor in wanted.items() if name not in targets}
            results, refused = loader.load(file, for_device, threads=self._threads, progress=call)
        rest = {name: tensor for name, tensor in wanted.items() if name not in results}
        done = total - sum(tensor.nbytes for tensor in rest.values())
        for batch in _batches(rest, self._arrays.batch_nbytes):
            self._read_batch(file, batch, targets, results, part_of(call, done, total))
            done += sum(tensor.nbytes for tensor in batch.values())
            if targets and call is not None:
                call(done, total)
        self._arrays.settle()
        if refused:
            warnings.warn("the device took sound tensors for damaged, and the host decoded them: %s"
                          % ", ".join(refused), RuntimeWarning, stacklevel=2)
        return {name: results[name] for name in wanted}

    def changes(self, name: str) -> tuple[Any, Any]:
        """The elements of a tensor that differ from those of the tensor that it was coded against: flat arrays of their
        indices (int32, or int64 for 2**31 elements and more), rising, and of the new elements.

        A tensor that was not coded against another file's comes whole: the indices are None. The arrays are on the
        host.
        Raises as File.changes() does, and DTypeError (a dtype of which an index is not an element: C64, F4, F6).
        """
        from .._changes.apply import changed_arrays

        return changed_arrays(self._open(), name, self._arrays, threads=self._threads)

    def get_slice(self, name: str) -> Slice:
        """A tensor whose parts are read by an index: `get_slice(name)[:, :8]`. Raises TensorNotFound."""
        return Slice(self._open(), name, self._arrays, self._threads)

    def close(self) -> None:
        """Closes the file, as the end of `with` does. Its slices stay usable."""
        self._file, self._checksums = None, Checksums()

    def __repr__(self) -> str:
        if self._file is None:
            return "<lmcodec.safe_open, closed>"
        return "<lmcodec.safe_open of %r>" % self._file

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> File:
        file = self._file
        if file is None:
            raise ClosedError("File is closed")
        return file

    def _read_batch(self, file: File, batch: dict[str, TensorInfo], targets: Mapping[str, Target],
                    results: dict[str, Any], progress: ProgressCall | None) -> None:
        made, addresses, tensors = {}, [], []
        for name, tensor in batch.items():
            if name in targets:
                results[name], address = targets[name].array, targets[name].address
            else:
                file.check_size(tensor)
                made[name], address = self._arrays.new(tensor.dtype, tensor.shape)
            if tensor.nbytes and address is not None:
                addresses.append(address)
                tensors.append(tensor)
        if tensors:
            file.read_many(tensors, addresses, threads=self._threads, progress=progress)
        for name, array in made.items():
            results[name] = self._arrays.finish(array, batch[name].dtype, batch[name].shape)
        for name, tensor in batch.items():
            target = targets.get(name)
            if target is not None and target.address is None and tensor.nbytes:
                convert(file, tensor, self._arrays, target.array, self._threads)
            if target is not None and target.is_new:
                results[name] = self._arrays.finish(target.array, tensor.dtype, tensor.shape)


def _file_of(filename: Path | File, base: Path | None, base_dirs: Sequence[Path],
             storage_options: Mapping[str, Any] | None) -> File:
    if isinstance(filename, File):
        if base is not None or base_dirs or storage_options is not None:
            raise ArgumentError("an open file has its bases already")
        return filename
    if isinstance(filename, str) and "://" in filename:
        from .._remote.remote_file import RemoteFile

        return RemoteFile(filename, storage_options=storage_options, base=base, base_dirs=base_dirs)
    if storage_options is not None:
        raise ArgumentError("storage_options are for URLs, not for %r" % (filename,))
    return File(filename, base=base, base_dirs=base_dirs)


def _batches(tensors: Any, batch_nbytes: int) -> Any:
    """Tensors in batches of at most batch_nbytes, or of one tensor."""
    batch: dict[str, TensorInfo] = {}
    nbytes = 0
    for name, tensor in tensors.items():
        if batch and nbytes + tensor.nbytes > batch_nbytes:
            yield batch
            batch, nbytes = {}, 0
        batch[name] = tensor
        nbytes += tensor.nbytes
    if batch:
        yield batch
