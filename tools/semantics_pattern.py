"""Name what a reference's operators amount to: the compute pattern, broadcasts, masks, constants."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernel_lint.tools.semantics import OperatorCall, ShapeSemantics

_MATMUL = frozenset(["mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "mv", "dot", "addmv", "linear"])
_SOFTMAX = frozenset(["_softmax", "_log_softmax", "logsumexp", "_safe_softmax"])
_NORMS = frozenset(["native_layer_norm", "native_group_norm", "_fused_rms_norm", "native_batch_norm"])
_SUMS = frozenset(
    [
        "sum",
        "mean",
        "var",
        "std",
        "var_mean",
        "std_mean",
        "norm",
        "linalg_vector_norm",
        "amax",
        "amin",
        "max",
        "min",
        "prod",
    ]
)
_SCANS = frozenset(["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
_ROUTING = frozenset(["topk", "sort", "argsort", "bincount", "one_hot", "kthvalue"])
_INDEXING = frozenset(
    [
        "index",
        "index_select",
        "gather",
        "embedding",
        "scatter",
        "scatter_add",
        "index_put",
        "index_add",
        "index_copy",
    ]
)
_MASKING = frozenset(["where", "masked_fill", "masked_scatter", "tril", "triu", "masked_select"])
_ACTIVATIONS = frozenset(
    [
        "gelu",
        "relu",
        "silu",
        "sigmoid",
        "tanh",
        "hardtanh",
        "leaky_relu",
        "softplus",
        "elu",
        "hardswish",
        "mish",
        "erf",
    ]
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """What the operators amount to, as words for people.

    ``parts`` are the recognized pieces in order of execution; ``name`` joins them.
    """

    name: str
    parts: tuple[str, ...]
    broadcasts: tuple[str, ...]
    masks: tuple[str, ...]
    special_values: tuple[str, ...]


def recognize(semantics: ShapeSemantics) -> Pattern:
    """Return the pattern of one shape's operators."""
    calls = [call for call in semantics.operators if not call.free]
    parts = _parts(calls)
    return Pattern(
        " + ".join(parts) or "copy",
        tuple(parts),
        tuple(_broadcasts(calls)),
        tuple(_masks(semantics, calls)),
        tuple(_special_values(calls)),
    )


def _parts(calls: list[OperatorCall]) -> list[str]:
    names = [_bare(call) for call in calls]
    parts: list[str] = []
    for index, name in enumerate(names):
        part = _part(name, names, index)
        if part is not None and (not parts or parts[-1] != part):
            parts.append(part)
    if any(part == "attention" for part in parts):
        parts = [part for part in parts if part not in ("GEMM", "softmax")]
        parts = list(dict.fromkeys(parts))
    if len(parts) > 1:
        named = [part for part in parts if part != "elementwise"]
        parts = named or parts
    return list(dict.fromkeys(parts))


def _part(name: str, names: list[str], index: int) -> str | None:
    """Return the piece that one operator belongs to."""
    if "scaled_dot_product" in name or "flash_attention" in name:
        return "attention"
    if name in _SOFTMAX:
        before = any(other in _MATMUL for other in names[:index])
        return "attention" if before and any(other in _MATMUL for other in names[index:]) else "softmax"
    if name in _MATMUL:
        return "GEMM"
    if "conv" in name and name != "_convert_element_type":
        return "convolution"
    if name in _NORMS or (name == "rsqrt" and any(other in _SUMS for other in names[:index])):
        return "normalization"
    for kind, members in (("scan", _SCANS), ("routing", _ROUTING), ("indexing", _INDEXING)):
        if name in members:
            return kind
    if name in _SUMS:
        return None if "rsqrt" in names[index:] else "reduction"
    if name in _ACTIVATIONS:
        return name.upper() if name in ("gelu", "relu", "silu", "elu") else name
    return None if name in ("_to_copy", "clone", "copy", "contiguous") else "elementwise"


def _broadcasts(calls: list[OperatorCall]) -> list[str]:
    """Return the distinct broadcasts: an input that is smaller than the output, or expanded."""
    found: dict[str, None] = {}
    for call in calls:
        if not call.pointwise or not call.outputs:
            continue
        target = call.outputs[0].shape
        for operand in call.inputs:
            if operand.shape != target:
                found[f"{call.base}: {_shape(operand.shape)} to {_shape(target)}"] = None
    return list(found)


def _masks(semantics: ShapeSemantics, calls: list[OperatorCall]) -> list[str]:
    found = [
        f"input {name} is a mask (bool)"
        for name, tensor in semantics.inputs.items()
        if tensor.dtype == "bool"
    ]
    for call in calls:
        if _bare(call) in _MASKING:
            scalars = f" ({', '.join(call.scalars)})" if call.scalars else ""
            found.append(f"{call.base}{scalars}")
        if "scaled_dot_product" in call.base and any(
            scalar in ("True", "is_causal=True") for scalar in call.scalars
        ):
            found.append(f"{call.base}: causal")
    return list(dict.fromkeys(found))


def _special_values(calls: list[OperatorCall]) -> list[str]:
    """Return float constants and infinities that operators were given: epsilons, scales, fill values."""
    found: dict[str, None] = {}
    for call in calls:
        for scalar in call.scalars:
            number = re.fullmatch(r"(?:\w+=)?(-?(?:inf|nan|\d+\.?\d*(?:e[-+]?\d+)?))", scalar)
            if number and ("." in number[1] or "e" in number[1] or "n" in number[1]):
                found[f"{number[1]} in {call.base}"] = None
    return list(found)


def _bare(call: OperatorCall) -> str:
    """Return the operator's name without the underscore of an in-place form."""
    return call.base if call.base.startswith("_") else call.base.removesuffix("_")


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
