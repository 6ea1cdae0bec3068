"""Operations across the lanes of a wave.

Values are tensors [..., lanes]; lanes is a multiple of the wave size (64 on gfx9), so one call serves all
waves of all workgroups. `active` is the EXEC mask, bool [..., lanes] or None for all; results in inactive
lanes are those of the instruction as if the lane were active, and the caller keeps the old value there.
Lane numbers count from 0 within the wave. DPP has its own module. Short names of the documents: see
formats.py.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from kernel_lint.emulator.numerics.packing import (
    as_bytes,
    extract_field,
    joint_shape,
    pack_codes,
    unpack_codes,
)

WAVE = 64


@functools.lru_cache(maxsize=64)
def lane_ids(lanes: int, wave: int, device: torch.device) -> Tensor:
    """Lane number within its wave, int64 [lanes]. Raises ValueError when lanes is not a multiple of the
    wave.
    """
    if lanes % wave:
        raise ValueError(f"{lanes} lanes are not a whole number of waves of {wave}")
    return torch.arange(lanes, device=device) % wave


@functools.lru_cache(maxsize=64)
def _wave_base(lanes: int, wave: int, device: torch.device) -> Tensor:
    return torch.arange(lanes, device=device) - lane_ids(lanes, wave, device)


def gather_lanes(value: Tensor, source: Tensor, wave: int = WAVE) -> Tensor:
    """value[..., source lane of the same wave].

    value: [..., lanes], any dtype. source: int64, [lanes] or broadcastable to value; taken modulo the wave.
    """
    lanes = value.shape[-1]
    base = _wave_base(lanes, wave, value.device)
    index = base + source % wave
    if index.dim() == 1:
        return value.index_select(-1, index)
    shape = joint_shape(value.shape, index.shape)
    return value.expand(shape).gather(-1, index.expand(shape))


def _or_all(active: Tensor | None, like: Tensor) -> Tensor:
    if active is None:
        return torch.ones((), dtype=torch.bool, device=like.device).expand(like.shape)
    return active.expand(joint_shape(active.shape, like.shape))


def _fetch(value: Tensor, source: Tensor, active: Tensor | None, wave: int) -> Tensor:
    """The source lane's value, and 0 where that lane is inactive: what LDS-based lane operations return."""
    fetched = gather_lanes(value, source, wave)
    if active is None:
        return fetched
    return torch.where(gather_lanes(active, source, wave), fetched, torch.zeros_like(fetched))


def shuffle(
    value: Tensor,
    offset: Tensor | int,
    width: int,
    mode: str,
    active: Tensor | None = None,
    wave: int = WAVE,
) -> tuple[Tensor, Tensor]:
    """gpu.shuffle as FlyDSL compiles it for AMD: the value, and whether the source lane counted as valid
    (bool).

    mode: "xor", "up", "down" or "idx". The lowering (MLIR ConvertGpuOpsToROCDLOps.cpp,
    GPUShuffleOpLowering) takes target = lane ^ offset, lane - offset, lane + offset or offset; the target
    is valid when, as a signed number, it is below (lane + width) & -width; an invalid target is replaced by
    the lane itself; then ds_bpermute fetches. So idx counts from the start of the wave, not of the group of
    `width` lanes, and up from the first lanes wraps round to the end of the wave, with a true flag. An
    inactive source lane gives 0. Raises ValueError on another mode.
    """
    lane = lane_ids(value.shape[-1], wave, value.device)
    amount = offset.to(torch.int64) if isinstance(offset, Tensor) else offset
    if mode == "xor":
        target = lane ^ amount
    elif mode == "up":
        target = lane - amount
    elif mode == "down":
        target = lane + amount
    elif mode == "idx":
        target = torch.zeros_like(lane) + amount
    else:
        raise ValueError(f"gpu.shuffle has no mode {mode!r}")
    valid = target < ((lane + width) & -width)
    source = torch.where(valid, target, lane)
    result = _fetch(value, source, active, wave)
    return result, valid.expand(result.shape)


