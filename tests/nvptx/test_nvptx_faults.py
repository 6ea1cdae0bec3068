"""A kernel's fault on the GPU comes with what it may come from, and where to look."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel_lint.verify.backends.nvptx import NvptxObserver


def observer(said: str) -> NvptxObserver:
    session: Any = SimpleNamespace(launches=[])
    made = NvptxObserver(session, "gfx942")

    def synchronize() -> None:
        raise RuntimeError(said)

    made._synchronize = synchronize
    return made


def test_an_access_to_nowhere_names_the_emulator() -> None:
    said = "CUDA error: an illegal memory access was encountered\nSearch for `cudaErrorIllegalAddress'"
    with pytest.raises(RuntimeError) as caught:
        observer(said).synchronize()
    text = str(caught.value)
    assert text.startswith("CUDA error: an illegal memory access was encountered; an AMD GPU reads zero")
    assert "--backend emulate names the kernel" in text
    assert "Search for" not in text


def test_any_other_error_stays_as_it_is() -> None:
    with pytest.raises(RuntimeError, match=r"^CUDA error: out of memory$"):
        observer("CUDA error: out of memory").synchronize()
