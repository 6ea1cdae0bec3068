"""Inputs: secret seeds that reach the factory, and variants that change only what they say."""

from __future__ import annotations

import itertools
import random
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.inputs import (
    InputError,
    derive_seed,
    digest,
    draw_inputs,
    new_secret,
    perturbed,
    seed_everything,
    seeded,
    widened,
)
from kernel_lint.verify.inputs_seeds import random_state
from kernel_lint.verify.inputs_variants import (
    DEFAULT_VARIANTS,
    Constant,
    Offset,
    Padded,
    Scaled,
    Strided,
    Transposed,
    Variant,
    accepted_variants,
    copied,
)

_bound_early = torch.manual_seed


def plain(n: int) -> dict[str, Any]:
    return {"x": torch.randn(n, n), "index": torch.randperm(n)}


def self_seeded(n: int) -> dict[str, Any]:
    torch.manual_seed(0)
    return plain(n)


def own_generator(n: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(7)
    return {"x": torch.randn(n, generator=generator)}


def numpy_generator(n: int) -> dict[str, Any]:
    return {"x": torch.from_numpy(np.random.default_rng(3).random(n))}


def python_generator(n: int) -> dict[str, Any]:
    generator = random.Random(3)
    return {"x": torch.tensor([generator.random() for _ in range(n)])}


def out_of_reach(n: int) -> dict[str, Any]:
    _bound_early(0)
    return plain(n)


def constant(n: int) -> dict[str, Any]:
    return {"x": torch.ones(n), "position": torch.arange(n)}


def one_coin(n: int) -> dict[str, Any]:
    return {"flag": torch.randint(2, (1,))}


# seeds ---------------------------------------------------------------------------


@pytest.mark.parametrize("factory", [plain, self_seeded, own_generator, numpy_generator, python_generator])
def test_draws_are_distinct_and_replayable(factory: Any) -> None:
    first, again, other = (draw_inputs(factory, {"n": 6}, secret, "s") for secret in (11, 11, 12))
    digests = [draw.digest for draw in first.draws]
    assert len(set(digests)) == 5
    assert first.reason is None
    assert digests == [draw.digest for draw in again.draws]
    assert not set(digests) & {draw.digest for draw in other.draws}
    assert all(digest(draw.inputs) == draw.digest for draw in first.draws)


def test_a_factory_that_seeds_itself_is_named() -> None:
    assert draw_inputs(plain, {"n": 3}, 1, "s").notes == ()
    (note,) = draw_inputs(self_seeded, {"n": 3}, 1, "s").notes
    assert "seeds itself" in note
    assert "torch.manual_seed" in note


def test_equal_seeds_of_a_factory_stay_equal() -> None:
    """Two tensors meant to be the same still are after mixing."""

    def twins() -> dict[str, Any]:
        return {name: torch.randn(3, generator=torch.Generator().manual_seed(1)) for name in "ab"}

    for draw in draw_inputs(twins, {}, 5, "s").draws:
        assert torch.equal(draw.inputs["a"], draw.inputs["b"])


def test_seeds_that_do_not_reach_the_inputs_are_our_fault() -> None:
    draws = draw_inputs(out_of_reach, {"n": 3}, 1, "s")
    assert draws.reason is Reason.HARNESS_ERROR
    assert "every seed gives the same inputs" in draws.notes[-1]


def test_constant_inputs_are_legitimate_and_noted() -> None:
    draws = draw_inputs(constant, {"n": 3}, 1, "s")
    assert (draws.reason, len(draws.draws)) == (None, 1)
    assert "draws no random numbers" in draws.notes[0]


def test_few_possible_inputs_are_noted() -> None:
    draws = draw_inputs(one_coin, {"n": 3}, 4, "s")
    assert draws.reason is None
    assert len(draws.draws) == 2
    assert "only 2 distinct" in draws.notes[0]


def test_seeds_differ_by_secret_shape_and_draw() -> None:
    seeds = {derive_seed(*key) for key in itertools.product(range(20), "ab", range(20))}
    assert len(seeds) == 800
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert new_secret() != new_secret()


def test_the_seeds_of_a_run_never_change() -> None:
    """A printed secret must replay the same inputs in every later version."""
    assert [derive_seed(1, "s", draw) for draw in range(2)] == [3014734187, 2244739680]


def test_a_factory_that_raises_is_the_tasks_fault() -> None:
    def broken(n: int) -> dict[str, Any]:
        raise ZeroDivisionError("n is 0")

    with pytest.raises(InputError, match="_make_inputs raised ZeroDivisionError: n is 0"):
        draw_inputs(broken, {"n": 1}, 1, "s")
    with pytest.raises(InputError, match="unexpected keyword argument 'm'"):
        draw_inputs(plain, {"m": 1}, 1, "s")
    with pytest.raises(InputError, match="returned a list"):
        draw_inputs(lambda: [torch.ones(1)], {}, 1, "s")


def test_drawing_leaves_the_generators_alone() -> None:
    before, manual_seed, generator = random_state(), torch.manual_seed, torch.Generator
    draw_inputs(self_seeded, {"n": 3}, 1, "s")
    assert before.same_as(random_state())
    assert torch.manual_seed is manual_seed
    assert torch.Generator is generator


def test_seeding_reaches_torch_numpy_and_random() -> None:
    def numbers() -> tuple[float, float, float]:
        return torch.rand(()).item(), np.random.random(), random.random()

    with seeded(2**32 - 1):
        first = numbers()
        seed_everything(2**32 - 1)
        assert numbers() == first
        seed_everything(1)
        assert not set(numbers()) & set(first)


# digests --------------------------------------------------------------------------


def test_digests_see_values_dtypes_shapes_and_places_and_not_strides() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    others = [x + 1, x.double(), x.reshape(3, 2), x.int(), [x], {"x": x}, (x, 1), (x, 2), -x * 0, x * 0]
    assert len({digest(value) for value in [x, *others]}) == 1 + len(others)
    assert digest(x) == digest(x.t().contiguous().t()) == digest(x.clone())


# widening and perturbing -------------------------------------------------------------


def test_perturbation_is_small_relative_and_only_of_floats() -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0)).bfloat16()
    value = {"x": x, "i": torch.arange(3), "c": torch.ones(2, dtype=torch.complex64), "zero": torch.zeros(3)}
    moved, wide = perturbed(value, 1), widened(value)
    assert torch.equal(moved["i"], value["i"])
    assert moved["c"].dtype == torch.complex128
    assert torch.equal(moved["zero"], torch.zeros(3).double())
    change = (moved["x"] / wide["x"] - 1).abs()
    assert 2**-26 < change.mean() < change.max() <= 2**-24 * (1 + 1e-7)
    assert torch.equal(moved["x"], perturbed(value, 1)["x"])
    assert not torch.equal(moved["x"], perturbed(value, 2)["x"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.complex128])
