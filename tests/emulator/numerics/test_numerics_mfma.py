"""MFMA against scalar loops over the matrices, with operands placed lane by lane from the text of the ISA
document.

Small whole numbers are exact in every operand type, so results must be equal, not close.
"""

from __future__ import annotations

import itertools
import math
import random

import numerics_exact as exact
import pytest
import torch

from kernel_lint.emulator.numerics.mfma import MFMA_SPECS, MfmaSpec, mfma, operand_format
from kernel_lint.emulator.numerics.mfma_table import Element, lane_map

PLAIN = sorted(name for name, spec in MFMA_SPECS.items() if not spec.scaled)
SCALED = sorted(name for name, spec in MFMA_SPECS.items() if spec.scaled)
SMALL = ["fp8_e4m3", "bf8_e5m2", "fp6_e2m3", "fp6_e3m2", "fp4_e2m1"]
Matrix = dict[tuple[int, int, int], float]


def spec_of(name: str) -> MfmaSpec:
    return MFMA_SPECS[f"rocdl.mfma.{name}"]


def whole_numbers(spec: MfmaSpec, rng: random.Random) -> tuple[Matrix, Matrix, Matrix]:
    """A by (block, row, k), B by (block, k, column), C by (block, row, column)."""
    a = {
        (b, i, k): rng.randint(-2, 2)
        for b in range(spec.blocks)
        for i in range(spec.m)
        for k in range(spec.k)
    }
    b = {
        (b, k, j): rng.randint(-2, 2)
        for b in range(spec.blocks)
        for k in range(spec.k)
        for j in range(spec.n)
    }
    c = {
        (b, i, j): rng.randint(-9, 9)
        for b in range(spec.blocks)
        for i in range(spec.m)
        for j in range(spec.n)
    }
    return a, b, c  # type: ignore[return-value]


def multiply(spec: MfmaSpec, a: Matrix, b: Matrix, c: Matrix) -> Matrix:
    d: Matrix = {}
    for block, i, j in itertools.product(range(spec.blocks), range(spec.m), range(spec.n)):
        d[block, i, j] = c[block, i, j] + sum(a[block, i, k] * b[block, k, j] for k in range(spec.k))
    return d


