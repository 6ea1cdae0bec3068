"""Lane operations against plain loops over lanes, written from the ISA's pseudocode."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_lint.emulator.numerics import lanes
from kernel_lint.emulator.numerics.dpp import dpp_source, update_dpp

WAVE = 64
LANES = 2 * WAVE  # two waves, so that a move across waves would be seen

masks = st.lists(st.booleans(), min_size=LANES, max_size=LANES)
addresses = st.lists(st.integers(-512, 512), min_size=LANES, max_size=LANES)


def values() -> torch.Tensor:
    """Distinct values in two workgroups of two waves."""
    return torch.arange(2 * LANES, dtype=torch.int32).reshape(2, LANES) + 1000


def per_wave(row: list[int]) -> list[list[int]]:
    return [row[start : start + WAVE] for start in range(0, len(row), WAVE)]


def expect(result: torch.Tensor, rows: list[list[int]]) -> None:
    assert result.tolist() == rows


def bpermute_loop(row: list[int], source: list[int], active: list[bool]) -> list[int]:
    out: list[int] = []
    for wave in range(len(row) // WAVE):
        for lane in range(WAVE):
            other = wave * WAVE + source[wave * WAVE + lane] % WAVE
            out.append(row[other] if active[other] else 0)
    return out


@settings(max_examples=40)
@given(address=addresses, mask=masks)
def test_bpermute_reads_the_addressed_lane_and_zero_from_inactive_ones(
    address: list[int], mask: list[bool]
) -> None:
    result = lanes.ds_bpermute(torch.tensor(address, dtype=torch.int32), values(), torch.tensor(mask))
    source = [(a % 2**32) // 4 for a in address]
    expect(result, [bpermute_loop(row, source, mask) for row in values().tolist()])


@settings(max_examples=40)
@given(address=addresses, mask=masks)
def test_permute_lets_the_highest_writer_win(address: list[int], mask: list[bool]) -> None:
    result = lanes.ds_permute(torch.tensor(address, dtype=torch.int32), values(), torch.tensor(mask))
    rows: list[list[int]] = []
    for row in values().tolist():
        out = [0] * LANES
        for lane in range(LANES):
            if mask[lane]:
                base = lane // WAVE * WAVE
                out[base + (address[lane] % 2**32) // 4 % WAVE] = row[lane]
        rows.append(out)
    expect(result, rows)


def test_permute_with_one_address_for_all_takes_the_last_lane() -> None:
    result = lanes.ds_permute(torch.zeros(1, dtype=torch.int32), values())
    assert result[0, 0] == values()[0, 63]
    assert result[0, 1:64].tolist() == [0] * 63


@pytest.mark.parametrize(
    ("mode", "offset", "source"),
    [
        ("xor", 32, lambda lane: lane ^ 32),
        ("xor", 1, lambda lane: lane ^ 1),
        ("down", 3, lambda lane: lane + 3 if lane + 3 < 64 else lane),
        ("up", 3, lambda lane: (lane - 3) % 64),
        ("idx", 17, lambda lane: 17),
    ],
)
def test_shuffles_of_the_whole_wave(mode: str, offset: int, source) -> None:  # type: ignore[no-untyped-def]
    result, valid = lanes.shuffle(values(), offset, 64, mode)
    row = [source(lane) for lane in range(WAVE)]
    expect(result, [bpermute_loop(line, row * 2, [True] * LANES) for line in values().tolist()])
    assert valid[0, :WAVE].tolist() == [mode != "down" or lane + 3 < 64 for lane in range(WAVE)]


def test_a_narrow_shuffle_down_stays_in_its_group() -> None:
    result, valid = lanes.shuffle(values(), torch.tensor(8, dtype=torch.int32), 16, "down")
    for lane in range(WAVE):
        inside = lane % 16 + 8 < 16
        assert int(result[0, lane]) - 1000 == (lane + 8 if inside else lane)
        assert bool(valid[0, lane]) == inside


def test_a_narrow_shuffle_idx_counts_from_the_start_of_the_wave() -> None:
    result, _ = lanes.shuffle(values(), 3, 16, "idx")
    assert result[0, ::16].tolist() == [1003] * 4 + [1067] * 4


def test_an_unknown_shuffle_is_refused() -> None:
    with pytest.raises(ValueError, match="rotate"):
        lanes.shuffle(values(), 1, 64, "rotate")


def test_part_of_a_wave_is_refused() -> None:
    with pytest.raises(ValueError, match="whole number of waves"):
        lanes.ds_swizzle(torch.zeros(1, 48), 0x041F)


def swizzle_loop(offset: int, lane: int) -> int:
    group, low = lane & 0x20, lane & 0x1F
    if offset >= 0xE000:
        mask = offset & 0x1F
        if mask == 0x1F:
            return lane
        reverse = int(format(low, "05b")[::-1], 2)
        return group | reverse >> format(mask, "b").count("1") | (low & mask)
    if offset >= 0xC000:
        rotate = (offset >> 5) & 0x1F
        rotate = -rotate if offset & 0x400 else rotate
        mask = offset & 0x1F
        return group | (low & mask) | ((low + rotate) & 0x1F & ~mask)
    if offset & 0x8000:
        return (lane & ~3) + ((offset >> (2 * (lane & 3))) & 3)
    return group | ((low & (offset & 0x1F)) | ((offset >> 5) & 0x1F)) ^ ((offset >> 10) & 0x1F)


@settings(max_examples=40)
@given(offset=st.integers(0, 0xFFFF), mask=masks)
def test_swizzle_follows_its_pattern(offset: int, mask: list[bool]) -> None:
    result = lanes.ds_swizzle(values(), offset, torch.tensor(mask))
    row = [swizzle_loop(offset, lane) for lane in range(WAVE)]
    expect(result, [bpermute_loop(line, row * 2, mask) for line in values().tolist()])


def test_the_swizzle_patterns_that_the_isa_prints() -> None:
    """[CDNA4] DS_SWIZZLE_B32 lists these two FFT patterns, counting lanes from 1 in hexadecimal."""
    first = "1,11,9,19,5,15,d,1d,3,13,b,1b,7,17,f,1f,2,12,a,1a,6,16,e,1e,4,14,c,1c,8,18,10,20"
    second = "1,9,5,d,3,b,7,f,2,a,6,e,4,c,8,10,11,19,15,1d,13,1b,17,1f,12,1a,16,1e,14,1c,18,20"
    for offset, printed in ((0xE000, first), (0xE010, second)):
        source = lanes.swizzle_source(offset, 64, torch.device("cpu"))
        assert source[:32].tolist() == [int(item, 16) - 1 for item in printed.split(",")]


@given(lane=st.integers(0, 127))
def test_readlane_ignores_the_mask(lane: int) -> None:
    result = lanes.readlane(values(), lane)
    expect(
        result, [[w[lane % WAVE] for w in per_wave(row) for _ in range(WAVE)] for row in values().tolist()]
    )


def test_readlane_takes_a_number_for_each_wave() -> None:
    index = torch.tensor([5] * WAVE + [9] * WAVE, dtype=torch.int32)
    assert lanes.readlane(values(), index)[0, ::WAVE].tolist() == [1005, 1064 + 9]


@settings(max_examples=40)
@given(mask=masks)
def test_readfirstlane_takes_the_lowest_active_lane_or_lane_0(mask: list[bool]) -> None:
    result = lanes.readfirstlane(values(), torch.tensor(mask).expand(2, LANES))
    for row, out in zip(values().tolist(), result.tolist(), strict=True):
        for wave in range(2):
            active = [lane for lane in range(WAVE) if mask[wave * WAVE + lane]]
            expected = row[wave * WAVE + (active[0] if active else 0)]
            assert out[wave * WAVE : wave * WAVE + WAVE] == [expected] * WAVE


@settings(max_examples=40)
@given(predicate=masks, mask=masks)
def test_ballot_collects_the_active_lanes_that_agree(predicate: list[bool], mask: list[bool]) -> None:
    result = lanes.ballot(torch.tensor(predicate), torch.tensor(mask))
    for wave in range(2):
        lanes_of_wave = range(wave * WAVE, wave * WAVE + WAVE)
        expected = sum((predicate[i] and mask[i]) << (i % WAVE) for i in lanes_of_wave)
        assert {value % 2**64 for value in result[lanes_of_wave[0] : lanes_of_wave[-1] + 1].tolist()} == {
            expected
        }


@given(mask=st.integers(-(2**31), 2**31 - 1), base=st.integers(-5, 5))
def test_mbcnt_counts_the_ones_below_the_own_lane(mask: int, base: int) -> None:
    word, start = torch.tensor([mask], dtype=torch.int32), torch.tensor([base], dtype=torch.int32)
    low, high = lanes.mbcnt_lo(word, start, LANES), lanes.mbcnt_hi(word, start, LANES)
    assert low.dtype == torch.int32
    ones = [(mask >> bit) & 1 for bit in range(32)]
    for lane in range(LANES):
        assert int(low[lane]) == base + sum(ones[: min(lane % WAVE, 32)])
        assert int(high[lane]) == base + sum(ones[: max(lane % WAVE - 32, 0)])


def test_mbcnt_of_all_ones_is_the_lane_number() -> None:
    ones, zero = torch.tensor([-1], dtype=torch.int32), torch.tensor([0], dtype=torch.int32)
    assert lanes.mbcnt_hi(ones, lanes.mbcnt_lo(ones, zero, LANES), LANES).tolist() == list(range(WAVE)) * 2


@pytest.mark.parametrize("rows", [16, 32])
@settings(max_examples=40)
@given(mask=masks)
def test_permlane_swap_exchanges_odd_rows_of_the_first_with_even_rows_of_the_second(
    rows: int, mask: list[bool]
) -> None:
    first, second = values(), values() + 5000
    got = lanes.permlane_swap(first, second, rows, torch.tensor(mask))
    for line in range(2):
        vdst, src = first[line].tolist(), second[line].tolist()
        for lane in range(LANES):
            if lane & rows == 0:
                swapped = vdst[lane + rows], src[lane]
                if mask[lane]:
                    src[lane] = swapped[0]
                if mask[lane + rows]:
                    vdst[lane + rows] = swapped[1]
        assert got[0][line].tolist() == vdst
        assert got[1][line].tolist() == src


@given(high=st.integers(0, 2**32 - 1), low=st.integers(0, 2**32 - 1), selector=st.integers(0, 2**32 - 1))
def test_perm_chooses_bytes(high: int, low: int, selector: int) -> None:
    signed = [torch.tensor([v - 2**32 if v >> 31 else v], dtype=torch.int32) for v in (high, low, selector)]
    data = low.to_bytes(4, "little") + high.to_bytes(4, "little")
    expected = 0
    for place in range(4):
        pick = selector >> 8 * place & 0xFF
        if pick >= 13:
            byte = 0xFF
        elif pick == 12:
            byte = 0
        elif pick >= 8:
            byte = 0xFF * (data[2 * (pick - 8) + 1] >> 7)
        else:
            byte = data[pick]
        expected |= byte << 8 * place
    assert int(lanes.perm_b32(*signed)) % 2**32 == expected
    several = [word.repeat(3) for word in signed]
    assert [word % 2**32 for word in lanes.perm_b32(*several).tolist()] == [expected] * 3


@pytest.mark.parametrize(("bits", "size"), [(16, 8), (8, 8), (4, 8), (6, 12)])
def test_a_transposing_read_gives_each_lane_a_column(bits: int, size: int) -> None:
    data = torch.randint(0, 256, (2, LANES, size), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    result = lanes.transpose_read(data, bits)
    count = size * 8 // bits
    for group in range(LANES // 16):
        unit = data[1, group * 16 : group * 16 + 16].flatten().tolist()
        whole = int.from_bytes(bytes(unit), "little")
        for lane in range(16):
            column = [(whole >> bits * (16 * row + lane)) % (1 << bits) for row in range(count)]
            got = int.from_bytes(bytes(result[1, group * 16 + lane].tolist()), "little")
            assert [(got >> bits * row) % (1 << bits) for row in range(count)] == column


def test_an_unknown_element_size_is_refused() -> None:
    with pytest.raises(ValueError, match="5 bits"):
        lanes.transpose_read(torch.zeros(64, 8, dtype=torch.uint8), 5)


CONTROLS = {
    **{ctrl: f"quad_perm {ctrl:#x}" for ctrl in (0x00, 0x1B, 0x4E, 0xB1, 0xE4, 0xFF)},
    **{0x100 + n: f"row_shl:{n}" for n in range(1, 16)},
    **{0x110 + n: f"row_shr:{n}" for n in range(1, 16)},
    **{0x120 + n: f"row_ror:{n}" for n in range(1, 16)},
    0x130: "wave_shl:1",
    0x134: "wave_rol:1",
    0x138: "wave_shr:1",
    0x13C: "wave_ror:1",
    0x140: "row_mirror",
    0x141: "row_half_mirror",
    0x142: "row_bcast:15",
    0x143: "row_bcast:31",
    **{0x150 + n: f"row_newbcast:{n}" for n in range(16)},
}


def dpp_loop(ctrl: int, lane: int) -> int | None:
    row, place = lane // 16 * 16, lane % 16
    kind, amount = ctrl & 0x1F0, ctrl & 0xF
    if ctrl <= 0xFF:
        return lane // 4 * 4 + (ctrl >> 2 * (lane % 4)) % 4
    if kind == 0x100:
        return lane + amount if place + amount <= 15 else None
    if kind == 0x110:
        return lane - amount if place - amount >= 0 else None
    if kind == 0x120:
        return row + (place + 16 - amount) % 16
    if ctrl in (0x130, 0x134):
        return lane + 1 if lane < 63 else (0 if ctrl == 0x134 else None)
    if ctrl in (0x138, 0x13C):
        return lane - 1 if lane > 0 else (63 if ctrl == 0x13C else None)
    if ctrl == 0x140:
        return row + 15 - place
    if ctrl == 0x141:
        return lane // 8 * 8 + 7 - lane % 8
    if ctrl == 0x142:
        return row - 1 if lane >= 16 else None
    if ctrl == 0x143:
        return 31 if lane >= 32 else None
    assert kind == 0x150
    return row + amount


@settings(max_examples=40)
@given(
    ctrl=st.sampled_from(sorted(CONTROLS)),
    row_mask=st.integers(0, 15),
    bank_mask=st.integers(0, 15),
    bound=st.booleans(),
    mask=masks,
)
def test_dpp_moves_what_its_control_says(
    ctrl: int, row_mask: int, bank_mask: int, bound: bool, mask: list[bool]
) -> None:
    old, src = values() + 9000, values()
    result = update_dpp(old, src, ctrl, row_mask, bank_mask, bound, torch.tensor(mask))
    for line in range(2):
        for lane in range(LANES):
            here, base = lane % WAVE, lane // WAVE * WAVE
            source = dpp_loop(ctrl, here)
            expected = int(old[line, lane])
            if row_mask >> (here // 16) & 1 and bank_mask >> (here // 4 % 4) & 1:
                if source is not None and mask[base + source]:
                    expected = int(src[line, base + source])
                elif bound:
                    expected = 0
            assert int(result[line, lane]) == expected, (CONTROLS[ctrl], lane)


@pytest.mark.parametrize("ctrl", [0x100, 0x110, 0x120, 0x131, 0x144, 0x14F, 0x170, 0x1FF, -1])
def test_an_undefined_control_is_refused(ctrl: int) -> None:
    with pytest.raises(ValueError, match="not defined"):
        dpp_source(ctrl, 64, torch.device("cpu"))


@pytest.mark.parametrize(
    ("distance", "moves"),
    [
        (8, [(0x118, 0xC), (0x108, 0x3)]),
        (4, [(0x114, 0xA), (0x104, 0x5)]),
        (2, [(0x4E, 0xF)]),
        (1, [(0xB1, 0xF)]),
        (8, [(0x128, 0xF)]),
    ],
)
def test_the_moves_that_kernels_compose_an_exchange_from(distance: int, moves: list[tuple[int, int]]) -> None:
    result = values()
    for ctrl, bank_mask in moves:
        result = update_dpp(result, values(), ctrl, 0xF, bank_mask)
    assert result[0].tolist() == [1000 + (lane ^ distance) for lane in range(LANES)]
