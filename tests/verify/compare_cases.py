"""Small kernels as a candidate might write them: right ones, and ones with a known defect.

Each case gives a reference (as a PyTorch module would compute it at the task's dtype), right
variants with another order of operations or other arithmetic inside, and wrong ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

Tensors = tuple[torch.Tensor, ...]
Kernel = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Case:
    name: str
    draw: Callable[[torch.Generator], Tensors]
    reference: Kernel
    honest: dict[str, Kernel] = field(default_factory=dict)
    cheats: dict[str, Kernel] = field(default_factory=dict)
    accumulation: int | None = None

    def inputs(self, seed: int, dtype: torch.dtype) -> Tensors:
        generator = torch.Generator().manual_seed(seed)
        return tuple(t.to(dtype) for t in self.draw(generator))


def rand(*shape: int) -> Callable[[torch.Generator], torch.Tensor]:
    return lambda g: torch.randn(*shape, generator=g)


def tf32(x: torch.Tensor) -> torch.Tensor:
    """Round to the 11 significand bits of TF32, to nearest (ties away)."""
    bits = x.float().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def through(dtype: torch.dtype, kernel: Kernel) -> Kernel:
    """Inputs rounded to ``dtype``, everything after in float32: tensor cores of that format."""
    return lambda *xs: kernel(*(x.to(dtype).float() for x in xs)).to(xs[0].dtype)


def in_f32(kernel: Kernel) -> Kernel:
    return lambda *xs: kernel(*(x.float() for x in xs)).to(xs[0].dtype)


# softmax ------------------------------------------------------------------


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def softmax_exp2(x: torch.Tensor) -> torch.Tensor:
    scaled = x.float() * 1.4426950408889634
    e = torch.exp2(scaled - scaled.amax(-1, keepdim=True))
    return (e * (1.0 / sequential_sum(e).unsqueeze(-1))).to(x.dtype)


def softmax_online(x: torch.Tensor) -> torch.Tensor:
    x32 = x.float()
    m, s = torch.full(x.shape[:-1], -torch.inf), torch.zeros(x.shape[:-1])
    for part in torch.split(x32, 64, -1):
        new = torch.maximum(m, part.amax(-1))
        s = s * torch.exp(m - new) + torch.exp(part - new.unsqueeze(-1)).sum(-1)
        m = new
    return (torch.exp(x32 - m.unsqueeze(-1)) / s.unsqueeze(-1)).to(x.dtype)


def softmax_half_exp(x: torch.Tensor) -> torch.Tensor:
    """Exponentials rounded to the task's own format before they are summed."""
    x32 = x.float()
    e = torch.exp(x32 - x32.amax(-1, keepdim=True)).to(x.dtype).float()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def sequential_sum(x: torch.Tensor) -> torch.Tensor:
    """One accumulator in float32, first element to last."""
    total = torch.zeros(x.shape[:-1])
    for k in range(x.shape[-1]):
        total = total + x[..., k].float()
    return total


def row_sum(x: torch.Tensor) -> torch.Tensor:
    return sequential_sum(x).to(x.dtype)


# normalizations ------------------------------------------------------------


