"""Look at output files as bits: what was never written, what two runs disagree on."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch

from kernel_lint.verify import trees
from kernel_lint.verify.trees_io import bytes_of

# What fresh memory is filled with in two runs: memory that shows both was never written.
POISONS = (0xFF, 0x7B)


def digest_file(path: Path) -> str:
    """Return the digest of the values in a tree file; where they lay in memory does not count."""
    digest = hashlib.sha256()
    for leaf in trees.flatten(trees.load_tree(path)):
        digest.update(leaf.path.encode("utf-8", "surrogatepass"))
        if isinstance(leaf.value, torch.Tensor):
            digest.update(bytes_of(leaf.value.contiguous()).numpy().tobytes() if leaf.value.numel() else b"")
        else:
            digest.update(repr(leaf.value).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def never_written(first: trees.Tree, second: trees.Tree) -> str:
    """Return a sentence when elements hold the poison of both runs; they were never written."""
    for one, other in zip(trees.flatten(first), trees.flatten(second), strict=False):
        if not (isinstance(one.value, torch.Tensor) and isinstance(other.value, torch.Tensor)):
            continue
        if (
            one.value.shape != other.value.shape
            or one.value.dtype != other.value.dtype
            or not one.value.numel()
        ):
            continue
        size = one.value.element_size()
        left = bytes_of(one.value.contiguous()).reshape(-1, size)
        right = bytes_of(other.value.contiguous()).reshape(-1, size)
        untouched = ((left == POISONS[0]) & (right == POISONS[1])).all(dim=1)
        count = int(untouched.sum())
        if count:
            index = torch.unravel_index(untouched.nonzero()[0, 0], one.value.shape) if one.value.ndim else ()
            where = tuple(int(i) for i in index)
            total = one.value.numel()
            total = one.value.numel()
            return f"output{one.path}: {count} of {total} elements were never written, the first at {where}"
    return ""


def first_difference(one: trees.Tree, other: trees.Tree) -> str:
    """Return a sentence when two outputs differ in any bit."""
    left, right = trees.flatten(one), trees.flatten(other)
    if [leaf.path for leaf in left] != [leaf.path for leaf in right]:
        return "two runs on the same inputs returned different structures"
    for a, b in zip(left, right, strict=True):
        if isinstance(a.value, torch.Tensor) and isinstance(b.value, torch.Tensor):
            if a.value.shape != b.value.shape or a.value.dtype != b.value.dtype:
                return f"output{a.path} has another shape or dtype in a second run on the same inputs"
            different = bytes_of(a.value.contiguous()) != bytes_of(b.value.contiguous())
            if bool(different.any()):
                count = int(different.sum())
                return f"output{a.path} differs in {count} bytes between two runs on the same inputs"
        elif repr(a.value) != repr(b.value):
            return f"output{a.path} is {a.value!r} in one run and {b.value!r} in the next"
    return ""


def difference(one: Path, other: Path) -> dict[str, Any]:
    """Return candidate minus reference for every pair of float tensors of equal shape."""
    result: dict[str, Any] = {}
    for a, b in zip(trees.flatten(trees.load_tree(one)), trees.flatten(trees.load_tree(other)), strict=False):
        pair = isinstance(a.value, torch.Tensor) and isinstance(b.value, torch.Tensor)
        if pair and a.value.shape == b.value.shape and not a.value.is_complex() and not b.value.is_complex():
            result[a.path or "output"] = a.value.to(torch.float64) - b.value.to(torch.float64)
    return result
