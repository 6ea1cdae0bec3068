"""Honest candidates in the styles that people and coding agents write, none with an error or warning."""

from __future__ import annotations

_KERNEL = """\
import torch
import torch.nn as nn
import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def _k(x: fx.Tensor, y: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    if i < n:
        y[i] = x[i] * 2.0


@flyc.jit
def _launch(x: fx.Tensor, y: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    _k(x, y, n).launch(grid=((n + 255) // 256, 1, 1), block=(256, 1, 1), stream=stream)


"""


def _indented(text: str, width: int) -> str:
    return "".join(" " * width + line + "\n" if line else "\n" for line in text.splitlines())


def style(
    forward: str, *, imports: str = "", top: str = "", init: str = "", cls: str = "", sig: str = "self, x"
) -> str:
    """Return a candidate with this text at module level, in the class, in its constructor and in ``forward``."""
    return (
        f"{imports}\n{_KERNEL}{top}\n\nclass Model(nn.Module):\n{_indented(cls, 4)}\n"
        f"    def __init__(self, dim: int):\n        super().__init__()\n        self.dim = dim\n{_indented(init, 8)}\n"
        f"    def forward({sig}):\n{_indented(forward, 8)}"
    )


STYLES: dict[str, str] = {
    "walrus": style(
        """\
if (n := x.numel()) == 0:
    return torch.empty_like(x)
y = torch.empty_like(x)
_launch(x, y, n, stream=torch.cuda.current_stream())
return y
""",
    ),
    "empty ret via prod": style(
        """\
out_shape = (*x.shape[:-1], self.dim)
if math.prod(out_shape) == 0:
    return x.new_zeros(out_shape)
y = x.new_empty(out_shape)
_launch(x, y, y.numel(), stream=torch.cuda.current_stream())
return y
""",
        imports="import math",
    ),
    "empty ret any": style(
        """\
if any(d == 0 for d in x.shape):
    return torch.empty_like(x)
y = torch.empty_like(x)
_launch(x, y, y.numel(), stream=torch.cuda.current_stream())
return y
""",
    ),
    "empty min": style(
        """\
if min(x.shape) == 0:
    return torch.empty_like(x)
y = torch.empty_like(x)
_launch(x, y, y.numel(), stream=torch.cuda.current_stream())
return y
""",
    ),
    "size zero or": style(
        """\
M, N = x.size(0), x.size(1)
y = torch.empty((M, N), dtype=x.dtype, device=x.device)
if M == 0 or N == 0:
    return y
_launch(x, y, M * N, stream=torch.cuda.current_stream())
return y
""",
    ),
    "kwonly": style(
        """\
y = torch.empty_like(x) if out is None else out
_launch(x, y, x.numel(), stream=torch.cuda.current_stream())
return y
""",
        sig="self, x, *, out: torch.Tensor | None = None",
    ),
    "group launch zip": style(
        """\
ys = [torch.empty_like(t) for t in (x, x)]
for a, b in zip((x, x), ys):
    _launch(a, b, a.numel(), stream=torch.cuda.current_stream())
return ys[0]
""",
    ),
    "pointer args": style(
        """\
y = torch.empty_like(x)
_launch(flyc.from_c_void_p(fx.Uint8, x.data_ptr()), flyc.from_c_void_p(fx.Uint8, y.data_ptr()), x.numel(), stream=torch.cuda.current_stream())
return y
""",
    ),
    "tolist host": style(
        """\
ends = offs.tolist()
y = torch.empty_like(x)
start = 0
for e in ends:
    n = e - start
    if n > 0:
        _launch(x[start:e], y[start:e], n, stream=torch.cuda.current_stream())
    start = e
return y
""",
        sig="self, x, offs",
    ),
    "submodules": style(
        """\
for layer in self.layers:
    x = layer(x)
return x
""",
        top="""\
class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = torch.empty_like(x)
        _launch(x, y, x.numel(), stream=torch.cuda.current_stream())
        return y
""",
        init="self.layers = nn.ModuleList([Layer(dim) for _ in range(3)])",
    ),
    "sequential own": style(
        "return self.net(x)",
        top="""\
class Layer(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _launch(x, y, x.numel(), stream=torch.cuda.current_stream())
        return y
""",
        init="self.net = nn.Sequential(Layer(), Layer())",
    ),
    "global device const": style(
        """\
y = torch.empty_like(x)
_launch(_lut(x.device), y, x.numel(), stream=torch.cuda.current_stream())
return y
""",
        imports="import functools",
        top="""\
@functools.lru_cache(maxsize=8)
def _lut(device):
    return torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], device=device)
""",
    ),
    "copy_ from tmp": style(
        """\
tmp = torch.empty_like(x)
_launch(x, tmp, x.numel(), stream=torch.cuda.current_stream())
y = torch.empty(x.shape, dtype=torch.float32, device=x.device)
y.copy_(tmp)
return y
""",
    ),
    "slice assign from tmp": style(
        """\
y = torch.zeros(x.shape[0], 64, dtype=x.dtype, device=x.device)
tmp = torch.empty_like(x)
_launch(x, tmp, x.numel(), stream=torch.cuda.current_stream())
y[:, :x.shape[1]] = tmp
return y
""",
    ),
    "children own called": style(
        """\
for m in self.children():
    x = m(x)
return x
""",
        top="""\
class Layer(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _launch(x, y, x.numel(), stream=torch.cuda.current_stream())
        return y
""",
        init="""\
self.a = Layer()
self.b = Layer()
""",
    ),
    "helper packed": style(
        """\
y = torch.empty_like(x)
_launch(self._get_packed(x.dtype), y, x.numel(), stream=torch.cuda.current_stream())
return y
""",
        init="""\
self.weight = nn.Parameter(torch.randn(dim, dim))
self._packed = None
self._ver = -1
""",
        cls="""\
def _get_packed(self, dtype):
    w = self.weight
    if self._packed is None or self._ver != w._version or self._packed.dtype != dtype:
        self._packed = w.detach().to(dtype).t().contiguous()
        self._ver = w._version
    return self._packed
""",
    ),
    "helper packed dict": style(
        """\
y = torch.empty_like(x)
_launch(_packed(self.weight), y, x.numel(), stream=torch.cuda.current_stream())
return y
""",
        top="""\
_PACKED = {}


def _packed(w):
    key = (w.data_ptr(), w._version)
    hit = _PACKED.get(key)
    if hit is None:
        hit = w.detach().t().contiguous()
        _PACKED[key] = hit
    return hit
""",
        init="self.weight = nn.Parameter(torch.randn(dim, dim))",
    ),
    "workspace helper": style(
        """\
ws = self._workspace(x)
y = torch.empty_like(x)
_launch(x, ws, x.numel(), stream=torch.cuda.current_stream())
_launch(ws, y, x.numel(), stream=torch.cuda.current_stream())
return y
""",
        init="self._ws = {}",
        cls="""\
def _workspace(self, x):
    key = (x.device, x.numel())
    ws = self._ws.get(key)
    if ws is None:
        ws = torch.empty(x.numel(), dtype=torch.float32, device=x.device)
        self._ws[key] = ws
    return ws
""",
    ),
    "abstract base pass": style(
        "return self.op.run(x)",
        top="""\
class Op:
    def setup(self):
        'Nothing to set up by default.'

    def run(self, x):
        raise NotImplementedError


class Double(Op):
    def setup(self):
        self.tile = 256

    def run(self, x):
        y = torch.empty_like(x)
        _launch(x, y, self.tile, stream=torch.cuda.current_stream())
        return y
""",
        init="""\
self.op = Double()
self.op.setup()
""",
    ),
    "overload": style(
        "return run(x)",
        imports="from typing import overload",
        top="""\
@overload
def run(x: torch.Tensor) -> torch.Tensor: ...
@overload
def run(x: None) -> None: ...
def run(x):
    y = torch.empty_like(x)
    _launch(x, y, x.numel(), stream=torch.cuda.current_stream())
    return y
""",
    ),
    "autocast dtype": style(
        """\
dt = torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else x.dtype
y = torch.empty(x.shape, dtype=dt, device=x.device)
_launch(x, y, x.numel(), stream=torch.cuda.current_stream())
return y
""",
    ),
    "object state out": style(
        """\
s = State(x)
s.launch()
return s.out
""",
        top="""\
class State:
    def __init__(self, x):
        self.x = x
        self.out = torch.empty_like(x)

    def launch(self):
        _launch(self.x, self.out, self.x.numel(), stream=torch.cuda.current_stream())
""",
    ),
    "functools partial launcher": style(
        """\
y = torch.empty_like(x)
self.run(x, y, x.numel(), stream=torch.cuda.current_stream())
return y
""",
        imports="from functools import partial",
        init="self.run = partial(_launch)",
    ),
    "empty rows by helper": style(
        """\
if _is_empty(x):
    return torch.empty_like(x)
y = torch.empty_like(x)
_launch(x, y, x.numel(), stream=torch.cuda.current_stream())
return y
""",
        top="""\
def _is_empty(t):
    return t.numel() == 0
""",
    ),
    "rows var zero": style(
        """\
rows = x.numel() // self.dim
y = torch.empty_like(x)
if rows == 0:
    return y
_launch(x, y, rows, stream=torch.cuda.current_stream())
return y
""",
    ),
    "grid zero guard": style(
        """\
grid = (x.numel() + 255) // 256
y = torch.empty_like(x)
if grid == 0:
    return y
_launch(x, y, grid, stream=torch.cuda.current_stream())
return y
""",
    ),
    "seq container weights": style(
        """\
y = torch.empty_like(x)
for layer in self.net:
    if isinstance(layer, nn.Linear):
        _launch(layer.weight, y, layer.out_features, stream=torch.cuda.current_stream())
return y
""",
        init="self.net = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))",
    ),
    "sequential list var": style(
        "return self.net(x)",
        top="""\
class Block(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _launch(x, y, x.numel(), stream=torch.cuda.current_stream())
        return y
""",
        init="""\
layers = []
for _ in range(2):
    layers.append(Block())
self.net = nn.Sequential(*layers)
""",
    ),
    "modulelist append own": style(
        """\
for b in self.blocks:
    x = b(x)
return x
""",
        top="""\
class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        y = torch.empty_like(x)
        _launch(x, y, x.numel(), stream=torch.cuda.current_stream())
        return y
""",
        init="""\
self.blocks = nn.ModuleList()
for i in range(2):
    self.blocks.append(Block(dim))
""",
    ),
    "moduledict own": style(
        "return self.m['a'](x)",
        top="""\
class Block(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _launch(x, y, x.numel(), stream=torch.cuda.current_stream())
        return y
""",
        init="self.m = nn.ModuleDict({'a': Block()})",
    ),
    "two pass ws": style(
        """\
rows, cols = x.shape
parts = -(-cols // 1024)
ws = torch.empty((rows, parts), dtype=torch.float32, device=x.device)
y = torch.empty(rows, dtype=x.dtype, device=x.device)
st = torch.cuda.current_stream()
_launch(x, ws, rows * parts, stream=st)
_launch(ws, y, rows, stream=st)
return y
""",
    ),
    "match dtype": style(
        """\
y = torch.empty_like(x)
match x.dtype:
    case torch.float32:
        n = x.numel()
    case torch.float16 | torch.bfloat16:
        n = x.numel() // 2
    case other:
        raise TypeError(f"unsupported {other}")
_launch(x, y, n, stream=torch.cuda.current_stream())
return y
""",
    ),
    "class launcher": style(
        "return Runner.run(x)",
        top="""\
class Runner:
    _cache: dict = {}

    @classmethod
    def run(cls, x):
        y = torch.empty_like(x)
        fn = cls._cache.get(x.dtype)
        if fn is None:
            fn = cls._cache[x.dtype] = cls.build(x.dtype)
        fn(x, y, x.numel(), stream=torch.cuda.current_stream())
        return y

    @staticmethod
    def build(dtype):
        return _launch
""",
    ),
    "accumulate sizes": style(
        """\
y = torch.empty_like(x)
offs = list(itertools.accumulate([0, *x.shape], lambda a, b: a + b))
_launch(x, y, offs[-1], stream=torch.cuda.current_stream())
return y
""",
        imports="import itertools",
    ),
    "reduce lambda sizes": style(
        """\
y = torch.empty_like(x)
n = functools.reduce(lambda a, b: a * b, x.shape, 1)
_launch(x, y, n, stream=torch.cuda.current_stream())
return y
""",
        imports="import functools",
    ),
    "grad fn w/ setup_context": style(
        "return _Fn.apply(x, 1.0)[0]",
        top="""\
class _Fn(torch.autograd.Function):
    @staticmethod
    def forward(x, s):
        y = torch.empty_like(x)
        _launch(x, y, x.numel(), stream=torch.cuda.current_stream())
        return y, s

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.s = inputs[1]

    @staticmethod
    def backward(ctx, g, _):
        return g, None
""",
    ),
    "swap loop ping-pong": style(
        """\
a, b = torch.empty_like(x), torch.empty_like(x)
src, dst = x, a
for i in range(4):
    _launch(src, dst, x.numel(), stream=torch.cuda.current_stream())
    src, dst = dst, (b if dst is a else a)
return src
""",
    ),
    "keyed build closures": style(
        """\
y = torch.empty_like(x)
_build(x.shape[-1], self.act)(x, y, x.numel(), stream=torch.cuda.current_stream())
return y
""",
        imports="import functools",
        top="""\
ACTS = {
    "relu": lambda v: fx.maximum(v, 0.0),
    "square": lambda v: v * v,
    "none": lambda v: v,
}


@functools.lru_cache(maxsize=128)
def _build(n, act):
    fn = ACTS[act]

    @flyc.kernel
    def k(x: fx.Tensor, y: fx.Tensor, m: fx.Int32):
        i = fx.block_idx.x * 256 + fx.thread_idx.x
        if i < m:
            y[i] = fn(x[i])

    @flyc.jit
    def launch(x: fx.Tensor, y: fx.Tensor, m: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        k(x, y, m).launch(grid=((m + 255) // 256, 1, 1), block=(256, 1, 1), stream=stream)

    return launch
""",
        init="self.act = 'relu'",
    ),
    "chunk loop range step": style(
        """\
y = torch.empty_like(x)
for i in range(0, x.shape[0], 4096):
    part = x[i:i + 4096]
    _launch(part, y[i:i + 4096], part.numel(), stream=torch.cuda.current_stream())
return y
""",
    ),
    "dynamic attr w": style(
        """\
y = torch.empty_like(x)
for i in range(2):
    _launch(getattr(self, f"w{i}"), y, x.numel(), stream=torch.cuda.current_stream())
return y
""",
        init="""\
for i in range(2):
    setattr(self, f'w{i}', nn.Parameter(torch.randn(dim)))
""",
    ),
    "children weights": style(
        """\
y = torch.empty_like(x)
for m in self.children():
    _launch(m.weight, y, m.in_features * 2, stream=torch.cuda.current_stream())
return y
""",
        init="""\
self.fc1 = nn.Linear(dim, dim)
self.fc2 = nn.Linear(dim, dim)
""",
    ),
    "named params": style(
        """\
y = torch.empty_like(x)
for name, w in self.named_parameters():
    _launch(w, y, x.numel(), stream=torch.cuda.current_stream())
return y
""",
        init="""\
self.fc1 = nn.Linear(dim, dim)
self.fc2 = nn.Linear(dim, dim)
""",
    ),
}