def test_perturbation_leaves_its_argument_alone_and_keeps_the_order_in_memory(dtype: torch.dtype) -> None:
    x = torch.ones(3, 5, dtype=dtype).t()
    repeated = torch.ones(5, dtype=dtype).expand(4, 5)
    moved = perturbed([x, repeated], 1)
    assert (x == 1).all()
    assert (repeated == 1).all()
    assert not (moved[0] == 1).all()
    assert moved[0].stride() == x.stride()
    assert len(set(moved[1].flatten().tolist())) > 5


# variants ------------------------------------------------------------------------------

LAYOUTS = [variant for variant in DEFAULT_VARIANTS if variant.layout]
VALUES = [variant for variant in DEFAULT_VARIANTS if not variant.layout]
ANY_DTYPE = st.sampled_from(
    [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int8, torch.bool]
    + [torch.complex64, torch.float8_e5m2]
)


@settings(max_examples=150, deadline=None)
@given(
    variant=st.sampled_from(LAYOUTS),
    shape=st.lists(st.integers(0, 5), max_size=4),
    dtype=ANY_DTYPE,
    seed=st.integers(0, 9),
)
def test_layout_variants_keep_every_value(
    variant: Variant, shape: list[int], dtype: torch.dtype, seed: int
) -> None:
    x = (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 9).to(dtype)
    before = digest(x)
    assert digest(variant.apply({"x": [x]})) == digest({"x": [x]})
    assert digest(x) == before


def test_layout_variants_move_things() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    assert Strided().apply(x).stride() == (12, 2)
    assert Padded().apply(x).stride() == (14, 1)
    assert Transposed().apply(x).stride() == (1, 4)
    assert Offset("o", 1).apply(x).storage_offset() == 1
    assert Offset("o", 16).apply(x).storage_offset() == 4
    assert Offset("o", 16).apply(x.bfloat16()).storage_offset() == 8
    assert not any(variant.apply(x).is_contiguous() for variant in (Strided(), Padded(), Transposed()))