def ds_bpermute(address: Tensor, value: Tensor, active: Tensor | None = None, wave: int = WAVE) -> Tensor:
    """rocdl.ds_bpermute: each lane reads lane (address / 4) % wave; 0 where that lane is inactive.

    address: integer [..., lanes], bytes, an immediate offset already added. Source: DS_BPERMUTE_B32 in
    [CDNA4].
    """
    return _fetch(value, (address.to(torch.int64) & 0xFFFFFFFF) >> 2, active, wave)


def ds_permute(address: Tensor, value: Tensor, active: Tensor | None = None, wave: int = WAVE) -> Tensor:
    """llvm.amdgcn.ds.permute: each active lane writes to lane (address / 4) % wave.

    A lane that nobody writes to gets 0; of several writers the highest-numbered one wins. Source:
    DS_PERMUTE_B32 in [CDNA4].
    """
    lanes = value.shape[-1]
    shape = joint_shape(address.shape, value.shape)
    target = _wave_base(lanes, wave, value.device) + ((address.to(torch.int64) & 0xFFFFFFFF) >> 2) % wave
    target = target.expand(shape)
    writer = torch.arange(lanes, device=value.device).expand(shape)
    writer = torch.where(_or_all(active, writer).expand(shape), writer, -1)
    winner = torch.full(shape, -1, dtype=torch.int64, device=value.device)
    winner = winner.scatter_reduce(-1, target, writer, "amax")
    taken = value.expand(shape).gather(-1, winner.clamp(min=0))
    return torch.where(winner >= 0, taken, torch.zeros_like(taken))


def swizzle_source(offset: int, lanes: int, device: torch.device, wave: int = WAVE) -> Tensor:
    """The lane (int64 [lanes]) that ds_swizzle_b32 with the 16-bit pattern `offset` reads.

    Four modes, all within groups of 32 lanes. Source: DS_SWIZZLE_B32 in the AMD Vega ISA document, section
    12.13 (the pseudocode), and [CDNA4]'s table of the FFT patterns 0x00 and 0x10. The ISA states the
    rotation for gfx9 and later.
    """
    lane = lane_ids(lanes, wave, device)
    low, group = lane & 0x1F, lane & ~0x1F
    if offset >= 0xE000:
        mask = offset & 0x1F
        if mask == 0x1F:
            return lane
        reverse = sum(((low >> bit) & 1) << (4 - bit) for bit in range(5))
        return group | (reverse >> mask.bit_count()) | (low & mask)
    if offset >= 0xC000:
        rotate = (offset >> 5) & 0x1F
        mask = offset & 0x1F
        moved = low - rotate if offset & 0x400 else low + rotate
        return group | (low & mask) | (moved & ~mask & 0x1F)
    if offset & 0x8000:
        within = sum(torch.where((lane & 3) == i, (offset >> (2 * i)) & 3, 0) for i in range(4))
        return (lane & ~3) | within
    and_mask, or_mask, xor_mask = offset & 0x1F, (offset >> 5) & 0x1F, (offset >> 10) & 0x1F
    return group | (((low & and_mask) | or_mask) ^ xor_mask)


def ds_swizzle(value: Tensor, offset: int, active: Tensor | None = None, wave: int = WAVE) -> Tensor:
    """rocdl.ds_swizzle: each lane reads the lane that the pattern names; 0 where that lane is inactive."""
    source = swizzle_source(offset & 0xFFFF, value.shape[-1], value.device, wave)
    return _fetch(value, source, active, wave)


def _by_wave(value: Tensor, wave: int) -> Tensor:
    """[..., waves, wave]. Raises ValueError when the lanes are not a whole number of waves."""
    lane_ids(value.shape[-1], wave, value.device)
    return value.reshape(*value.shape[:-1], -1, wave)


def readlane(value: Tensor, lane: Tensor | int, wave: int = WAVE) -> Tensor:
    """rocdl.readlane: the value of lane `lane` % wave in every lane of its wave, active or not.

    lane: a number, or integers [..., lanes] (uniform within each wave by the instruction's contract: the
    lane's own entry is used). Source: V_READLANE_B32 in [CDNA4] (S1[5:0]; EXEC is ignored).
    """
    if isinstance(lane, int):
        waves = _by_wave(value, wave)
        return waves[..., lane % wave, None].expand(waves.shape).reshape(value.shape)
    return gather_lanes(value, lane.to(torch.int64), wave)