def input_formula(spec: MfmaSpec, block: int, index: int, k: int) -> tuple[int, int]:
    """[CDNA4] 7.1.4.1: item k % K_L of lane i + M * (b + B * (k / K_L)), with K_L = K / (64 / (M * B))."""
    k_l = spec.k // (64 // (spec.m * spec.blocks))
    return index + spec.m * (block + spec.blocks * (k // k_l)), k % k_l


def small_formula(spec: MfmaSpec, width: int, index: int, k: int) -> tuple[int, int]:
    """The tables of [CDNA4] 7.1.5.1 for one block of 8-, 6- or 4-bit elements."""
    if width < 8:
        return index + spec.m * (k // 32), k % 32
    half, rest = divmod(k, spec.k // 2)
    return index + spec.m * (rest // 16), half * 16 + rest % 16


def output_formula(spec: MfmaSpec, block: int, i: int, j: int) -> tuple[int, int]:
    """[CDNA4] 7.1.4.2, with its own names; f64 4x4x4 as the calculator prints it: D lies as B does."""
    if spec.acc_type == "f64" and spec.blocks == 4:
        return j + 4 * (block + 4 * i), 0
    h = 1 if spec.acc_type == "f64" else 4
    b_i = math.ceil(64 / (spec.n * spec.m / h))
    m_i = (64 // b_i) // spec.n
    g = spec.m // (h * m_i)
    item = (i % h) + h * (i // (h * m_i) + g * (block // b_i))
    return j + spec.n * ((i // h) % m_i + m_i * (block % b_i)), item


TYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "xf32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
}


def place(spec: MfmaSpec, operand: str, matrix: Matrix, gfx: str) -> torch.Tensor:
    """[64, items]: the operand's registers, elements or 8-bit codes."""
    kind = spec.a_type if operand == "a" else spec.b_type
    fmt = operand_format(spec, operand, gfx) if kind in ("fp8", "bf8") else None
    items = torch.zeros(64, spec.items, dtype=TYPES[kind] if fmt is None else torch.uint8)
    for (block, first, second), value in matrix.items():
        index, k = (first, second) if operand == "a" else (second, first)
        lane, item = input_formula(spec, block, index, k)
        items[lane, item] = value if fmt is None else exact.nearest_even(fmt.name, float(value))
    return items


def place_codes(spec: MfmaSpec, operand: str, matrix: Matrix, name: str) -> torch.Tensor:
    """[64, registers] int32 of 32 packed elements a lane."""
    width = exact.width(name)
    lanes = [0] * 64
    for (_, first, second), value in matrix.items():
        index, k = (first, second) if operand == "a" else (second, first)
        lane, item = small_formula(spec, width, index, k)
        lanes[lane] |= exact.nearest_even(name, float(value)) << (item * width)
    rows = [[(whole >> 32 * r) % 2**32 for r in range(width)] for whole in lanes]
    return torch.tensor(rows, dtype=torch.int64).to(torch.int32)


def place_c(spec: MfmaSpec, matrix: Matrix) -> torch.Tensor:
    dtype = {"f32": torch.float32, "i32": torch.int32, "f64": torch.float64}[spec.acc_type]
    items = torch.zeros(64, spec.acc_items, dtype=dtype)
    for (block, i, j), value in matrix.items():
        items[output_formula(spec, block, i, j)] = value
    return items


@pytest.mark.parametrize("name", PLAIN)
def test_every_instruction_multiplies_as_the_scalar_loop_does(name: str) -> None:
    spec = MFMA_SPECS[name]
    gfx = spec.gfx[-1]
    a, b, c = whole_numbers(spec, random.Random(name))
    result = mfma(spec, place(spec, "a", a, gfx), place(spec, "b", b, gfx), place_c(spec, c), gfx=gfx)
    assert torch.equal(result, place_c(spec, multiply(spec, a, b, c)))


@pytest.mark.parametrize("name", ["f32.16x16x32.fp8.bf8", "f32.32x32x16.bf8.fp8"])
def test_gfx942_reads_its_fp8_as_fnuz(name: str) -> None:
    spec = spec_of(name)
    a, b, c = whole_numbers(spec, random.Random(name))
    registers = [place(spec, "a", a, "gfx942"), place(spec, "b", b, "gfx942"), place_c(spec, c)]
    right = place_c(spec, multiply(spec, a, b, c))
    assert torch.equal(mfma(spec, *registers, gfx="gfx942"), right)
    assert not torch.equal(mfma(spec, *registers, gfx="gfx950"), right)


def scale_lane(spec: MfmaSpec, index: int, k: int) -> int:
    """[CDNA4] 7.2.1: lanes run over rows first, then over blocks of 32 in k."""
    return index + spec.m * (k // 32)


PAIRS = list(itertools.product(SMALL, SMALL))


@pytest.mark.parametrize(
    ("name", "a_name", "b_name"),
    [(SCALED[0], *pair) for pair in PAIRS]
    + [(SCALED[1], *pair) for pair in PAIRS[:: len(SMALL) + 1] + PAIRS[4:5]],
)
def test_scaled_instructions_in_all_25_pairs_of_formats(name: str, a_name: str, b_name: str) -> None:
    spec = MFMA_SPECS[name]
    rng = random.Random(name + a_name + b_name)
    a, b, c = whole_numbers(spec, rng)
    registers = place_codes(spec, "a", a, a_name), place_codes(spec, "b", b, b_name), place_c(spec, c)
    selectors = {"cbsz": SMALL.index(a_name), "blgp": SMALL.index(b_name)}
    plain = mfma(spec, *registers, gfx="gfx950", **selectors)
    assert torch.equal(plain, place_c(spec, multiply(spec, a, b, c)))

    exponents = [[rng.randint(-3, 3) for _ in range(64)] for _ in range(2)]
    scales = [torch.tensor([(127 + e) << 16 | 0x55 for e in row], dtype=torch.int32) for row in exponents]
    scaled = mfma(
        spec,
        *registers,
        gfx="gfx950",
        scale_a=scales[0],
        scale_b=scales[1],
        opsel_a=2,
        opsel_b=2,
        **selectors,
    )
    for key in a:
        a[key] *= 2.0 ** exponents[0][scale_lane(spec, key[1], key[2])]
    for key in b:
        b[key] *= 2.0 ** exponents[1][scale_lane(spec, key[2], key[1])]
    assert torch.equal(scaled, place_c(spec, multiply(spec, a, b, c)))


def test_extreme_scales_cancel_and_a_reserved_one_is_not_a_number() -> None:
    spec = spec_of("scale.f32.16x16x128.f8f6f4")
    ones = torch.full((64, 4), 0x22222222, dtype=torch.int32)  # 1.0 in FP4
    zero = torch.zeros(64, 4)
    options = {"gfx": "gfx950", "cbsz": 4, "blgp": 4}
    low = torch.zeros(64, dtype=torch.int32)  # 2^-127
    high = torch.full((64,), 254, dtype=torch.int32)  # 2^127
    assert (mfma(spec, ones, ones, zero, scale_a=low, scale_b=high, **options) == 128.0).all()  # type: ignore[arg-type]
    bad = mfma(spec, ones, ones, zero, scale_a=torch.full((64,), 255, dtype=torch.int32), **options)  # type: ignore[arg-type]
    assert bad.isnan().all()


def test_f8f6f4_ignores_registers_that_the_format_does_not_fill() -> None:
    spec = spec_of("scale.f32.32x32x64.f8f6f4")
    ones = torch.full((64, 8), 0x22222222, dtype=torch.int32)
    ones[:, 4:] = -1
    result = mfma(spec, ones, ones, torch.zeros(64, 16), gfx="gfx950", cbsz=4, blgp=4)
    assert (result == 64.0).all()


PROBES = [
    # [CDNA4] 7.1.3, the printed tables of D (f64 4x4x4: the calculator's): (name, register, lane) ->
    # (block, row, column)
    ("f32.32x32x1f32", 0, 31, (0, 0, 31)),
    ("f32.32x32x1f32", 3, 32, (0, 7, 0)),
    ("f32.32x32x1f32", 4, 0, (0, 8, 0)),
    ("f32.32x32x1f32", 16, 32, (1, 4, 0)),
    ("f32.32x32x1f32", 31, 63, (1, 31, 31)),
    ("f32.4x4x4f16", 3, 0, (0, 3, 0)),
    ("f32.4x4x4f16", 0, 4, (1, 0, 0)),
    ("f32.4x4x4f16", 3, 63, (15, 3, 3)),
    ("f64.16x16x4f64", 0, 63, (0, 3, 15)),
    ("f64.16x16x4f64", 3, 16, (0, 13, 0)),
    ("f64.4x4x4f64", 0, 16, (0, 1, 0)),
    ("f64.4x4x4f64", 0, 4, (1, 0, 0)),
]


@pytest.mark.parametrize(("name", "item", "lane", "element"), PROBES)
def test_results_land_where_the_isa_prints_them(
    name: str, item: int, lane: int, element: tuple[int, int, int]
) -> None:
    """A single one in A and in B makes a single one in D."""
    spec = spec_of(name)
    block, row, column = element
    a, b, c = (dict.fromkeys(matrix, 0.0) for matrix in whole_numbers(spec, random.Random(0)))
    a[block, row, 0] = b[block, 0, column] = 1.0
    result = mfma(
        spec, place(spec, "a", a, "gfx942"), place(spec, "b", b, "gfx942"), place_c(spec, c), gfx="gfx942"
    )
    assert result.nonzero().tolist() == [[lane, item]]
    assert lane_map(spec, "d")[lane][item] == Element(*element)


@pytest.mark.parametrize("name", sorted(MFMA_SPECS))
def test_identity_times_b_gives_b(name: str) -> None:
    """With A the identity (of the first m values of k), D shows where each (lane, item) of B lies."""
    spec = MFMA_SPECS[name]
    if spec.scaled or spec.k < spec.m:
        return
    gfx = spec.gfx[-1]
    zero = dict.fromkeys(whole_numbers(spec, random.Random(0))[2], 0.0)
    _, b, _ = whole_numbers(spec, random.Random(1))
    identity = {
        (block, i, k): float(i == k)
        for block, i, k in itertools.product(range(spec.blocks), range(spec.m), range(spec.k))
    }
    result = mfma(
        spec, place(spec, "a", identity, gfx), place(spec, "b", b, gfx), place_c(spec, zero), gfx=gfx
    )
    for lane, row in enumerate(lane_map(spec, "d")):
        for item, element in enumerate(row):
            assert float(result[lane, item]) == b[element.block, element.row, element.column]


@pytest.mark.parametrize("name", sorted(MFMA_SPECS))
@pytest.mark.parametrize("operand", ["a", "b", "c"])
def test_lane_maps_cover_each_element_once(name: str, operand: str) -> None:
    spec = MFMA_SPECS[name]
    elements = [element for lane in lane_map(spec, operand, 8 if spec.scaled else None) for element in lane]
    rows = {"a": spec.m, "b": spec.k, "c": spec.m}[operand]
    columns = {"a": spec.k, "b": spec.n, "c": spec.n}[operand]
    every = itertools.product(range(spec.blocks), range(rows), range(columns))
    assert sorted((e.block, e.row, e.column) for e in elements) == list(every)


@pytest.mark.parametrize(
    ("name", "a", "c"),
    [
        # registers a lane, from the tables of [CDNA3] 7.1 and [CDNA4] 7.1.2
        ("f32.32x32x1f32", 1, 32),
        ("f32.16x16x16f16", 2, 4),
        ("f32.32x32x8bf16.1k", 2, 16),
        ("f32.16x16x32.fp8.fp8", 2, 4),
        ("i32.16x16x64.i8", 4, 4),
        ("f32.32x32x16.bf16", 4, 16),
        ("f64.16x16x4f64", 2, 8),
        ("f64.4x4x4f64", 2, 2),
    ],
)
def test_register_counts(name: str, a: int, c: int) -> None:
    spec = spec_of(name)
    assert (spec.registers("a"), spec.registers("b"), spec.registers("c")) == (a, a, c)


def test_register_counts_of_small_formats() -> None:
    spec = spec_of("scale.f32.16x16x128.f8f6f4")
    counts = [spec.registers("a", operand_format(spec, "a", "gfx950", code)) for code in range(5)]
    assert counts == [8, 8, 6, 6, 4]


def test_operands_come_as_elements_or_as_packed_registers() -> None:
    spec = spec_of("f32.16x16x16f16")
    generator = torch.Generator().manual_seed(3)
    a, b = (torch.randn(2, 128, 4, generator=generator).half() for _ in range(2))
    c = torch.randn(2, 128, 4, generator=generator)
    plain = mfma(spec, a, b, c, gfx="gfx942")
    packed = mfma(spec, a.view(torch.int16), b.view(torch.int64), c.view(torch.int32), gfx="gfx942")
    assert plain.shape == (2, 128, 4)
    assert torch.equal(plain, packed)
    apart = mfma(spec, a[1, 64:], b[1, 64:], c[1, 64:], gfx="gfx942")
    assert torch.equal(plain[1, 64:], apart)


def test_uniform_operands_broadcast() -> None:
    spec = spec_of("f32.16x16x16f16")
    one = torch.ones(1, 1, 4, dtype=torch.float16)
    zero = torch.zeros(1, 1, 4)
    assert torch.equal(mfma(spec, one, one, zero, gfx="gfx942", lanes=128), torch.full((1, 128, 4), 16.0))
    spread = mfma(spec, one, one, torch.zeros(3, 64, 4), gfx="gfx942")
    assert torch.equal(spread, torch.full((3, 64, 4), 16.0))


def test_the_depth_can_be_summed_in_float64() -> None:
    """2^24 + 1 - 2^24 loses the one in float32."""
    spec = spec_of("f32.32x32x2f32")
    a, b, c = (dict.fromkeys(matrix, 0.0) for matrix in whole_numbers(spec, random.Random(0)))
    a[0, 0, 0], a[0, 0, 1] = 2.0**24, 1.0
    b[0, 0, 0], b[0, 1, 0] = 1.0, 1.0
    c[0, 0, 0] = -(2.0**24)
    registers = place(spec, "a", a, "gfx942"), place(spec, "b", b, "gfx942"), place_c(spec, c)
    assert float(mfma(spec, *registers, gfx="gfx942", accumulate=torch.float64)[0, 0]) == 1.0
    assert float(mfma(spec, *registers, gfx="gfx942")[0, 0]) in (0.0, 1.0)


def test_integers_wrap_as_the_hardware_drops_the_carry() -> None:
    spec = spec_of("i32.16x16x64.i8")
    lowest = torch.full((64, 16), -128, dtype=torch.int8)
    result = mfma(spec, lowest, lowest, torch.full((64, 4), 2**31 - 1, dtype=torch.int32), gfx="gfx950")
    assert (result == 2**31 - 1 + 64 * 2**14 - 2**32).all()


def test_xf32_truncates_the_mantissa_to_ten_bits() -> None:
    spec = spec_of("f32.16x16x8.xf32")
    a = torch.full((64, 2), 1.0 + 2.0**-10 + 2.0**-11 + 2.0**-23)
    result = mfma(spec, a, torch.ones(64, 2), torch.zeros(64, 4), gfx="gfx942")
    assert (result == 8 * (1.0 + 2.0**-10)).all()


def test_denormals_and_nan_pass_through() -> None:
    spec = spec_of("f32.32x32x8f16")
    a = torch.zeros(64, 4, dtype=torch.float16)
    a[0, 0] = 2.0**-24
    a[1, 0] = math.nan
    result = mfma(spec, a, torch.ones(64, 4, dtype=torch.float16), torch.zeros(64, 16), gfx="gfx942")
    assert float(result[0, 0]) == 2.0**-24
    assert result[:32, 1].isnan().all()
    assert not result[:, [0, 2, 3]].isnan().any()


BLGP = {
    1: lambda lane: lane % 32,
    2: lambda lane: lane % 32 + 32,
    3: lambda lane: (lane + 16) % 64,
    4: lambda lane: lane % 16,
    5: lambda lane: lane % 16 + 16,
    6: lambda lane: lane % 16 + 32,
    7: lambda lane: lane % 16 + 48,
}


@pytest.mark.parametrize("blgp", sorted(BLGP))
@pytest.mark.parametrize("name", ["f32.32x32x1f32", "f32.16x16x4f16", "f32.16x16x16f16", "i32.4x4x4i8"])
def test_blgp_permutes_the_lanes_of_b(name: str, blgp: int) -> None:
    spec = spec_of(name)
    a, b, c = whole_numbers(spec, random.Random(blgp))
    left, right, start = place(spec, "a", a, "gfx942"), place(spec, "b", b, "gfx942"), place_c(spec, c)
    permuted = right[[BLGP[blgp](lane) for lane in range(64)]]
    result = mfma(spec, left, right, start, gfx="gfx942", blgp=blgp)
    assert torch.equal(result, mfma(spec, left, permuted, start, gfx="gfx942"))


@pytest.mark.parametrize(
    ("name", "cbsz"), [("f32.32x32x1f32", 1), ("f32.16x16x4f16", 2), ("f32.4x4x4f16", 4)]
)
def test_cbsz_broadcasts_one_block_of_a(name: str, cbsz: int) -> None:
    """D[b] = C[b] + A[abid] x B[b], the full example of [CDNA4] 7.1.6.1."""
    spec = spec_of(name)
    a, b, c = whole_numbers(spec, random.Random(cbsz))
    registers = place(spec, "a", a, "gfx942"), place(spec, "b", b, "gfx942"), place_c(spec, c)
    for abid in range(spec.blocks):
        broadcast = {(block, i, k): a[abid, i, k] for block, i, k in a}
        result = mfma(spec, *registers, gfx="gfx942", cbsz=cbsz, abid=abid)
        assert torch.equal(result, place_c(spec, multiply(spec, broadcast, b, c)))


@pytest.mark.parametrize("blgp", range(8))
def test_blgp_negates_the_operands_of_f64(blgp: int) -> None:
    spec = spec_of("f64.16x16x4f64")
    a, b, c = whole_numbers(spec, random.Random(blgp))
    registers = place(spec, "a", a, "gfx942"), place(spec, "b", b, "gfx942"), place_c(spec, c)
    signs = [-1.0 if blgp >> bit & 1 else 1.0 for bit in range(3)]
    a, b, c = ({key: v * sign for key, v in m.items()} for m, sign in zip((a, b, c), signs, strict=True))
    assert torch.equal(
        mfma(spec, *registers, gfx="gfx942", blgp=blgp), place_c(spec, multiply(spec, a, b, c))
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("f32.16x16x4f16", {"cbsz": 1}, "disagree"),
        ("f32.32x32x1f32", {"cbsz": 1, "abid": 2}, "abid"),
        ("f32.16x16x16f16", {"blgp": 8}, "blgp"),
        ("scale.f32.16x16x128.f8f6f4", {"cbsz": 5}, "reserved"),
    ],
)
def test_modifiers_of_unknown_meaning_are_refused(name: str, options: dict[str, int], message: str) -> None:
    spec = spec_of(name)
    a = (
        torch.zeros(64, 8, dtype=torch.int32)
        if spec.scaled
        else torch.zeros(64, spec.items).to(TYPES[spec.a_type])
    )
    with pytest.raises(ValueError, match=message):
        mfma(spec, a, a, torch.zeros(64, spec.acc_items), gfx="gfx942", **options)  # type: ignore[arg-type]


def test_operands_of_the_wrong_size_are_refused() -> None:
    spec = spec_of("f32.16x16x16f16")
    good, zero = torch.zeros(64, 4, dtype=torch.float16), torch.zeros(64, 4)
    with pytest.raises(ValueError, match="operand a has 8 elements"):
        mfma(spec, torch.zeros(64, 8, dtype=torch.float16), good, zero, gfx="gfx942")
    with pytest.raises(ValueError, match="C has 16 elements"):
        mfma(spec, good, good, torch.zeros(64, 16), gfx="gfx942")
    with pytest.raises(ValueError, match="whole number of waves"):
        mfma(spec, good[:48], good[:48], zero[:48], gfx="gfx942")
