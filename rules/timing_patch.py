"""KL304."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, cases
from kernel_lint.rules._paths import shown
from kernel_lint.rules._reads import is_outside
from kernel_lint.rules._samples import candidate
from kernel_lint.rules._shallow import ShallowPaths
from kernel_lint.rules._stores import Store, stores
from kernel_lint.source.domain import Attr, Qual, in_order
from kernel_lint.source.references import Reference

if TYPE_CHECKING:
    from typing import ClassVar

_PATCHER = "replaces parts of other modules"
_SWITCH = "changes a switch that the whole process shares"
_SETTERS = (
    "builtins.setattr",
    "builtins.delattr",
    "builtins.object.__setattr__",
    "builtins.type.__setattr__",
)
_ENVIRONMENT = ("os.environ", "os.environb")


class TimingPatch(ShallowPaths):
    """
    ## What it does
    Finds stores into anything outside the file: functions and classes of `torch`, `time`, `builtins` or any other module
    that are replaced, by assignment, `setattr`, `__dict__`, `sys.modules` or `mock.patch`; and global switches of
    PyTorch that are set.

    ## Why is this bad?
    The evaluator shares these modules. A patched timer, comparison or synchronisation makes its result meaningless, and
    a switch that is set for the candidate is also set for the reference.

    ## What is allowed
    Attributes of your own objects and classes, whatever they are called; reading a switch
    (`torch.backends.cuda.matmul.allow_tf32`); a dictionary of your own.

    ## How to fix it
    Remove the store. What the kernel needs must be in the kernel.

    ## Example
    ```python
    torch.cuda.Event.elapsed_time = lambda self, end: 0.001
    ```

    ## References
    - Contract clauses F3 (self-contained) and F8 (the kernel and nothing else).
    """

    code = "KL304"
    name = "timing-patch"
    clauses = ("F3", "F8")
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        "unittest.mock": _PATCHER,
        "mock": _PATCHER,
        "pytest.MonkeyPatch": _PATCHER,
        "_pytest.monkeypatch": _PATCHER,
        "monkeypatch": _PATCHER,
        "wrapt": _PATCHER,
        "gorilla": _PATCHER,
        "forbiddenfruit": _PATCHER,
        "freezegun": _PATCHER,
        "time_machine": _PATCHER,
        "copyreg": _PATCHER,
        "importlib.reload": _PATCHER,
        "torch.utils._python_dispatch": _PATCHER,
        "torch._C._set_throw_on_base": _SWITCH,
        **{
            f"torch.{name}": _SWITCH
            for name in """set_num_threads set_num_interop_threads set_default_dtype set_default_device set_default_tensor_type
            set_float32_matmul_precision use_deterministic_algorithms set_deterministic_debug_mode set_flush_denormal
            manual_seed seed set_rng_state random.manual_seed random.set_rng_state random.seed set_warn_always
            cuda.manual_seed cuda.manual_seed_all cuda.set_rng_state cuda.set_sync_debug_mode
            cuda.set_per_process_memory_fraction cuda.memory.change_current_allocator
            backends.cuda.enable_flash_sdp backends.cuda.enable_math_sdp backends.cuda.enable_mem_efficient_sdp
            backends.cuda.enable_cudnn_sdp backends.cuda.preferred_linalg_library backends.cuda.preferred_blas_library
            backends.cudnn.flags backends.cudnn.set_flags backends.mkldnn.flags backends.mkldnn.set_flags
            autograd.set_detect_anomaly autograd.set_multithreading_enabled
            _C._set_cublas_allow_tf32 _C._set_cudnn_allow_tf32 _C._set_cudnn_enabled""".split()
        },
        "numpy.random.seed": _SWITCH,
        "numpy.seterr": _SWITCH,
        "random.seed": _SWITCH,
    }
    HELP = "remove it; a candidate changes nothing outside itself"
    VALID = cases(
        lambda: (
            candidate(init="self.synchronize = False\nself.tf32 = torch.backends.cuda.matmul.allow_tf32"),
            "class Event:\n    elapsed_time = None\n\nEvent.elapsed_time = 3\n",
            "CFG = {}\nCFG['synchronize'] = False\n",
            "import torch\ndef f(x):\n    y = torch.empty_like(x)\n    y.requires_grad = False\n    y[0] = 1\n    return y\n",
            "def f(x):\n    f.calls = 1\n    return x\n",
            "import torch.nn as nn\nclass M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        setattr(self, 'w0', 1)\n        self.fc = nn.Linear(2, 2)\n        self.fc.weight.requires_grad = False\n",
            "class C:\n    def __setattr__(self, k, v):\n        object.__setattr__(self, k, v)\n",
            "sum = 3\ntime = 4\n",
            "import torch.nn as nn\nclass M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        nn.Module.__setattr__(self, 'w', 1)\n",
            "class A:\n    def __setattr__(self, k, v):\n        super(A, self).__setattr__(k, v)\n",
            "class A:\n    def f(self):\n        type(self).__setattr__(self, 'x', 1)\n",
            "d, n = {}, 0\nd |= {1: 2}\nn |= 4\n",
            "def f(cfg):\n    cfg.time = 3\n    setattr(cfg, 'x', 1)\n",
            "globals()['N'] = 1\n",
            "import collections\nD = collections.defaultdict(list)\nD['a'] = 1\n",
        )
    )
    INVALID = cases(lambda: (
        Invalid("import torch\ntorch.cuda.Event.elapsed_time = lambda self, end: 0.001\n", lines=(2,)),
        Invalid("import time\ntime.perf_counter = lambda: 0.0\n", lines=(2,)),
        Invalid("import torch\nE = getattr(getattr(torch, 'cuda'), 'Ev' + 'ent')\nsetattr(E, 'elapsed' + '_time', id)\n", lines=(3,)),
        Invalid("import torch as t\nt.allclose = lambda *a, **k: True\n", lines=(2,)),
        Invalid("from unittest import mock\nmock.patch('torch.cuda.synchronize', id).start()\n", lines=(1, 2)),
        Invalid("import torch\ntorch.cuda.__dict__['synchronize'] = id\n", lines=(2,)),
        Invalid("import torch\nvars(torch.cuda)['synchronize'] = id\n", lines=(2,)),
        Invalid("import torch\ntorch.cuda.__dict__.update(synchronize=id)\n", lines=(2,)),
        Invalid("import builtins\nbuiltins.sum = lambda *a: 0\n", lines=(2,)),
        Invalid("__builtins__['sum'] = id\n", lines=(1,)),
        Invalid("import sys\nsys.modules['time'] = None\n", lines=(2,)),
        Invalid("import sys\nsys.modules['time'].time = id\n", lines=(2,)),
        Invalid("import torch\ntorch.Tensor.cpu = id\n", lines=(2,)),
        Invalid("import torch.nn as nn\nnn.Module.__call__ = id\n", lines=(2,)),
        Invalid("def f(x):\n    type(x).cpu = f\n", lines=(2,)),
        Invalid("def f(x):\n    x.__class__.cpu = f\n", lines=(2,)),
        Invalid("import torch\ndel torch.cuda.synchronize\n", lines=(2,)),
        Invalid("import torch, functools\nfunctools.partial(setattr, torch)('allclose', id)\n", lines=(2,)),
        Invalid("import time\nfor n in ('time', 'perf_counter'):\n    setattr(time, n, id)\n", lines=(3,)),
        Invalid("import time\nlist(map(setattr, [time], ['time'], [id]))\n", lines=(2,)),
        Invalid("import torch\ntorch.__setattr__('allclose', id)\n", lines=(2,)),
        Invalid("import torch\ntype.__setattr__(torch.Tensor, 'cpu', id)\n", lines=(2,)),
        Invalid("import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\n", lines=(2,)),
        Invalid("import torch\ntorch.set_num_threads(1)\n", lines=(2,)),
        Invalid("class T:\n    def __init__(self):\n        import time\n        self.t = time\n        self.t.time = id\n", lines=(5,)),
        Invalid("import operator, torch\noperator.setitem(torch.__dict__, 'allclose', id)\n", lines=(2,)),
        Invalid("import torch\nsuper(type(torch), torch).__setattr__('x', id)\n", lines=(2,)),
        Invalid("import torch, types\ntypes.ModuleType.__setattr__(torch, 'x', id)\n", lines=(2,)),
        Invalid("import torch\ntype(torch).__setattr__(torch, 'x', id)\n", lines=(2,)),
        Invalid("import torch\ntype(torch).__delattr__(torch, 'x')\n", lines=(2,)),
        Invalid("import torch\ns = super(type(torch), torch)\ngetattr(s, '__setattr__')('x', id)\n", lines=(3,)),
        Invalid("import torch\nsetattr(*(torch, 'x', id))\n", lines=(2,)),
        Invalid("import sys\nm = sys.modules\nm |= {'time': None}\n", lines=(3,)),
        Invalid("import sys\nfor m in list(sys.modules.values()):\n    m.sync = id\n", lines=(3,)),
    ))  # fmt: skip

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield patchers and switches, then stores into what is outside the file."""
        yield from super().check(context)
        for store in stores(context):
            finding = self._store(store)
            if finding is not None:
                yield finding
        yield from self._handed_on(context)

    def finding(self, context: Context, reference: Reference, why: str) -> Finding | None:
        """Switches are warnings: some of them only slow things down."""
        severity = Severity.WARNING if why == _SWITCH else None
        return Finding(reference.node, f"`{shown(reference.path)}` {why}", self.HELP, None, severity)

    def _store(self, store: Store) -> Finding | None:
        for value in in_order(frozenset(v for v in store.target if isinstance(v, (Attr, Qual)))):
            if isinstance(value, Attr) and value.name == "__class__" and not store.item:
                return Finding(
                    store.node, f"`{store.name}` of the class of an argument is replaced", self.HELP
                )
            if not isinstance(value, Qual) or value.name in _ENVIRONMENT:
                continue
            if value.name.endswith(".__class__") and not store.item:
                return Finding(
                    store.node, f"`{store.name}` of a class outside the file is replaced", self.HELP
                )
            # What a loop over the loaded modules meets is outside too.
            loaded = value.name.startswith(("sys.modules.values()[]", "sys.modules.items()[][]"))
            if loaded or (is_outside(value) and not value.name.startswith("__")):
                what = (
                    f"{shown(value.name)}[...]"
                    if store.item
                    else f"{shown(value.name)}.{store.name or '...'}"
                )
                if "torch.backends" in value.name:
                    return Finding(store.node, f"`{what}` {_SWITCH}", self.HELP, severity=Severity.WARNING)
                return Finding(
                    store.node, f"`{what}` is replaced: it does not belong to this file", self.HELP
                )
        return None

    def _handed_on(self, context: Context) -> Iterator[Finding]:
        """``setattr`` given to something that will call it."""
        scopes, values = context.module.scopes, context.module.values
        for reference in context.module.references.to(_SETTERS):
            node, parent = reference.node, scopes.parent.get(reference.node)
            if isinstance(node, ast.Name) and isinstance(parent, ast.Call) and node in parent.args:
                partial = {Qual("functools.partial"), Qual("functools.partialmethod")} & values.of(
                    parent.func
                )
                if not partial:
                    yield Finding(node, "`setattr` is handed on to be called with names unseen", self.HELP)
