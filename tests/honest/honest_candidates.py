"""Right candidates that an over-strict judge would fail, each with its task."""

# ruff: noqa: E501 - the table reads best with a candidate a line
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from verify_tasks import ADD, ADD_ONE, ONE_SHAPE, SOFTMAX_SMALL, TaskText, task


@dataclass(frozen=True, slots=True)
class Honest:
    """One candidate that must pass."""

    name: str
    task: TaskText
    source: str
    options: dict[str, Any] = field(default_factory=dict)


_TOP = "import torch\nfrom torch import nn\n\n"


def model(body: str, *, before: str = "", init: str = "", arguments: str = "x", parameters: str = "") -> str:
    """Return a Model whose forward has these statements."""
    lines = "\n".join("        " + line for line in body.strip().splitlines())
    constructor = ""
    if init or parameters:
        statements = "\n".join("        " + line for line in init.strip().splitlines()) or "        pass"
        constructor = f"    def __init__(self{parameters}):\n        super().__init__()\n{statements}\n\n"
    return f"{before}\n\nclass Model(nn.Module):\n{constructor}    def forward(self, {arguments}):\n{lines}\n"


def unary(
    name: str, reference: str, candidate: str, inputs: str = "torch.randn(rows, columns)", **more: Any
) -> Honest:
    """Make a task on one input ``x`` and a candidate for it, both as statements of forward."""
    shapes = more.pop("shapes", ONE_SHAPE)
    make = f'def _make_inputs(rows, columns):\n    return {{"x": {inputs}}}\n'
    return Honest(name, task(model(reference), make, shapes), _TOP + model(candidate, **more))


def add(name: str, candidate: str, text: TaskText = ADD_ONE, **more: Any) -> Honest:
    """Make a candidate for the addition task."""
    return Honest(name, text, _TOP + model(candidate, arguments="a, b", **more))


_SOFTMAX = "return torch.softmax(x, dim=-1)"
_NORM = "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)"
_WEIGHTS = task(
    model("return self.linear(x)", init="self.linear = nn.Linear(size, 8)", parameters=", size"),
    'def _make_inputs(rows, columns):\n    return {"x": torch.randn(rows, columns)}\n',
    ONE_SHAPE,
    size=16,
)
_GEMM = task(
    model("return a @ b", arguments="a, b"),
    "def _make_inputs(m, n, k):\n    return {'a': torch.randn(m, k).bfloat16(), 'b': torch.randn(k, n).bfloat16()}\n",
    {"only": {"m": 16, "n": 24, "k": 96}},
)
_GEMM32 = task(_GEMM.reference, _GEMM.inputs.replace(".bfloat16()", ""), _GEMM.shapes)
_BF16 = "torch.randn(rows, columns).bfloat16()"

