"""``rocdl.mfma.*``: matrix products of a wave; see :mod:`..numerics.mfma`."""

from __future__ import annotations

from typing import Any

from kernel_lint.emulator.ir import Op
from kernel_lint.emulator.machine import Machine, Mask
from kernel_lint.emulator.numerics.mfma import MFMA_SPECS, mfma
from kernel_lint.emulator.registry import Env, Run, op, unknown
from kernel_lint.emulator.values import Tensor, Value, to_tensor

_BLGP = {"none": 0, "bcast_first_32": 1, "bcast_second_32": 2, "rotate_16_right": 3, "bcast_first_16": 4}
_NEGATE = {"neg_a": 1, "neg_b": 2, "neg_c": 4}
_FORMATS = {
    "fp8_e4m3": 0,
    "fp8_e5m2": 1,
    "fp6_e2m3": 2,
    "fp6_e3m2": 3,
    "fp4_e2m1": 4,
    "fp8": 0,
    "bf8": 1,
    "fp6": 2,
    "bf6": 3,
    "fp4": 4,
}


def _modifier(value: Any, o: Op, env: Env) -> int:
    if isinstance(value, int):
        return int(value)
    text = str(value).split("<")[-1].rstrip(">").split(" ")[-1].lower()
    for table in (_BLGP, _NEGATE, _FORMATS):
        if text in table:
            return table[text]
    raise unknown(o, env, f"modifier {value}")


@op(*(name for name, spec in MFMA_SPECS.items() if not spec.scaled), context=True)
def mfma_op(o: Op, env: Env) -> Run:
    """D = A x B + C in every wave; EXEC does not matter."""
    spec, types = MFMA_SPECS[o.name], o.operand_types
    cbsz, abid, blgp = (_modifier(o.attrs.get(n, 0), o, env) for n in ("cbsz", "abid", "blgp"))

    def run(m: Machine, mask: Mask, a: Value, b: Value, c: Value) -> Tensor:
        left, right = (_vector(v, t, m) for v, t in ((a, types[0]), (b, types[1])))
        out = mfma(
            spec,
            left,
            right,
            _vector(c, types[2], m),
            gfx=env.target,
            cbsz=cbsz,
            abid=abid,
            blgp=blgp,
            lanes=m.lanes,
        )
        return out if o.result_type.shape else out.squeeze(-1)

    return run


def _vector(value: Value, mtype: Any, m: Machine) -> Tensor:
    tensor = to_tensor(value, mtype.element, m.device)
    return tensor if mtype.shape else tensor.unsqueeze(-1)


@op(*(name for name, spec in MFMA_SPECS.items() if spec.scaled), context=True)
def mfma_scale(o: Op, env: Env) -> Run:
    """D = A x B + C with a scale for each 32 elements of the depth (gfx950)."""
    spec, types = MFMA_SPECS[o.name], o.operand_types
    cbsz, blgp, opsel_a, opsel_b = (
        _modifier(o.attrs.get(n, 0), o, env) for n in ("cbsz", "blgp", "opselA", "opselB")
    )

    def run(m: Machine, mask: Mask, a: Value, b: Value, c: Value, scale_a: Value, scale_b: Value) -> Tensor:
        unscaled = scale_a.__class__ is int and scale_b.__class__ is int and scale_a == 0 and scale_b == 0
        scales = (
            (None, None)
            if unscaled
            else (m.spread(to_tensor(s, t, m.device)) for s, t in ((scale_a, types[3]), (scale_b, types[4])))
        )
        first, second = scales
        return mfma(
            spec,
            a,
            b,
            c,
            gfx=env.target,
            cbsz=cbsz,
            blgp=blgp,
            scale_a=first,
            scale_b=second,
            opsel_a=opsel_a,
            opsel_b=opsel_b,
            lanes=m.lanes,
        )

    return run
