"""Look at output files as bits: what was never written, what two runs disagree on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from kernel_lint.verify import trees
from kernel_lint.verify.inputs import digest
from kernel_lint.verify.trees_io import pieces

# What fresh memory is filled with in two runs: memory that shows both was never written.
POISONS = (0xFF, 0x7B)


def digest_file(path: Path) -> str:
    """Return the digest of the values in a tree file; where they lay in memory does not count."""
    return digest(trees.load_tree(path).value)


def never_written(first: trees.Tree, second: trees.Tree, like: trees.Tree) -> str:
    """Return a sentence when elements hold the poison of both runs; they were never written.

    Works in pieces of 16 MiB. ``like`` is an output whose shapes were found to be the reference's:
    others are left alone, or one element seen a trillion times could keep the judge busy.
    """
    shapes = {leaf.path: getattr(leaf.value, "shape", None) for leaf in trees.flatten(like)}
    for path, one, other in _tensor_pairs(first, second):
        if shapes.get(path) != one.shape:
            continue
        size, passed, count, where = one.element_size(), 0, 0, -1
        for left, right in zip(pieces(one), pieces(other), strict=True):
            showing = (left.reshape(-1, size) == POISONS[0]) & (right.reshape(-1, size) == POISONS[1])
            untouched = showing.all(dim=1)
            found = int(untouched.sum())
            if found and where < 0:
                where = passed + int(untouched.nonzero()[0, 0])
            count, passed = count + found, passed + len(untouched)
        if count:
            index = (
                tuple(int(i) for i in torch.unravel_index(torch.tensor(where), one.shape)) if one.ndim else ()
            )
            return f"output{path}: {count} of {one.numel()} elements were never written, the first at {index}"
    return ""


def first_difference(one: trees.Tree, other: trees.Tree) -> str:
    """Return a sentence when two outputs, of shapes that were found right, differ in any bit."""
    left, right = trees.flatten(one), trees.flatten(other)
    if [leaf.path for leaf in left] != [leaf.path for leaf in right]:
        return "two runs on the same inputs returned different structures"
    for a, b in zip(left, right, strict=True):
        if isinstance(a.value, torch.Tensor) and isinstance(b.value, torch.Tensor):
            if a.value.shape != b.value.shape or a.value.dtype != b.value.dtype:
                return f"output{a.path} has another shape or dtype in a second run on the same inputs"
            count = sum(int((x != y).sum()) for x, y in zip(pieces(a.value), pieces(b.value), strict=True))
            if count:
                return f"output{a.path} differs in {count} bytes between two runs on the same inputs"
        elif repr(a.value) != repr(b.value):
            return f"output{a.path} is {a.value!r} in one run and {b.value!r} in the next"
    return ""


def _tensor_pairs(one: trees.Tree, other: trees.Tree) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    for a, b in zip(trees.flatten(one), trees.flatten(other), strict=False):
        tensors = isinstance(a.value, torch.Tensor) and isinstance(b.value, torch.Tensor)
        if tensors and a.value.shape == b.value.shape and a.value.dtype == b.value.dtype and a.value.numel():
            yield a.path, a.value, b.value


def difference(one: Path, other: Path) -> dict[str, Any]:
    """Return candidate minus reference for every pair of float tensors of equal shape."""
    result: dict[str, Any] = {}
    for a, b in zip(trees.flatten(trees.load_tree(one)), trees.flatten(trees.load_tree(other)), strict=False):
        pair = isinstance(a.value, torch.Tensor) and isinstance(b.value, torch.Tensor)
        if pair and a.value.shape == b.value.shape and not a.value.is_complex() and not b.value.is_complex():
            result[a.path or "output"] = a.value.to(torch.float64) - b.value.to(torch.float64)
    return result
