"""Look at output files as bits: what was never written, what two runs disagree on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kernel_lint.verify import trees
from kernel_lint.verify.inputs import digest
from kernel_lint.verify.memory import unwritten
from kernel_lint.verify.trees_io import pieces


def digest_file(path: Path) -> str:
    """Return the digest of the values in a tree file; where they lay in memory does not count."""
    return digest(trees.load_tree(path).value)


def never_written(first: trees.Tree, second: trees.Tree, like: trees.Tree) -> str:
    """Return a sentence when elements hold the poison of both runs; they were never written.

    ``like`` is an output whose shapes were found to be the reference's: outputs of other shapes
    are left alone, or one element seen a trillion times could keep the judge busy.
    """
    if not _forms(first) == _forms(second) == _forms(like):
        return ""
    found = unwritten(first, second)
    return found[0].describe() if found else ""


def _forms(tree: trees.Tree) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(info.path, info.dtype, info.shape) for info in tree.tensors]


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


def difference(one: Path, other: Path) -> dict[str, Any]:
    """Return candidate minus reference for every pair of float tensors of equal shape."""
    result: dict[str, Any] = {}
    for a, b in zip(trees.flatten(trees.load_tree(one)), trees.flatten(trees.load_tree(other)), strict=False):
        pair = isinstance(a.value, torch.Tensor) and isinstance(b.value, torch.Tensor)
        if pair and a.value.shape == b.value.shape and not a.value.is_complex() and not b.value.is_complex():
            result[a.path or "output"] = a.value.to(torch.float64) - b.value.to(torch.float64)
    return result