ALL = (
    add("plain", "return a + b"),
    add("written_into_empty", "out = torch.empty_like(a)\ntorch.add(a, b, out=out)\nreturn out"),
    add("row_by_row", "out = torch.empty_like(a)\nfor i in range(len(a)):\n    out[i] = a[i] + b[i]\nreturn out"),
    add("double_inside", "return (a.double() + b.double()).float()"),
    add("two_shapes", "return b + a", ADD),
    add("own_workspace", "if self.space is None or self.space.shape != a.shape:\n    self.space = torch.empty_like(a)\n"
        "torch.add(a, b, out=self.space)\nreturn self.space.clone()", ADD, init="self.space = None"),
    add("same_output_buffer", "self.out.resize_(a.shape)\ntorch.add(a, b, out=self.out)\nreturn self.out",
        init="self.out = torch.empty(0)"),
    add("compiled_once_for_each_shape", "key = tuple(a.shape)\nif key not in CODE:\n    CODE[key] = lambda x, y: x + y\n"
        "return CODE[key](a, b)", ADD, before="CODE = {}"),
    add("several_steps", "half = second(first(a), b)\nreturn half * 2",
        before="def first(a):\n    return a * 0.5\n\n\ndef second(h, b):\n    return h + b * 0.5\n"),
    add("numpy_inside", "return torch.from_numpy(np.add(a.numpy(), b.numpy()))", before="import numpy as np"),
    add("keyword_only", "return a + b", before="import math\nimport functools\nimport collections"),
    add("named_tuple_inside", "p = Pair(a, b)\nreturn p.a + p.b",
        before="import collections\nPair = collections.namedtuple('Pair', 'a b')"),
    add("dataclass_inside", "p = Pair(a, b)\nreturn p.a + p.b", before="from dataclasses import dataclass\n\n\n"
        "@dataclass(frozen=True)\nclass Pair:\n    a: object\n    b: object\n"),
    add("stream_asked_for", "torch.cuda.current_stream()\nreturn a + b"),
    add("device_of_the_input", "out = torch.empty(a.shape, dtype=a.dtype, device=a.device)\nout.copy_(a)\nout += b\nreturn out"),
    add("requires_grad", "return nn.Parameter(a + b)"),
    Honest("optional_argument", ADD_ONE, _TOP + model("return torch.add(a, b, alpha=alpha)", arguments="a, b, alpha=1")),
    unary("softmax_without_library", _SOFTMAX,
          "m = x.amax(-1, keepdim=True)\ne = (x - m).exp()\nreturn e / e.sum(-1, keepdim=True)"),
    unary("softmax_by_powers_of_two", _SOFTMAX,
          "y = x * 1.4426950408889634\ne = torch.exp2(y - y.amax(-1, keepdim=True))\nreturn e / e.sum(-1, keepdim=True)"),
    unary("softmax_online", _SOFTMAX,
          "m = torch.full((len(x), 1), -torch.inf)\nt = torch.zeros(len(x), 1)\n"
          "for part in x.split(5, -1):\n    n = torch.maximum(m, part.amax(-1, keepdim=True))\n"
          "    t = t * (m - n).exp() + (part - n).exp().sum(-1, keepdim=True)\n    m = n\nreturn (x - m).exp() / t"),
    unary("softmax_bf16_in_fp32", _SOFTMAX, "return torch.softmax(x.float(), -1).bfloat16()", _BF16),
    unary("norm_in_two_passes", _NORM, "s = (x * x).sum(-1, keepdim=True) / x.shape[-1]\nreturn x / (s + 1e-6).sqrt()"),
    unary("norm_by_chunks", _NORM,
          "s = sum((p * p).sum(-1, keepdim=True) for p in x.split(3, -1))\nreturn x * (s / x.shape[-1] + 1e-6).rsqrt()"),
    unary("norm_bf16_in_fp32", _NORM, "y = x.float()\nreturn (y * (y.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()).bfloat16()",
          _BF16),
    unary("variance_by_welford", "return x.var(-1, unbiased=False)",
          "mean = torch.zeros(len(x))\nm2 = torch.zeros(len(x))\nfor i in range(x.shape[1]):\n"
          "    d = x[:, i] - mean\n    mean = mean + d / (i + 1)\n    m2 = m2 + d * (x[:, i] - mean)\nreturn m2 / x.shape[1]"),
    unary("sum_in_another_order", "return x.sum(-1)", "return x.flip(-1).cumsum(-1)[:, -1]"),
    unary("transposed_inside", "return x.t().contiguous()", "out = torch.empty(x.shape[1], x.shape[0])\nout.copy_(x.t())\nreturn out"),
    unary("strided_output", "return x.t().contiguous()", "return x.clone().t()"),
    unary("exact_view_of_the_input", "return x[:, ::2]", "return x[:, ::2]"),
    unary("broadcast_output", "return x.sum(-1, keepdim=True).expand(-1, 4)",
          "return x.sum(-1, keepdim=True).repeat(1, 4)"),
    unary("integer_output", "return x.argmax(-1)", "return (x == x.amax(-1, keepdim=True)).int().argmax(-1)"),
    unary("boolean_output", "return x > 0", "return ~(x <= 0)"),
    unary("values_and_indices", "v, i = x.topk(3, -1)\nreturn v, i",
          "v, i = x.sort(-1, descending=True)\nreturn v[:, :3], i[:, :3].contiguous()"),
    unary("dictionary_in_another_order", "return {'sum': x.sum(-1), 'max': x.amax(-1)}",
          "return {'max': x.amax(-1), 'sum': x.sum(-1)}"),
    unary("nested_with_none", "return [x + 1, None, {'n': x.shape[0], 'k': (x.sum(),)}]",
          "return [1 + x, None, {'n': len(x), 'k': (x.double().sum().float(),)}]"),
    Honest("dataclass_output", task("from dataclasses import dataclass\n\n\n@dataclass\nclass Out:\n    total: object\n    top: object\n\n\n"
           + model("return Out(x.sum(-1), x.amax(-1))"), 'def _make_inputs(rows, columns):\n    return {"x": torch.randn(rows, columns)}\n'),
           _TOP + "from dataclasses import dataclass\n\n\n@dataclass\nclass Out:\n    total: object\n    top: object\n\n\n"
           + model("return Out(x.double().sum(-1).float(), x.amax(-1))")),
    unary("broadcast_inputs", "return x * 2", "return x + x", "torch.randn(1, columns).expand(rows, columns)", ),
    unary("overlapping_inputs", "return x * 2", "return x + x", "torch.randn(rows + columns).as_strided((rows, columns), (1, 1))"),
    unary("fp4_output", "return x.to(torch.uint8).view(torch.float4_e2m1fn_x2)",
          "return x.to(torch.uint8).clone().view(torch.float4_e2m1fn_x2)", "torch.rand(rows, columns) * 255"),
    unary("fp4_inputs", "return x.view(torch.uint8).float()", "return x.view(torch.uint8).float() * 1",
          "(torch.rand(rows, columns) * 255).to(torch.uint8).view(torch.float4_e2m1fn_x2)"),
    unary("random_numbers_of_the_same_seed", "return x + torch.randn_like(x)", "return torch.randn_like(x) + x"),
    unary("scalar_tensor", "return x.sum()", "return x.double().sum().float()"),
    unary("python_scalar", "return float(x.double().sum())", "return float(x.double().sum(0).sum())"),
    unary("empty_rows", "return x * 2", "return x + x", shapes={"none": {"rows": 0, "columns": 8}, "some": {"rows": 2, "columns": 8}}),
    unary("empty_result", "return x[:0]", "return torch.empty(0, x.shape[1])"),
    unary("complex_output", "return torch.fft.fft(x)", "return torch.fft.fft(x.double()).to(torch.complex64)"),
    unary("fp8_output", "return x.to(torch.float8_e4m3fn)", "return x.clone().to(torch.float8_e4m3fn)"),
    unary("infinities_in_place", "return torch.where(x > 0, x, -torch.inf)", "return x.masked_fill(~(x > 0), float('-inf'))"),
    unary("nans_in_place", "return x.log()", "return torch.log2(x) * 0.6931471805599453"),
    unary("integers_in", "return x * 3", "return x + x + x", "torch.randint(0, 100, (rows, columns))"),
    unary("fp16_task", "return (x * x).sum(-1)", "return (x.float() * x.float()).sum(-1).half()", "torch.randn(rows, columns).half()"),
    unary("contiguous_first", "return x * 2 + 1", "y = x.contiguous().view(-1)\nreturn (y * 2 + 1).view(x.shape)"),
    Honest("gemm_split_k", _GEMM32, _TOP + model("return sum(p @ q for p, q in zip(a.split(32, 1), b.split(32, 0)))", arguments="a, b")),
    Honest("gemm_transposed", _GEMM32, _TOP + model("return (b.t() @ a.t()).t()", arguments="a, b")),
    Honest("gemm_bf16_accumulated_in_fp32", _GEMM, _TOP + model("return (a.float() @ b.float()).bfloat16()", arguments="a, b")),
    Honest("gemm_bf16_by_tiles", _GEMM, _TOP + model(
        "out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)\nfor i in range(0, a.shape[0], 8):\n"
        "    for j in range(0, b.shape[1], 8):\n        out[i:i + 8, j:j + 8] = a[i:i + 8].float() @ b[:, j:j + 8].float()\nreturn out",
        arguments="a, b")),
    Honest("weights_of_the_same_name", _WEIGHTS, _TOP + model("return nn.functional.linear(x, self.linear.weight, self.linear.bias)",
           init="self.linear = nn.Linear(size, 8)", parameters=", size")),
    Honest("weights_drawn_otherwise", _WEIGHTS, _TOP + model("return x @ self.linear.weight.t() + self.linear.bias",
           init="torch.randn(99)\nself.linear = nn.Linear(size, 8)", parameters=", size")),
    Honest("weights_of_another_name_and_the_same_seed", _WEIGHTS, _TOP + model("return self.inner(x)",
           init="self.inner = nn.Linear(size, 8)", parameters=", size")),
    Honest("softmax_small_with_library", SOFTMAX_SMALL, _TOP + model("return nn.functional.softmax(x, -1)")),
)  # fmt: skip

