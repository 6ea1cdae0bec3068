"""Every ROCDL operation that FlyDSL uses for gfx942 and gfx950 has an owner: the numerics, or the engine."""

from __future__ import annotations

import pytest

from kernel_lint.emulator import registry
from kernel_lint.emulator.numerics.conversions import SCALED_CONVERSIONS
from kernel_lint.emulator.numerics.mfma import MFMA_SPECS

# What a harvest of FlyDSL's kernels, atoms and tests for gfx942 and gfx950 lowers to, but for the matrix
# instructions and scaled conversions, which are complete tables.
COMPUTED_HERE = """ cvt.pk.fp8.f32 cvt.pk.f32.fp8 cvt.pk.bf8.f32 cvt.pk.f32.bf8 cvt.f32.fp8 cvt.f32.bf8
cvt.sr.fp8.f32 cvt.sr.bf8.f32 cvt.pkrtz ds_bpermute ds_swizzle readlane readfirstlane ballot mbcnt.lo
mbcnt.hi update.dpp permlane16.swap permlane32.swap ds.read.tr16.b64 ds.read.tr8.b64 ds.read.tr6.b96
ds.read.tr4.b64 """.split()
INTRINSICS_COMPUTED_HERE = ["llvm.amdgcn.perm", "llvm.amdgcn.update.dpp", "llvm.amdgcn.cvt.sr.bf16.f32"]
ASSEMBLY_COMPUTED_HERE = [
    "v_cvt_pk_bf16_f32",
    "v_cvt_off_f32_i4",
    "v_cvt_off_f32_i4_sdwa",
    "ds_read_b64_tr_b16",
    "ds_read_b64_tr_b8",
    "v_mfma_f32_16x16x128_f8f6f4",
]
THE_ENGINES = """ make.buffer.rsrc raw.ptr.buffer.load raw.ptr.buffer.store raw.ptr.buffer.load.lds
raw.ptr.buffer.load.async.lds raw.ptr.buffer.atomic.fadd raw.ptr.buffer.atomic.fmax global.load.async.lds
asyncmark wait.asyncmark s.waitcnt s.barrier barrier s.setprio s.nop sched.barrier sched.group.barrier
iglp.opt rcp exp2 log sqrt sin cos tanh """.split()


def known(name: str) -> bool:
    registry.load_all()
    return name in registry.TABLE


@pytest.mark.parametrize("name", [*COMPUTED_HERE, *THE_ENGINES])
def test_the_engine_knows_every_operation_of_the_harvest(name: str) -> None:
    assert known(f"rocdl.{name}")


def test_the_engine_knows_every_matrix_instruction_and_scaled_conversion() -> None:
    assert all(known(name) for name in MFMA_SPECS)
    assert all(known(f"rocdl.{name}") for name in SCALED_CONVERSIONS)


@pytest.mark.parametrize("name", INTRINSICS_COMPUTED_HERE)
def test_the_engine_knows_every_intrinsic_of_the_harvest(name: str) -> None:
    from kernel_lint.emulator.ops import intrinsics

    registry.load_all()
    assert intrinsics._stem(name) == name or intrinsics._stem(name) in ("llvm.amdgcn.cvt.sr.bf16",)


@pytest.mark.parametrize("name", ASSEMBLY_COMPUTED_HERE)
def test_the_engine_knows_every_assembly_instruction_of_the_harvest(name: str) -> None:
    from kernel_lint.emulator.ops import inline_asm

    assert name in inline_asm._INSTRUCTIONS


# Operations of gfx10 and later, which no kernel for gfx942 or gfx950 may hold.
OTHER_TARGETS = tuple(
    """ wmma. swmmac. cluster. tensor. ds.load.tr global.load.tr permlanex16 permlane16.var s.wait.
    s.barrier. s.get. s.wakeup. global.load.async.to.lds global.store.async ds.atomic. flat.prefetch
    global.prefetch cvt.scale.pk cvt.scalef32.pk8 cvt.scalef32.pk16 cvt.scalef32.sr.pk8 cvt.scalef32.sr.pk16
    dot4.f32 wave.id """.split()
)
# Nothing that FlyDSL generates or its kernels call; the engine stops at them by name. The buffer operations
# are
# those on a resource as a vector, which the ones on pointers replaced; rocdl.exp names LLVM's export
# intrinsic, on
# which LLVM itself stops.
UNUSED = ("smfmac.", "fdot2", "sdot", "udot", "sudot", "raw.buffer.", "exp")


@pytest.mark.flydsl
def test_every_operation_of_the_dialect_is_known_or_set_aside_with_a_reason() -> None:
    from flydsl._mlir.dialects import _rocdl_ops_gen

    classes = vars(_rocdl_ops_gen).values()
    names = {str(c.OPERATION_NAME) for c in classes if isinstance(c, type) and hasattr(c, "OPERATION_NAME")}
    stray = [
        n for n in names if not known(n) and not n.removeprefix("rocdl.").startswith(OTHER_TARGETS + UNUSED)
    ]
    assert sorted(stray) == []