def first_active_lane(active: Tensor, wave: int = WAVE) -> Tensor:
    """The lowest active lane of each wave, int64 [..., waves, 1]; 0 in a wave without active lanes."""
    return _by_wave(active, wave).to(torch.uint8).argmax(dim=-1, keepdim=True)


def readfirstlane(value: Tensor, active: Tensor | None = None, wave: int = WAVE) -> Tensor:
    """rocdl.readfirstlane: the value of the lowest active lane, in every lane of its wave.

    Source: V_READFIRSTLANE_B32 in [CDNA4] (lane 0 when EXEC is 0).
    """
    if active is None:
        return readlane(value, 0, wave)
    shape = joint_shape(value.shape, active.shape)
    waves = _by_wave(value.expand(shape), wave)
    first = first_active_lane(active, wave).expand(*waves.shape[:-1], 1)
    return waves.gather(-1, first).expand(waves.shape).reshape(shape)


def ballot(predicate: Tensor, active: Tensor | None = None, wave: int = WAVE) -> Tensor:
    """rocdl.ballot: bit i tells whether lane i is active and its predicate true; int64, the same in all the
    wave.

    predicate: bool [..., lanes]. Source: llvm.amdgcn.ballot in LLVM AMDGPUUsage (inactive lanes give 0).
    """
    votes = predicate if active is None else predicate & active
    bits = _by_wave(votes, wave).to(torch.int64)
    # The weight of lane 63 is the sign bit of int64: the sum wraps to exactly the wanted pattern.
    weights = torch.ones(wave, dtype=torch.int64, device=votes.device) << torch.arange(
        wave, device=votes.device
    )
    mask = (bits * weights).sum(-1, keepdim=True)
    return mask.expand(bits.shape).reshape(votes.shape)


def _popcount32(word: Tensor) -> Tensor:
    """Number of ones among the low 32 bits, int64."""
    n = word.to(torch.int64) & 0xFFFFFFFF
    n = n - ((n >> 1) & 0x55555555)
    n = (n & 0x33333333) + ((n >> 2) & 0x33333333)
    n = (n + (n >> 4)) & 0x0F0F0F0F
    return ((n * 0x01010101) & 0xFFFFFFFF) >> 24


def mbcnt_lo(mask: Tensor, base: Tensor, lanes: int, wave: int = WAVE) -> Tensor:
    """rocdl.mbcnt.lo: base plus the ones of the 32-bit mask below the own lane (all 32 from lane 32 on).

    mask, base: integer, broadcastable to [..., lanes]. int32 [..., lanes]. Source: V_MBCNT_LO_U32_B32 in
    [CDNA4].
    """
    lane = lane_ids(lanes, wave, mask.device)
    below = (torch.ones_like(lane) << lane.clamp(max=32)) - 1
    return (base + _popcount32(mask.to(torch.int64) & below)).to(torch.int32)


def mbcnt_hi(mask: Tensor, base: Tensor, lanes: int, wave: int = WAVE) -> Tensor:
    """rocdl.mbcnt.hi: base plus the ones of the mask of lanes 32 to 63 below the own lane (0 up to lane 32).

    Shapes as mbcnt_lo. Source: V_MBCNT_HI_U32_B32 in [CDNA4].
    """
    lane = lane_ids(lanes, wave, mask.device)
    below = (torch.ones_like(lane) << (lane - 32).clamp(min=0)) - 1
    return (base + _popcount32(mask.to(torch.int64) & below)).to(torch.int32)


def permlane_swap(
    first: Tensor, second: Tensor, rows: int, active: Tensor | None = None, wave: int = WAVE
) -> tuple[Tensor, Tensor]:
    """rocdl.permlane16.swap (rows = 16) and permlane32.swap (rows = 32) of gfx950: both registers afterwards.

    The upper half of each group of 2 * rows lanes of `first` (vdst) changes places with the lower half of
    `second` (src0): an odd row of the first with an even row of the second. Inactive lanes keep their
    values. Source: V_PERMLANE16_SWAP_B32 and V_PERMLANE32_SWAP_B32 in [CDNA4]; llvm.amdgcn.permlane32.swap
    in AMDGPUUsage.
    """
    lane = lane_ids(first.shape[-1], wave, first.device)
    upper = (lane & rows) != 0
    shape = joint_shape(first.shape, second.shape)
    first, second = first.expand(shape), second.expand(shape)
    new_first = torch.where(upper, gather_lanes(second, lane ^ rows, wave), first)
    new_second = torch.where(upper, second, gather_lanes(first, lane ^ rows, wave))
    if active is None:
        return new_first, new_second
    return torch.where(active, new_first, first), torch.where(active, new_second, second)