# Bad manners that do not make an answer wrong: the judge must survive them and go on.
RUDE = (
    add("three_hundred_megabytes_of_output", "for _ in range(100):\n    os.write(1, b'x' * 1_000_000)\n"
        "    os.write(2, b'y' * 500_000)\nreturn a + b", before="import os"),
    add("replaced_standard_streams", "sys.stdout = sys.stderr = io.StringIO()\nprint('hidden')\nreturn a + b",
        before="import io, sys"),
    add("closed_standard_streams", "return a + b", before="import os, sys\nsys.stdout.close()\nos.close(2)"),
    add("raises_when_deleted", "return a + b", before="class Trap:\n    def __del__(self):\n        raise RuntimeError('late')\n\n\nt = Trap()\ndel t"),
    add("never_ending_exit_handler", "return a + b", before="import atexit, time\natexit.register(lambda: time.sleep(3600))"),
    add("ignores_signals", "return a + b", before="import signal\nfor s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\n"
        "    signal.signal(s, signal.SIG_IGN)"),
    add("daemon_thread", "return a + b", before="import threading, time\nthreading.Thread(target=lambda: time.sleep(3600), "
        "daemon=True).start()"),
    add("prints", "print('value', a.sum())\nreturn a + b"),
    add("changes_directory", "import os\nos.chdir('/')\nreturn a + b"),
    add("environment_wiped", "import os\nos.environ.clear()\nreturn a + b"),
    add("default_dtype_set", "torch.set_default_dtype(torch.float64)\nreturn a + b"),
    add("default_device_set", "torch.set_default_device('meta')\nreturn a + b"),
    add("recursion_limit", "return a + b", before="import sys\nsys.setrecursionlimit(5000)"),
    add("garbage_collector_off", "return a + b", before="import gc\ngc.disable()"),
)  # fmt: skip
