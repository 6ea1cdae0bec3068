"""What the dispatch mode and the fingerprint see, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernel_lint.verify import outputs, trees
from kernel_lint.verify.integrity import Fingerprint, Watch
from kernel_lint.verify.memory import POISONS, watched_memory


@pytest.mark.parametrize(
    ("statement", "work"),
    [
        ("torch.empty(8).copy_(x).view(2, 4).t().contiguous()", 0),
        ("torch.cat([x, x]).reshape(4, 4)[1:].clone().to(torch.float64)", 0),
        ("torch.arange(4) * 3 + 1", 0),
        ("x + x", 8),
        ("x.sum()", 8),
        ("x.argmax()", 8),
        ("x.view(2, 4) @ x.view(4, 2)", 2 * 2 * 4 * 2),
        ("torch.softmax(x, 0)", 8),
        ("x.sum() * 2", 8),
    ],
)
def test_glue_is_free_and_arithmetic_counts(statement: str, work: int) -> None:
    x = torch.arange(8.0)
    watch = Watch()
    with watch:
        eval(statement, {"torch": torch, "x": x})  # noqa: S307 - a table of expressions
    assert watch.summary()["work"] == work


def test_the_fingerprint_finds_what_is_replaced_and_what_hides_a_base(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = Fingerprint()
    assert before.changes() == []
    monkeypatch.setattr(torch, "allclose", lambda *a, **k: True)
    monkeypatch.setattr(torch.Tensor, "__eq__", lambda *a: True, raising=False)
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)
    assert {"torch.allclose", "torch.Tensor.__eq__", "time.perf_counter"} <= set(before.changes())


def test_importing_more_of_torch_is_not_tampering() -> None:
    before = Fingerprint()
    import torch._dynamo
    import torch.fx  # noqa: F401

    assert before.changes() == []


def _tree(*values: object) -> trees.Tree:
    return trees.Tree(list(values))


def _saved(folder: Path, *values: object) -> trees.Tree:
    trees.save_tree(list(values), folder / "t.safetensors")
    return trees.load_tree(folder / "t.safetensors")


def test_only_outputs_of_the_right_shape_are_searched_for_poison(tmp_path: Path) -> None:
    made = []
    for poison in POISONS:
        with watched_memory(poison):
            made.append(_saved(tmp_path, torch.empty(2, 3), 3, None))
    sentence = outputs.never_written(made[0], made[1], made[0])
    assert sentence.startswith("output[0]: 6 of 6 elements were never written")
    assert outputs.never_written(made[0], made[1], _saved(tmp_path, torch.zeros(5), 3, None)) == ""
    assert outputs.never_written(made[0], made[0], made[0]) == ""


def test_runs_are_compared_by_bits() -> None:
    nan = torch.tensor([float("nan"), 0.0])
    assert outputs.first_difference(_tree(nan), _tree(nan.clone())) == ""
    assert "differs in 1 bytes" in outputs.first_difference(
        _tree(nan), _tree(torch.tensor([float("nan"), -0.0]))
    )
    assert "structures" in outputs.first_difference(_tree(nan), _tree(nan, nan))
    assert "1 in one run and 2 in the next" in outputs.first_difference(_tree(1), _tree(2))
    assert "another shape" in outputs.first_difference(_tree(nan), _tree(nan[:1]))