def perm_b32(high: Tensor, low: Tensor, selector: Tensor) -> Tensor:
    """llvm.amdgcn.perm (v_perm_b32): four bytes chosen from eight, int32.

    Selector byte 0 to 3 takes a byte of `low` (the second operand), 4 to 7 one of `high` (the first); 8 to 11
    replicate the sign of byte 1, 3, 5, 7; 12 is 0x00; 13 and above 0xFF. Source: V_PERM_B32 in [CDNA4].
    """
    shape = joint_shape(high.shape, low.shape, selector.shape)
    if selector.numel() == 1:  # the usual case: a constant
        picks = (int(selector) & 0xFFFFFFFF).to_bytes(4, "little")
        result = torch.zeros(shape, dtype=torch.int32, device=high.device)
        for place, pick in enumerate(picks):
            result |= _chosen_byte(high, low, pick) << (8 * place)
        return result
    data = as_bytes(torch.stack((low.expand(shape), high.expand(shape)), dim=-1))
    signs = torch.where(data[..., 1::2] >= 0x80, 0xFF, 0).to(torch.uint8)
    fixed = torch.tensor([0x00, 0xFF], dtype=torch.uint8, device=data.device).expand(*shape, 2)
    choices = torch.cat((data, signs, fixed), dim=-1)
    index = as_bytes(selector.unsqueeze(-1)).clamp(max=13).to(torch.int64).expand(*shape, 4)
    return choices.gather(-1, index).view(torch.int32).squeeze(-1)


def _chosen_byte(high: Tensor, low: Tensor, pick: int) -> Tensor:
    """The byte (int32, 0 to 255) that one constant selector byte names."""
    if pick >= 12:
        return torch.full((), 0xFF if pick > 12 else 0, dtype=torch.int32, device=high.device)
    number = pick if pick < 8 else 2 * (pick - 8) + 1
    byte = extract_field(high if number >= 4 else low, number % 4 * 8, 8)
    return byte if pick < 8 else (byte >> 7) * 0xFF


def transpose_read(data: Tensor, element_bits: int, wave: int = WAVE) -> Tensor:
    """What ds_read_b64_tr_b16, _b8, _b4 and ds_read_b96_tr_b6 (gfx950) give from what each lane's address
    holds.

    data: uint8 [..., lanes, 8] (12 for 6-bit elements), the bytes at each lane's own address. Result: the
    same shape, the bytes of the destination registers. Each 16 lanes form one unit: their data, laid end to
    end, is a matrix of elements with 16 columns, and lane t of the unit gets column t, top row first. So
    with 16-bit elements 4 lanes hold one row, with 8-bit elements 2, with 6 or 4 bits 1. EXEC must be all
    ones. Source: [CDNA4] 11.4, "MFMA Transpose Load from LDS" (column-major A or row-major B into the MFMA
    layout). Raises ValueError on another element size.
    """
    if element_bits not in (4, 6, 8, 16):
        raise ValueError(f"no transposing read has elements of {element_bits} bits")
    lanes, size = data.shape[-2:]
    if lanes % wave:
        raise ValueError(f"{lanes} lanes are not a whole number of waves of {wave}")
    count = size * 8 // element_bits
    items = (
        data.contiguous().view(torch.int16) if element_bits == 16 else unpack_codes(data, element_bits, count)
    )
    units = items.reshape(*data.shape[:-2], lanes // 16, count, 16)
    columns = units.transpose(-1, -2).reshape(*data.shape[:-2], lanes, count).contiguous()
    if element_bits == 16:
        return columns.view(torch.uint8)
    return pack_codes(columns, element_bits).view(torch.uint8)
