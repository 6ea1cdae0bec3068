"""The safetensors container under :mod:`kernel_lint.verify.trees`, written and read in pieces.

Why not the ``safetensors`` package for this: its reader maps the file, and a candidate that
shortens a mapped file kills the judge with SIGBUS; its in-memory loader holds the bytes twice;
its writer copies every tensor first; and it opens by name, so what was checked need not be
what is read. The files themselves are plain safetensors, which tests check with that package.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernel_lint.errors import KernelLintError

# The dtypes of safetensors 0.4, the oldest release that is supported; others travel as U8.
SAFETENSORS_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
PIECE_BYTES = 16 * 2**20


class TreeError(KernelLintError):
    """A value that cannot travel, or a file that is not a sound tree."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a tree file may cost its reader.

    ``file_bytes`` bounds the file, ``header_bytes`` its JSON (safetensors itself allows
    100 MB), ``leaves`` the nodes, ``storage_bytes`` what rebuilt strides may allocate.
    """

    file_bytes: int = 256 * 2**30
    header_bytes: int = 32 * 2**20
    leaves: int = 100_000
    storage_bytes: int = 64 * 2**30


def typed_view(
    storage: torch.UntypedStorage,
    dtype: torch.dtype,
    offset: int,
    shape: Sequence[int],
    stride: Sequence[int] | None = None,
) -> torch.Tensor:
    """A tensor over ``storage``, ``offset`` elements in; row-major unless ``stride`` (in elements) is given.

    Works for every dtype, also those that torch can neither copy nor index.
    """
    empty: Any = torch.empty(0, dtype=dtype, device=storage.device)
    layout = () if stride is None else (tuple(stride),)
    result: torch.Tensor = empty.set_(storage, offset, tuple(shape), *layout)
    return result


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """View a contiguous tensor of any dtype as its bytes, shape (nbytes,)."""
    item = tensor.dtype.itemsize
    offset = int(tensor.storage_offset()) * item
    return typed_view(tensor.untyped_storage(), torch.uint8, offset, (tensor.numel() * item,))


def memory_of(tensor: torch.Tensor) -> memoryview:
    """The memory of a contiguous CPU uint8 tensor, writable."""
    array: Any = tensor.numpy()
    return memoryview(array)


def pieces(tensor: torch.Tensor, limit: int = PIECE_BYTES) -> Iterator[torch.Tensor]:
    """Yield the bytes of ``tensor`` in row-major order as CPU uint8 tensors of at most ``limit``."""
    if tensor.numel() == 0:
        return
    if tensor.numel() * tensor.dtype.itemsize <= limit:
        resolved = tensor.resolve_conj().resolve_neg() if tensor.is_complex() or tensor.is_neg() else tensor
        yield bytes_of(resolved.contiguous()).cpu()
        return
    dim = next(d for d, size in enumerate(tensor.shape) if size > 1)
    size = tensor.shape[dim]
    # Whole rows of the first real dimension: as many as fit, at least one (then split further).
    step = max(1, size * limit // (tensor.numel() * tensor.dtype.itemsize))
    for start in range(0, size, step):
        yield from pieces(tensor.narrow(dim, start, min(step, size - start)), limit)


def write_tensors(path: Path, tensors: list[tuple[str, torch.Tensor]], metadata: dict[str, str]) -> None:
    """Write named tensors as one safetensors file, through a temporary file renamed at the end."""
    # Large items first keeps every tensor aligned to its own item size, as safetensors does.
    ordered = sorted(tensors, key=lambda pair: -pair[1].dtype.itemsize)
    header: dict[str, Any] = {"__metadata__": metadata}
    offset = 0
    for name, tensor in ordered:
        size = tensor.numel() * tensor.dtype.itemsize
        known = SAFETENSORS_NAMES.get(tensor.dtype)
        shape = list(tensor.shape) if known else [size]
        header[name] = {"dtype": known or "U8", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for _, tensor in ordered:
                for piece in pieces(tensor):
                    file.write(memory_of(piece))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


class Reader:
    """Reads tensors from a file that may have been written by an adversary.

    The file is opened once, without following a link, and must be a regular file; every size is
    checked against it before anything is allocated. Raises :class:`TreeError`.
    """

    def __init__(self, path: Path, limits: Limits, *, mmap: bool = False) -> None:
        self._name = path.name
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise TreeError(f"{path.name} cannot be opened: {error}") from error
        try:
            self._size = self._regular_size(limits)
            self.metadata, self._entries, self._data = self._header(limits)
            # An empty file cannot be mapped, but a file this far has its header.
            self._map = _map(path, self._size) if mmap else None
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def tensor(self, name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        """Read the named tensor, once, as ``dtype`` and ``shape``, which must account for all its bytes."""
        if name not in self._entries:
            raise TreeError(f"{self._name} has no tensor named {name[:40]!r}, or uses it twice")
        start, end = self._entries.pop(name)
        if math.prod(shape) * dtype.itemsize != end - start:
            raise TreeError(f"{self._name}: {name} holds {end - start} bytes, not {dtype} of shape {shape}")
        offset = self._data + start
        if self._map is not None and offset % dtype.itemsize == 0:
            storage, first = self._map.untyped_storage(), offset // dtype.itemsize
        else:
            storage, first = self._read(offset, end - start).untyped_storage(), 0
        return typed_view(storage, dtype, first, shape)

    def _regular_size(self, limits: Limits) -> int:
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            raise TreeError(f"{self._name} is not a regular file")
        if status.st_size > limits.file_bytes:
            raise TreeError(
                f"{self._name} has {status.st_size} bytes, more than the {limits.file_bytes} allowed"
            )
        return status.st_size

    def _read(self, offset: int, size: int) -> torch.Tensor:
        buffer = torch.empty(size, dtype=torch.uint8)
        view = memory_of(buffer)
        done = 0
        while done < size:
            count = os.preadv(self._fd, [view[done : done + 2**30]], offset + done)
            if count == 0:
                raise TreeError(f"{self._name} ends {size - done} bytes early")
            done += count
        return buffer

    def _header(self, limits: Limits) -> tuple[dict[str, str], dict[str, tuple[int, int]], int]:
        length = int.from_bytes(os.pread(self._fd, 8, 0), "little") if self._size >= 8 else -1
        if not 2 <= length <= min(limits.header_bytes, self._size - 8):
            raise TreeError(f"{self._name} is not a safetensors file: its header would not fit")
        text = self._read(8, length).numpy().tobytes()
        try:
            header = json.loads(text)
            metadata = header.pop("__metadata__", {})
            entries = {name: _offsets(entry) for name, entry in header.items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise TreeError(f"{self._name} has a malformed safetensors header: {error}") from error
        data = 8 + length
        reached = 0
        for name, (start, end) in sorted(entries.items(), key=lambda entry: entry[1]):
            if end > self._size - data:
                raise TreeError(
                    f"{self._name}: {name[:40]} lies at {start}-{end}, beyond the end of the file"
                )
            # Overlaps would let a small file ask for any amount of memory.
            if start < reached:
                raise TreeError(f"{self._name}: {name[:40]} overlaps another tensor")
            reached = end
        if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
            raise TreeError(f"{self._name} has metadata that is not text")
        return metadata, entries, data


def _offsets(entry: Any) -> tuple[int, int]:
    start, end = entry["data_offsets"]
    if type(start) is not int or type(end) is not int or not 0 <= start <= end:
        raise ValueError(f"bad data_offsets {str(entry)[:80]}")
    return start, end


def _map(path: Path, size: int) -> torch.Tensor:
    return torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
