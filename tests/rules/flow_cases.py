"""Ways around the rules that follow ``forward``, and honest code that looks alike.

Each case is a complete candidate; ``EVASIONS`` name the rule that must find it.
"""

from __future__ import annotations

from kernel_lint.rules._samples import candidate

LAUNCH = "_double(x, y, x.numel(), stream=torch.cuda.current_stream())"
_LINE = "        " + LAUNCH


def body(text: str, **parts: str) -> str:
    """A candidate whose forward launches by ``text`` (indented to fit) instead of the plain launch."""
    lines = "\n".join("        " + line if line else "" for line in text.splitlines())
    return candidate(**parts).replace(_LINE, lines)


def whole(text: str, **parts: str) -> str:
    """A candidate whose forward is ``text`` altogether."""
    lines = "\n".join("        " + line if line else "" for line in text.splitlines())
    old = "        y = torch.empty_like(x)\n" + _LINE + "\n        return y"
    return candidate(**parts).replace(old, lines)


LAUNCHED = f"y = torch.empty_like(x)\n{LAUNCH}\n"
EVASIONS: dict[str, list[str]] = {
    "no-launch": [
        whole(f"y = torch.empty_like(x)\nwhile True:\n    break\n    {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nassert x is not None, {LAUNCH}\nreturn y"),
        whole("return torch.zeros_like(x)"),
        whole("y = torch.empty_like(x)\nreturn y"),
        whole(f"y = torch.empty_like(x)\nz = torch.empty_like(x)\n{LAUNCH.replace('y,', 'z,')}\nreturn y"),
        whole(f"{LAUNCHED}return x.clone()"),
        whole(f"{LAUNCHED}return y.new_empty(y.shape)"),
        whole(f"{LAUNCHED}y = x.contiguous()\nreturn x"),
        whole(f"y = torch.empty_like(x)\nif False:\n    {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nif x.numel() == -1:\n    {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nif len(x.shape) < 0:\n    {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nif not True:\n    {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nif self.training:\n    {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nif x.requires_grad and x.dim() > 9:\n    {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nwhile x.numel() < 0:\n    {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nfor _ in []:\n    {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nfor _ in range(0):\n    {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nrun = lambda: {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\ndef run():\n    {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nreturn y\n{LAUNCH}"),
        whole(f"y = torch.empty_like(x)\n0 and {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nNone if True else {LAUNCH}\nreturn y"),
        whole(f"y = torch.empty_like(x)\nassert True or {LAUNCH}\nreturn y"),
        whole("y = torch.empty_like(x)\n_double\nreturn y"),
        whole("y = torch.empty_like(x)\nf = _double\nreturn y"),
        whole(f"if x.dim() == 2:\n    return x\n{LAUNCHED}return y"),
        whole(f"if self.dim > 3:\n    return torch.empty_like(x)\n{LAUNCHED}return y"),
        whole(
            f"match x.dim():\n    case 1:\n        return x\n    case _:\n        pass\n{LAUNCHED}return y"
        ),
        candidate(
            top=f"def _used(x, y):\n    {LAUNCH}\n\ndef _idle(x, y):\n    return y\n\n",
        ).replace(_LINE, "        _idle(x, y)"),
        candidate(
            top=f"class _Op:\n    def run(self, x, y):\n        {LAUNCH}\n    def skip(self, x, y):\n        pass\n\n"
        ).replace(_LINE, "        _Op().skip(x, y)"),
        candidate(init="self.n = _double\n").replace(_LINE, "        self.n"),
        "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return x\n",
        "import torch.nn as nn\n\nclass Model(nn.Linear):\n    pass\n",
    ],
    "torch-compute": [
        candidate(top="class Act(nn.ReLU):\n    pass\n\n", init="self.a = Act()", after="y = self.a(y)"),
        candidate(after="y = y.mm(y)"),
        candidate(after="y = y + x"),
        candidate(after="y = 2 * y"),
        candidate(after="y = y / y.max()"),
        candidate(after="y = y ** 2"),
        candidate(after="y = 1 - y"),
        candidate(after="y = ~y"),
        candidate(after="y[0] += 1"),
        candidate(after="y = torch.where(x > 0, y, x)"),
        candidate(after="y = torch.nn.functional.gelu(y)"),
        candidate(imports="import torch.nn.functional as F\n", after="y = F.layer_norm(y, y.shape)"),
        candidate(imports="from torch import nn as n\n", after="y = n.functional.relu(y)"),
        candidate(init="self.act = nn.GELU()\n", after="y = self.act(y)"),
        candidate(init="self.act = torch.relu\n", after="y = self.act(y)"),
        candidate(
            init="self.l = nn.ModuleList([nn.Linear(dim, dim)])\n", after="for l in self.l:\n    y = l(y)"
        ),
        candidate(after="y = nn.Linear(4, 4)(y)"),
        candidate(after="y = nn.ReLU().forward(y)"),
        candidate(init="self.fc = nn.Linear(dim, dim)\n", after="y = self.fc.forward(y)"),
        candidate(init="self.fc = nn.Linear(dim, dim)\n", after="y = self.fc.__call__(y)"),
        candidate(after="y = torch.special.expit(y)"),
        candidate(after="y = torch.ops.aten.relu.default(y)"),
        candidate(after="y = torch._C._nn.gelu(y)"),
        candidate(after="y = torch.fft.fft(y)"),
        candidate(after="y = torch.cumsum(y, 0)"),
        candidate(after="y = torch.add(y, 1)"),
        candidate(after="y.add_(1)"),
        candidate(after="y.mul_(2)"),
        candidate(after="y.clamp_(0, 1)"),
        candidate(after="torch.add(y, 1, out=y)"),
        candidate(after="torch.relu_(y)"),
        candidate(after="y = torch.sigmoid_(y)"),
        candidate(after="y = y.__add__(y)"),
        candidate(after="y = torch.Tensor.add(y, y)"),
        candidate(after="y = type(y).softmax(y, -1)"),
        candidate(after="y = y.relu().sigmoid()"),
        candidate(after="(y,) = (y.exp(),)"),
        candidate(after="y = [t.exp() for t in [y]][0]"),
        candidate(after="y = max(y, x)"),
        candidate(after="y = pow(y, 2)"),
        candidate(after="y = divmod(y, 2)[0]"),
        candidate(imports="import operator\n", after="y = operator.add(y, y)"),
        candidate(imports="import operator as o\n", after="y = o.truediv(y, 2)"),
        candidate(imports="import functools\n", after="y = functools.reduce(torch.add, [y, y])"),
        candidate(
            imports="import functools\nimport operator\n", after="y = functools.reduce(operator.mul, [y, y])"
        ),
        candidate(top="_mm = torch.matmul\n\n", after="y = _mm(y, y)"),
        candidate(top="class _N:\n    mm = staticmethod(torch.matmul)\n\n", after="y = _N.mm(y, y)"),
        candidate(top="def _apply(f, *a):\n    return f(*a)\n\n", after="y = _apply(torch.mul, y, y)"),
        candidate(top="def _get():\n    return torch.softmax\n\n", after="y = _get()(y, -1)"),
        candidate(
            top="def _fin(t, n):\n    for _ in range(n):\n        t = t * 2\n    return t\n\n",
            after="y = _fin(y, 2)",
        ),
        candidate(
            top="class _Post:\n    def __call__(self, t):\n        return t.tanh()\n\n",
            after="y = _Post()(y)",
        ),
        candidate(
            top="class _P(nn.Module):\n    def forward(self, t):\n        return t.tanh()\n\n",
            init="self.p = _P()\n",
            after="y = self.p(y)",
        ),
        candidate(init="self.register_forward_hook(lambda m, a, o: o.relu())\n"),
        candidate(after="y = eval('y.softmax(-1)')"),
        candidate(after="exec('y = torch.relu(y)')"),
        candidate(imports="import sys\n", after="y = sys.modules['torch'].relu(y)"),
        candidate(
            imports="import importlib\n", after="y = importlib.import_module('torch.nn.functional').relu(y)"
        ),
        candidate(after="y = __import__('torch').relu(y)"),
        candidate(after="y = vars(torch)['relu'](y)"),
        candidate(after="y = torch.__dict__['re' + 'lu'](y)"),
        candidate(after="z = y @ y.T"),
        candidate(after="a, b = y.chunk(2)\ny = a * b"),
        candidate(after="y = (lambda t: t + 1)(y)"),
        candidate(after="y = y.view(-1).sum()"),
        candidate(after="y = y.to(torch.float32).mean(-1)"),
        candidate(after="with torch.no_grad():\n    y = y.exp()"),
        candidate(after="try:\n    y = y.exp()\nfinally:\n    pass"),
        candidate(after="y = y if x.dim() else y.exp()"),
        candidate(after="y = torch.vmap(lambda t: t)(y)"),
        candidate(after="y = torch.einsum('ij->i', y)"),
        candidate(after="y = y.sort()[0]"),
        candidate(after="y = torch.topk(y, 1)[0]"),
        candidate(after="y = y.masked_fill(x > 0, 0)"),
    ],
    "reference-fallback": [
        body(f"try:\n    {LAUNCH}\nexcept RuntimeError:\n    y = x * 2"),
        body(f"try:\n    {LAUNCH}\nexcept:\n    y.copy_(x)"),
        body(
            f"try:\n    {LAUNCH}\nexcept Exception:\n    return self._eager(x)",
            init="self._eager = lambda t: t.relu()\n",
        ),
        body(f"try:\n    {LAUNCH}\nexcept Exception as e:\n    self.err = e"),
        body(f"try:\n    {LAUNCH}\nexcept (ValueError, TypeError):\n    y = torch.relu(x)\nelse:\n    pass"),
        body(
            f"ok = True\ntry:\n    {LAUNCH}\nexcept Exception:\n    ok = False\nif not ok:\n    return torch.relu(x)"
        ),
        body(f"if x.dtype == torch.float64:\n    return x.mul(2)\n{LAUNCH}"),
        body(f"if not x.is_cuda:\n    return x + x\n{LAUNCH}"),
        body(f"if x.shape[0] % 16:\n    return torch.nn.functional.relu(x)\n{LAUNCH}"),
        body(f"if x.dim() == 1:\n    {LAUNCH}\nelse:\n    return torch.softmax(x, -1)"),
        body(LAUNCH, imports="import reference as r\n", init="self.r = r.Model(dim)\n"),
        body(LAUNCH, imports="from reference import Model as _Ref\n"),
        body(LAUNCH, init="from reference import Model as R\nself.r = R(dim)\n"),
        body(LAUNCH, init="self.r = __import__('reference').Model(dim)\n"),
        body(LAUNCH, imports="import sys\n", init="self.m = sys.modules.get('reference')\n"),
        body(LAUNCH, imports="import sys\n", init="self.m = [m for m in list(sys.modules.values())]\n"),
        candidate(imports="import reference\n").replace("nn.Module)", "reference.Model)"),
    ],
    "output-cache": [
        candidate(before="c = self.__dict__\nif 'out' in c:\n    return c['out']", after="c['out'] = y"),
        candidate(
            top="_C = {}\n\ndef _memo(f):\n    def w(self, x):\n        k = x.data_ptr()\n        if k not in _C:\n"
            "            _C[k] = f(self, x)\n        return _C[k]\n    return w\n\n"
        ).replace("    def forward", "    @_memo\n    def forward"),
        body(
            f"if self.c is not None and self.c[0] == x.data_ptr():\n    return self.c[1]\n{LAUNCH}\nself.c = (x.data_ptr(), y)",
            init="self.c = None\n",
        ),
        body(
            f"k = (x.data_ptr(), x._version)\nif k in self.c:\n    return self.c[k]\n{LAUNCH}\nself.c[k] = y",
            init="self.c = {}\n",
        ),
        body(
            f"r = self.c.setdefault(x.shape, y)\nif r is not y:\n    return r\n{LAUNCH}", init="self.c = {}\n"
        ),
        body(
            f"h = hash(x.cpu().numpy().tobytes())\nif h in _H:\n    return _H[h]\n{LAUNCH}\n_H[h] = y",
            top="_H = {}\n\n",
        ),
        body(f"if _L:\n    return _L[-1]\n{LAUNCH}\n_L.append(y)", top="_L = []\n\n"),
        body(f"if id(x) in Model.memo:\n    return Model.memo[id(x)]\n{LAUNCH}\nModel.memo[id(x)] = y"),
        body(
            f"try:\n    return _C[x.data_ptr()]\nexcept KeyError:\n    {LAUNCH}\n    _C[x.data_ptr()] = y",
            top="_C = {}\n\n",
        ),
        body(f"if not hasattr(self, 'out'):\n    {LAUNCH}\n    self.out = y\nreturn self.out"),
        body(
            f"self.n = getattr(self, 'n', 0) + 1\nif self.n > 3:\n    return self.out\n{LAUNCH}\nself.out = y"
        ),
        candidate(
            imports="import functools\n",
            top=f"@functools.cache\ndef _go(x):\n    y = torch.empty_like(x)\n    {LAUNCH}\n    return y\n\n",
        ).replace(
            "        y = torch.empty_like(x)\n" + _LINE + "\n        return y", "        return _go(x)"
        ),
        candidate(
            imports="from functools import lru_cache as memo\n",
            init="self.go = memo(None)(self._go)\n",
        ).replace(
            "        y = torch.empty_like(x)\n" + _LINE + "\n        return y",
            "        return self.go(x)\n\n    def _go(self, x):\n        y = torch.empty_like(x)\n"
            + _LINE
            + "\n        return y",
        ),
        body(
            f"w = self.w.get(x)\nif w is not None:\n    return w\n{LAUNCH}\nself.w[x] = y",
            imports="import weakref\n",
            init="self.w = weakref.WeakKeyDictionary()\n",
        ),
    ],
    "hardcoded-output": [
        body(f"if x.shape == torch.Size([4, 4]):\n    return torch.ones(4, 4)\n{LAUNCH}"),
        body(f"if x.numel() == 16:\n    return torch.tensor([1.0] * 16)\n{LAUNCH}"),
        body(f"if x.shape[-1] in (128, 256):\n    return torch.zeros_like(x)\n{LAUNCH}"),
        body(
            f"if tuple(x.shape) in _T:\n    return torch.as_tensor(_T[tuple(x.shape)])\n{LAUNCH}",
            top="_T = {(1,): [0.5]}\n\n",
        ),
        body(f"if self.dim == 8:\n    y.zero_()\n    return y\n{LAUNCH}"),
        body(f"if x.dim() > 3:\n    return torch.rand(x.shape)\n{LAUNCH}"),
        whole(f"{LAUNCHED}return torch.zeros_like(y)"),
        whole(f"{LAUNCHED}return torch.full_like(y, 0.25)"),
        body(f"return torch.ones_like(x) if x.dim() == 1 else y\n{LAUNCH}"),
        body(f"z = torch.zeros(x.shape)\nif x.dim() == 1:\n    return z.view(-1)\n{LAUNCH}"),
    ],
}