def rmsnorm(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def rmsnorm_chunked(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    x32 = x.float()
    s = sum(part.square().sum(-1) for part in torch.split(x32, 128, -1)) / x.shape[-1]
    return (x32 / torch.sqrt(s + 1e-5).unsqueeze(-1) * w.float()).to(x.dtype)


def rmsnorm_two_roundings(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """As in Hugging Face's LlamaRMSNorm: the normalized value is rounded, then scaled."""
    x32 = x.float()
    normal = (x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype)
    return normal * w


def layernorm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, eps)


def layernorm_one_pass(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x32 = x.float()
    n = x.shape[-1]
    mean = sequential_sum(x32).unsqueeze(-1) / n
    variance = sequential_sum(x32 * x32).unsqueeze(-1) / n - mean * mean
    return ((x32 - mean) * torch.rsqrt(variance + 1e-5) * w.float() + b.float()).to(x.dtype)


# GEMM ------------------------------------------------------------------------


def gemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def gemm_sequential(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a32, b32 = a.float(), b.float()
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        total.addr_(a32[:, k], b32[k])
    return total.to(a.dtype)


def gemm_tiled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """An accumulator carried over K in steps of 32, from the end to the beginning."""
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in reversed(range(0, a.shape[1], 32)):
        total = total + a[:, k : k + 32].float() @ b[k : k + 32].float()
    return total.to(a.dtype)


def gemm_split_k(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Four partial products, each rounded to the task's dtype, then added in it."""
    parts = zip(a.chunk(4, 1), b.chunk(4, 0), strict=True)
    partial = [(x.float() @ y.float()).to(a.dtype) for x, y in parts]
    return (partial[0] + partial[1]) + (partial[2] + partial[3])


# attention ---------------------------------------------------------------------


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def flash_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Online softmax over blocks of 32 keys; probabilities rounded to the task's dtype."""
    q32, scale = q.float(), q.shape[-1] ** -0.5
    m = torch.full(q.shape[:-1], -torch.inf).unsqueeze(-1)
    s, o = torch.zeros_like(m), torch.zeros(q.shape)
    for kb, vb in zip(k.split(32, -2), v.split(32, -2), strict=True):
        logits = q32 @ kb.float().transpose(-1, -2) * scale
        new = torch.maximum(m, logits.amax(-1, keepdim=True))
        p = torch.exp2((logits - new) * 1.4426950408889634)
        s = s * torch.exp(m - new) + p.sum(-1, keepdim=True)
        o = o * torch.exp(m - new) + p.to(q.dtype).float() @ vb.float()
        m = new
    return (o / s).to(q.dtype)


# defects -----------------------------------------------------------------------


def damaged(kernel: Kernel, change: Callable[[torch.Tensor], torch.Tensor]) -> Kernel:
    return lambda *xs: change(kernel(*xs).clone())


def _tail(out: torch.Tensor) -> torch.Tensor:
    out[..., -3:] = 0
    return out


def _tile(out: torch.Tensor) -> torch.Tensor:
    out[..., 16:32, 32:48] = out[..., 0:16, 32:48].clone()
    return out


def _stale(out: torch.Tensor) -> torch.Tensor:
    """One row kept from another problem."""
    out[..., 5, :] = out[..., 5, :].flip(-1).clone()
    return out


def _transposed_tile(out: torch.Tensor) -> torch.Tensor:
    out[..., 16:32, 16:32] = out[..., 16:32, 16:32].mT.clone()
    return out


def _spike(out: torch.Tensor) -> torch.Tensor:
    out.view(-1)[:: max(101, out.numel() // 3)] = 1e4
    return out


DEFECTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zero": torch.zeros_like,
    "missing tail": _tail,
    "wrong tile": _tile,
    "3% too large": lambda out: (out.float() * 1.03).to(out.dtype),
    "off by one row": lambda out: out.roll(1, -2),
    "stale row": _stale,
    "transposed tile": _transposed_tile,
    "spikes": _spike,
    "sign": lambda out: -out,
}


def defects(kernel: Kernel) -> dict[str, Kernel]:
    return {name: damaged(kernel, change) for name, change in DEFECTS.items()}


def each(*draws: Callable[[torch.Generator], torch.Tensor]) -> Callable[[torch.Generator], Tensors]:
    return lambda g: tuple(draw(g) for draw in draws)


def gemm_case(m: int, n: int, k: int) -> Case:
    honest = {
        "sequential": gemm_sequential,
        "tiled": gemm_tiled,
        "split-K": gemm_split_k,
        "float32 inside": in_f32(gemm),
    }
    return Case(f"gemm {m}x{n}x{k}", each(rand(m, k), rand(k, n)), gemm, honest, defects(gemm))


CASES = [
    Case(
        "softmax",
        each(lambda g: 3 * torch.randn(48, 1000, generator=g)),
        softmax,
        {"exp2": softmax_exp2, "online": softmax_online, "rounded exponentials": softmax_half_exp},
        defects(softmax),
    ),
    Case(
        "rmsnorm",
        each(rand(48, 768), rand(768)),
        rmsnorm,
        {"chunked": rmsnorm_chunked, "two roundings": rmsnorm_two_roundings},
        defects(rmsnorm),
    ),
    Case(
        "layernorm",
        each(rand(48, 768), rand(768), rand(768)),
        layernorm,
        {"one pass": layernorm_one_pass, "float32 inside": in_f32(layernorm)},
        defects(layernorm),
    ),
    gemm_case(64, 96, 256),
    gemm_case(48, 64, 4096),
    Case(
        "sum of positive numbers",
        each(lambda g: torch.rand(48, 64, 512, generator=g)),
        lambda x: x.sum(-1),
        {"sequential": row_sum, "reversed": lambda x: row_sum(x.flip(-1))},
        defects(lambda x: x.sum(-1)),
    ),
    Case(
        "sum of signed numbers",
        each(rand(48, 64, 512)),
        lambda x: x.sum(-1),
        {"sequential": row_sum, "reversed": lambda x: row_sum(x.flip(-1))},
        defects(lambda x: x.sum(-1)),
    ),
    Case(
        "attention",
        each(rand(1, 4, 64, 64), rand(1, 4, 128, 64), rand(1, 4, 128, 64)),
        attention,
        {"flash": flash_attention, "float32 inside": in_f32(attention)},
        defects(attention),
    ),
]  # fmt: skip
