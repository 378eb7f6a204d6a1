"""Access to single records of archives, for libraries that load weights lazily or save while they convert."""
from __future__ import annotations

import os

from ..serialization import entry, open_archive, storage_bytes
from .archives import Archive, folder_of
from .core.convert import InProcess
from .core.dtypes import BY_NAME, dtype as Dtype, uint8
from .core.exchange import seen_memory, to_numpy
from .core.native import Tensor
from .core.tensor import empty


class PyTorchFileReader:
    """Read records of an archive: of a path, or of a file object.

    RuntimeError for a file that is no archive.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save({"a": torch.ones(2)}, file)
    >>> reader = torch.PyTorchFileReader(file)
    >>> reader.has_record("data.pkl"), reader.get_storage_from_record("data/0", 2, torch.float32)
    (True, tensor([1., 1.]))
    """

    def __init__(self, name_or_buffer):
        self._is_own = not hasattr(name_or_buffer, "read")
        self._file = open(name_or_buffer, "rb") if self._is_own else name_or_buffer
        self._archive = open_archive(self._file)
        self._folder = next(iter(self._archive.namelist()), "").partition("/")[0] + "/"

    def _path(self, name: str) -> str:
        """Path of a record in the archive.  RuntimeError if there is none of this name."""
        if not self.has_record(name):
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        return self._folder + name

    def has_record(self, name: str) -> bool:
        return self._folder + name in self._archive.NameToInfo

    def get_all_records(self) -> list[str]:
        return [path.removeprefix(self._folder) for path in self._archive.namelist()]

    def get_record(self, name: str) -> bytes:
        return bytes(entry(self._archive, self._path(name)))

    def get_storage_from_record(self, name: str, numel: int, dtype) -> Tensor:
        """Tensor of a record's first ``numel`` elements; ``dtype`` may be the class UntypedStorage, for bytes."""
        dtype = dtype if isinstance(dtype, Dtype) else uint8
        found = None

        def allocate(size):
            nonlocal found
            if numel * dtype.itemsize > size:
                raise ValueError(f"it has {size} bytes, not {numel} elements of {dtype}")
            found = empty((size,), BY_NAME["uint8"])
            return to_numpy(found, seen_memory)

        entry(self._archive, self._path(name), allocate)
        return found[:numel * dtype.itemsize].view(dtype)

    def get_record_header_offset(self, name: str) -> int:
        return self._archive.getinfo(self._path(name)).header_offset

    def get_record_offset(self, name: str) -> int:
        """Offset of the content of a record in the file."""
        with self._archive.open(self._path(name)) as record:
            return record._orig_compress_start

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self._is_own:
            self._file.close()

    def serialization_id(self) -> str:
        """Identifier that depends on the archive's content; empty for archives without one."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""


class PyTorchFileWriter:
    """Write records into an archive: at a path, or to a file object.  ``write_end_of_file`` completes it.

    >>> import io
    >>> file = io.BytesIO()
    >>> writer = torch.PyTorchFileWriter(file)
    >>> writer.write_record("note", b"text", 4)
    >>> writer.write_end_of_file()
    >>> torch.PyTorchFileReader(file).get_record("note")
    b'text'
    """

    def __init__(self, filename_or_buffer, compute_crc32=True, alignment=64):
        self._is_own = not hasattr(filename_or_buffer, "write")
        self._name = folder_of(os.fspath(filename_or_buffer)) if self._is_own else "archive"
        self._archive = Archive(open(filename_or_buffer, "wb") if self._is_own else filename_or_buffer, self._name)
        self._archive.compute_crc32, self._archive.alignment = compute_crc32, alignment
        self._records: list[str] = []

    def archive_name(self) -> str:
        return self._name

    def get_all_written_records(self) -> set[str]:
        return set(self._records)

    def write_record(self, name: str, data, size: int):
        """Write the first ``size`` bytes of bytes, a string, or a storage.  RuntimeError for a name that was
        written."""
        if name in self._records:
            raise RuntimeError(f"Tried to serialize file twice: {name}")
        if isinstance(data, (InProcess, Tensor)):
            memory = (data.untyped_storage() if isinstance(data, Tensor) else data.untyped()).cpu()
            content = storage_bytes(memory.tensor()._rush_storage)
        elif isinstance(data, (str, bytes, bytearray, memoryview)):
            content = data.encode() if isinstance(data, str) else data
        else:
            raise TypeError("write_record() expected a string, bytes or a storage, got "
                            f"{type(data).__name__}")
        self._records.append(name)
        self._archive.write(name, memoryview(content).cast("B")[:size] if size else b"")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.write_end_of_file()

    def write_end_of_file(self):
        self._archive.__exit__(None, None, None)
        if self._is_own:
            self._archive.file.close()
