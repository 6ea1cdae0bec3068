"""What the dispatch mode and the fingerprint see, in this process."""

from __future__ import annotations

import pytest
import torch

from kernel_lint.verify import integrity, outputs, trees
from kernel_lint.verify.integrity import GUARD_BYTES, Fingerprint, Watch


def _flat(value: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(value.untyped_storage())


def test_fresh_memory_holds_the_poison() -> None:
    with Watch(0xFF):
        one = torch.empty(3, 5)
        other = torch.empty_like(one, dtype=torch.int32)
        strided = torch.empty_strided((2, 3), (1, 2))
    assert bool(one.isnan().all())
    assert other.eq(-1).all()
    assert strided.stride() == (1, 2)
    assert bool(strided.isnan().all())


def test_zeros_and_ones_keep_their_values_between_guards() -> None:
    with Watch(0xFF):
        values = [torch.zeros(4), torch.ones(2, 2), torch.full((3,), 7), torch.zeros_like(torch.ones(2))]
    assert [float(v.sum()) for v in values] == [0.0, 4.0, 21.0, 0.0]
    assert all(v.untyped_storage().nbytes() > 2 * GUARD_BYTES for v in values)


@pytest.mark.parametrize(("at", "side"), [(0, "after"), (-1, "before")])
def test_a_write_past_either_end_is_found(at: int, side: str) -> None:
    watch = Watch(0xFF)
    with watch:
        out = torch.empty(4)
    assert watch.damage() == []
    start = out.storage_offset() * 4
    _flat(out)[start + 16 if at == 0 else start - 1] = 0
    [sentence] = watch.damage()
    assert f"1 bytes written up to {1 if at else 0} bytes {side} an empty of 16 bytes" in sentence


def test_inputs_keep_strides_offsets_and_values() -> None:
    source = torch.arange(20.0).reshape(4, 5)[1:, 1::2]
    moved = Watch(None).guard(source)
    assert moved.equal(source)
    assert moved.stride() == source.stride()
    assert moved.data_ptr() % 4 == 0


def test_contents_leave_the_guards_out_and_the_gaps_in() -> None:
    watch, later = Watch(None), Watch(None)
    moved = watch.guard(torch.zeros(2, 4)[:, ::2])
    before = watch.contents(moved)
    assert before.numel() == 32
    start = moved.storage_offset() * 4
    _flat(moved)[start - 1] = 0
    assert integrity.bytes_equal(watch.contents(moved), before)
    _flat(moved)[start + 4] = 1
    assert not integrity.bytes_equal(watch.contents(moved), before)
    later.adopt(watch)
    assert len(later.damage()) == 1
    assert watch.contents(3) == "3"


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
    watch = Watch(0xFF)
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


def test_only_what_shows_both_poisons_was_never_written() -> None:
    one, other = torch.zeros(2, 3), torch.zeros(2, 3)
    for value, poison in ((one, outputs.POISONS[0]), (other, outputs.POISONS[1])):
        _flat(value)[16:20] = poison
    assert outputs.never_written(_tree(one), _tree(other), _tree(one)) == (
        "output[0]: 1 of 6 elements were never written, the first at (1, 1)"
    )
    assert outputs.never_written(_tree(one), _tree(one), _tree(one)) == ""
    assert outputs.never_written(_tree(one), _tree(other), _tree(torch.zeros(5))) == ""


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.complex64])
def test_every_dtype_shows_its_poison(dtype: torch.dtype) -> None:
    made = []
    for poison in outputs.POISONS:
        with Watch(poison):
            made.append(torch.empty(4, dtype=torch.uint8 if dtype == torch.bool else dtype))
    assert "4 of 4 elements" in outputs.never_written(_tree(made[0]), _tree(made[1]), _tree(made[0]))


def test_runs_are_compared_by_bits() -> None:
    nan = torch.tensor([float("nan"), 0.0])
    assert outputs.first_difference(_tree(nan), _tree(nan.clone())) == ""
    assert "differs in 1 bytes" in outputs.first_difference(
        _tree(nan), _tree(torch.tensor([float("nan"), -0.0]))
    )
    assert "structures" in outputs.first_difference(_tree(nan), _tree(nan, nan))
    assert "1 in one run and 2 in the next" in outputs.first_difference(_tree(1), _tree(2))
    assert "another shape" in outputs.first_difference(_tree(nan), _tree(nan[:1]))


def test_bytes_and_plain_values_compare() -> None:
    assert integrity.bytes_equal(torch.ones(2), torch.ones(2))
    assert not integrity.bytes_equal(torch.ones(2), torch.ones(3))
    assert integrity.bytes_equal("a", "a")
