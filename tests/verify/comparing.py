"""What the tests of the comparison share: a case judged, and tensors to judge."""

from __future__ import annotations

import math
from typing import Any

import torch
from compare_cases import Case

from kernel_lint.verify.compare import compare
from kernel_lint.verify.compare_result import Comparison, LeafComparison

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
NARROW = [torch.bfloat16, torch.float16]


def judged(case: Case, kernel: Any, xs: Any, **options: Any) -> Comparison:
    exact = case.reference(*(x.double() for x in xs))
    return compare(kernel(*xs), case.reference(*xs), exact, accumulation=case.accumulation, **options)


def leaf(result: Comparison) -> LeafComparison:
    return result.leaves[0]


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def against_itself(candidate: torch.Tensor, value: torch.Tensor, **options: Any) -> Comparison:
    """Compare with a reference that is exact: only the floors count."""
    return compare(candidate, value, value.double(), **options)


def special(**changes: float) -> torch.Tensor:
    value = noise(4, 128)
    value[1, 5], value[2, 6], value[3, 7] = math.nan, math.inf, -math.inf
    for place, number in changes.items():
        value.view(-1)[int(place[1:])] = number
    return value