HONEST: list[str] = [
    candidate(),
    whole(f"y = torch.empty(x.shape, dtype=x.dtype, device=x.device)\n{LAUNCH}\nreturn y.reshape(-1)"),
    whole(f"x = x.contiguous()\n{LAUNCHED}return y"),
    whole(f"shape = x.shape\nx = x.view(-1, shape[-1])\n{LAUNCHED}return y.view(shape)"),
    whole(f"if x.numel() == 0:\n    return torch.empty_like(x)\n{LAUNCHED}return y"),
    whole(f"if 0 in x.shape:\n    return x.new_empty(x.shape)\n{LAUNCHED}return y"),
    whole(f"n = x.numel()\ny = torch.empty_like(x)\nif n:\n    {LAUNCH}\nreturn y"),
    whole(f"m, n = x.shape\ny = torch.empty_like(x)\nif m > 0 and n > 0:\n    {LAUNCH}\nreturn y"),
    whole(
        f"if x.dtype not in (torch.float32, torch.bfloat16):\n    raise TypeError(x.dtype)\n{LAUNCHED}return y"
    ),
    whole(f"{LAUNCHED}return y, x"),
    whole(f"{LAUNCHED}return (y, None)"),
    whole(f"{LAUNCHED}out = {{}}\nout['y'] = y\nreturn out"),
    whole(f"y = torch.zeros(1, device=x.device)\n{LAUNCH}\nreturn y[0]"),
    whole(
        f"ys = []\nfor i in range(x.shape[0]):\n    y = torch.empty_like(x[i])\n    {LAUNCH}\n    ys.append(y)\nreturn torch.stack(ys)"
    ),
    whole(f"y = torch.empty_like(x)\nwith torch.no_grad():\n    {LAUNCH}\nreturn y"),
    whole(
        f"y = torch.empty_like(x)\nn = -(-x.numel() // 256) * 256 + (x.shape[0] - 1) % 7\n{LAUNCH}\nreturn y"
    ),
    whole(f"y = torch.empty_like(x)\nif x.is_contiguous():\n    {LAUNCH}\nelse:\n    {LAUNCH}\nreturn y"),
    whole(
        f"y = torch.empty_like(x)\nif x.dim() == 1:\n    {LAUNCH}\nelif x.dim() == 2:\n    {LAUNCH}\nelse:\n    raise ValueError('rank')\nreturn y"
    ),
    whole(
        f"y = torch.empty_like(x)\nmatch x.dtype:\n    case torch.float32:\n        {LAUNCH}\n    case _:\n        {LAUNCH}\nreturn y"
    ),
    whole("y = torch.empty_like(x)\nself._launch(x, y)\nreturn y")
    + f"\n    def _launch(self, x, y):\n        {LAUNCH}\n",
    whole("return self._run(x)")
    + f"\n    def _run(self, x):\n        y = torch.empty_like(x)\n        {LAUNCH}\n        return y\n",
    body("self.fn(x, y)", init="self.fn = self._build()\n", top="", before="").replace(
        "    def forward", "    def _build(self):\n        return _double\n\n    def forward"
    ),
    body("_KERNELS[x.dtype](x, y, 1)", top="_KERNELS = {torch.float32: _double, torch.float16: _double}\n\n"),
    body("getattr(self, 'run')(x, y, 1)", init="self.run = _double\n"),
    body("launch = _double if x.dim() > 1 else _double\nlaunch(x, y, 1)"),
    body("args = (x, y, 1)\n_double(*args)"),
    body("kw = dict(X=x, Y=y, n=1)\n_double(**kw)"),
    body(
        "_compiled(x.dtype)(x, y, 1)",
        imports="import functools\n",
        top="@functools.lru_cache(maxsize=None)\ndef _compiled(dtype):\n    return flyc.compile(_double)\n\n",
    ),
    body(
        "key = (x.dtype, x.shape[-1])\nfn = self.cache.get(key)\nif fn is None:\n    fn = self.cache[key] = _double\nfn(x, y, 1)",
        init="self.cache = {}\n",
    ),
    body(
        "try:\n    fn = _B[x.dtype]\nexcept KeyError:\n    fn = _B[x.dtype] = _double\nfn(x, y, 1)",
        top="_B = {}\n\n",
    ),
    body(
        f"try:\n    {LAUNCH}\nexcept RuntimeError as e:\n    raise RuntimeError(f'launch failed for {{x.shape}}') from e"
    ),
    body("ws = torch.empty(64, device=x.device)\n_double(x, ws, 64)\n_double(ws, y, 64)"),
    body(
        "if self.ws is None or self.ws.device != x.device:\n    self.ws = torch.empty(64, device=x.device)\n_double(x, self.ws, 64)\n_double(self.ws, y, 64)",
        init="self.ws = None\n",
    ),
    body(
        "w = self.weight.view(-1)\n_double(w, y, 4)",
        init="self.weight = nn.Parameter(torch.randn(dim) * 0.02)\n",
    ),
    body(
        "if self.packed is None:\n    self.packed = self.weight.reshape(4, -1).transpose(0, 1).contiguous()\n_double(self.packed, y, 4)",
        init="self.weight = nn.Parameter(torch.ones(dim))\nself.packed = None\n",
    ),
    body("c = torch.tensor(_COEFFS, device=x.device)\n_double(c, y, 2)", top="_COEFFS = (0.1, 0.2)\n\n"),
    body("y.zero_()\n" + LAUNCH),
    body("s = torch.cuda.current_stream()\n_double(x, y, 1, stream=s)"),
    body("stride = x.stride(0) * x.element_size()\noffset = x.storage_offset() + 1\n" + LAUNCH),
    body("big = max(x.shape) > 4096\nlist(map(int, x.shape))\n" + LAUNCH),
    body("scale = self.dim ** -0.5\ninv = 1.0 / (self.dim + 1e-6)\n" + LAUNCH),
    body("idx = torch.arange(4, device=x.device)\n_double(idx, y, 4)"),
    body("a, b = x.chunk(2, dim=-1)\n_double(a, y, 1)\n_double(b, y, 1)"),
    body("x = x.to(torch.bfloat16)\n" + LAUNCH),
    body("y = y.t()\n" + LAUNCH),
    body("assert x.dim() == 2, 'a matrix is expected'\n" + LAUNCH),
    body(
        "blocks = (x.numel() + 255) // 256\nif blocks > 65535:\n    raise ValueError('too large')\n" + LAUNCH
    ),
    candidate(top="def _tiles(m, n):\n    return (m * n) // 64 - 1\n\n", before="t = _tiles(*x.shape)"),
    candidate(top="def _unused_reference(t):\n    return torch.softmax(t, -1) + t\n\n"),
    candidate(
        top="@flyc.jit\ndef _idle(X: fx.Tensor):\n    _double_kernel(X, X, 1).launch(grid=(1, 1, 1), block=(1, 1, 1))\n\n"
    ),
]