def test_gaps_hold_nan_and_minus_one() -> None:
    gaps = Strided().apply([torch.ones(3), torch.ones(3, dtype=torch.int64)])
    first, second = (tensor.as_strided((3,), (2,), 1) for tensor in gaps)
    assert torch.isnan(first).all()
    assert (second == -1).all()


@pytest.mark.parametrize("variant", VALUES, ids=lambda variant: variant.name)
def test_value_variants_leave_integers_alone(variant: Variant) -> None:
    value = {"x": torch.randn(4, 4), "i": torch.arange(5), "m": torch.tensor([True, False]), "n": 3}
    changed = variant.apply(value)
    assert digest([changed["i"], changed["m"], changed["n"]]) == digest([value["i"], value["m"], value["n"]])
    assert digest(changed["x"]) != digest(value["x"])
    assert changed["x"].dtype == torch.float32


def test_value_variants_do_what_they_say() -> None:
    x = torch.tensor([1.0, -2.0])
    assert Scaled("s", 0.25).apply(x).tolist() == [0.25, -0.5]
    assert Scaled("s", 3.0).apply(x.bfloat16()).tolist() == [3.0, -6.0]
    assert Constant("c", 0.5).apply(x).tolist() == [0.5, 0.5]


def notes(reference: Any, inputs: Any) -> dict[str, str]:
    return {result.variant.name: result.note for result in accepted_variants(reference, inputs)}


def test_variants_that_a_reference_accepts_come_with_its_output() -> None:
    inputs = {"x": torch.randn(8, 16), "i": torch.arange(8)}
    for result in accepted_variants(lambda given: given["x"][given["i"]].softmax(-1), inputs):
        assert result.accepted, result.note
        assert torch.allclose(result.output, result.inputs["x"].softmax(-1))


def test_rejected_and_non_finite_variants_are_left_out_with_a_note() -> None:
    def reference(inputs: Any) -> torch.Tensor:
        if not inputs["x"].is_contiguous():
            raise ValueError("contiguous tensors only")
        return inputs["x"].log()

    found = notes(reference, {"x": torch.rand(4, 4) + 1})
    assert found["strided"] == "left out: the reference raises ValueError: contiguous tensors only"
    assert found["scaled"].startswith("left out: the reference gives 16 non-finite values")
    assert found["zeros"].startswith("left out: the reference gives 16 non-finite values")
    assert [found[name] for name in ("tiny", "huge", "offset-16-bytes")] == ["", "", ""]


def test_usual_infinities_do_not_count_against_a_variant() -> None:
    mask = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    found = notes(lambda inputs: inputs["x"] + inputs["m"], {"x": torch.randn(4, 4), "m": mask})
    assert found["tiny"] == found["transposed"] == ""


def test_variants_that_change_nothing_are_left_out() -> None:
    found = notes(lambda inputs: inputs["i"] + 1, {"i": torch.arange(6)})
    assert found["scaled"] == "left out: it changes none of these inputs"
    assert found["transposed"] == "left out: it moves none of these inputs"
    assert found["offset-one-element"] == ""


def test_inputs_that_overflow_are_left_out() -> None:
    found = notes(lambda inputs: inputs["x"].float(), {"x": torch.full((4,), 1000.0, dtype=torch.float16)})
    assert found["huge"] == "left out: an input overflows its dtype"


def test_a_reference_may_change_its_copy() -> None:
    inputs = {"x": torch.rand(3, 3) + 1}
    before = digest(inputs)
    for result in accepted_variants(lambda given: given["x"].fill_(-7.0), inputs):
        assert result.accepted
        assert not (result.inputs["x"] == -7).any()
    assert digest(inputs) == before


def test_copies_keep_layout_gaps_and_aliasing() -> None:
    base = torch.arange(12.0)
    a, b = copied((base[1::3], [base.view(3, 4).t(), torch.zeros(0), torch.ones(1).expand(5)]))
    assert (a.stride(), a.storage_offset()) == ((3,), 1)
    assert b[0].stride() == (1, 4)
    assert b[2].stride() == (0,)
    b[0][1, 0] = 99
    assert a[0] == 99
    assert base[1] == 1
