"""KL204."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, Valid, cases
from kernel_lint.rules._edits import removal
from kernel_lint.rules._imports import unused_import
from kernel_lint.rules._modules import FOREIGN
from kernel_lint.rules._paths import shown
from kernel_lint.rules._reads import is_own
from kernel_lint.rules._samples import candidate
from kernel_lint.rules._shallow import ShallowPaths
from kernel_lint.source.domain import Attr, Param, Qual, Value
from kernel_lint.source.references import Reference

if TYPE_CHECKING:
    from typing import ClassVar

    from kernel_lint.frameworks import Framework

_OTHER = "is another kernel language or a library of ready operators"
_PREBUILT = "is a ready operator"
_OPTIMIZED = "is a ready kernel of PyTorch's"
_HOST = "computes on the host with NumPy"
# What NumPy is for here: tables, dtypes, sizes. These compute with the numbers of a tensor.
_PRODUCTS = frozenset(
    """dot matmul vdot inner outer einsum tensordot kron cross convolve correlate linalg fft polynomial vectorize apply_along_axis
    apply_over_axes vecdot matvec vecmat""".split()
)
_ELEMENTWISE = frozenset(
    """exp exp2 expm1 log log2 log10 log1p sqrt cbrt square abs absolute sin cos tan tanh sinh cosh arctan arcsin arccos
    add subtract multiply divide true_divide power maximum minimum fmax fmin sum mean std var max min amax amin argmax argmin
    sort argsort cumsum cumprod where clip softmax average median quantile percentile trapz interp sign negative reciprocal
    heaviside logaddexp hypot floor ceil rint round""".split()
)
_INTO_NUMPY = frozenset({"numpy", "__array__", "__array_interface__"})
_MAKERS = (
    "numpy.asarray",
    "numpy.array",
    "numpy.from_dlpack",
    "numpy.ascontiguousarray",
    "numpy.frombuffer",
    "numpy.asanyarray",
)
_OWN_OPS = ("torch.ops.aten", "torch.ops.prim", "torch.ops.prims", "torch.ops.load_library")


class ForeignFramework(ShallowPaths):
    """
    ## What it does
    Finds other kernel languages (Triton, CuPy, Numba, JAX, TileLang...), libraries of ready operators (aiter,
    flash_attn, vLLM, hipBLASLt...), custom operators behind `torch.ops`, and NumPy computing on the numbers of a tensor.

    ## Why is this bad?
    The task is to write the kernel in FlyDSL. An operator that someone else wrote is not an answer, and is not
    installed where the file runs.

    ## What is allowed
    NumPy for tables and sizes, a class or variable of your own called `aiter`, the packages of the chosen language.

    ## How to fix it
    Write the operation as a kernel. Inline what FlyDSL part of such a library you need with `kernel-lint package --inline`.

    ## Example
    ```python
    import aiter
    y = aiter.gelu(x)
    ```

    ## Fix safety
    Removing an import that nothing uses is safe.

    ## References
    - Contract clauses P1 (FlyDSL does the work) and P2 (the host only sets up).
    """

    code = "KL204"
    name = "foreign-framework"
    clauses = ("P1", "P2")
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(sorted(FOREIGN), _OTHER),
        **dict.fromkeys(
            """flag_gems unsloth cut_cross_entropy natten torch_scatter torch_sparse torch_cluster torch_geometric pyg_lib
            nvmath cupynumeric cunumeric mxnet caffe2 theano numexpr torch_tensorrt intel_extension_for_pytorch
            ck4inductor hipkittens bitblas exllamav2 auto_gptq""".split(),
            _OTHER,
        ),
        "kernels.get_kernel": _PREBUILT,
        "torch.utils._triton": _OTHER,
        "torch._inductor.runtime": _OTHER,
        "torch.sparse._triton_ops": _OTHER,
        "torch._higher_order_ops": _PREBUILT,
        "torch.ops": _PREBUILT,
        "torch.classes": _PREBUILT,
        "torch.ao": _PREBUILT,
        "torch.quantization": _PREBUILT,
        "torch.nn.attention.flex_attention": _OPTIMIZED,
        "torch.nn.attention.varlen": _OPTIMIZED,
        "torch.utils.dlpack": "hands tensors to another library",
        "torch.from_dlpack": "hands tensors to another library",
    }
    ALLOWED = frozenset(_OWN_OPS)
    HELP = "write the operation as a kernel of the chosen language"
    VALID = cases(
        lambda: (
            "import numpy as np\nLUT = np.zeros(16)\nE = np.exp(LUT)\n",
            candidate(top="class aiter:\n    tile = 16\n\n", init="self.t = aiter.tile"),
            "triton = 3\nx = triton + 1\n",
            "TEXT = 'import triton'\n",
            Valid("import cutlass.cute as cute\n", options={"framework": "cutedsl"}),
            candidate(imports="import numpy as np", before="n = int(np.prod(x.shape))"),
            candidate(imports="import numpy as np", top="_T = np.dot(np.eye(2), np.eye(2))\n\n"),
            "import torch\nf = torch.ops.aten.add\n",
            "def f(x):\n    return x.numpy_like\n",
        )
    )
    INVALID = cases(lambda: (
        Invalid("import aiter\ny = aiter.gelu(1)\n", lines=(1, 2)),
        Invalid("import vllm\nx = 1\n", lines=(1,), fixed="x = 1\n"),
        Invalid("import triton.language as tl\n", lines=(1,), fixed=""),
        Invalid("from flash_attn import flash_attn_func as attend\n", lines=(1,), fixed=""),
        Invalid("try:\n    import cupy as cp\nexcept ImportError:\n    cp = None\n", lines=(2,)),
        Invalid("def f():\n    from numba import njit\n    return njit\n", lines=(2,)),
        Invalid("import importlib\nt = importlib.import_module('tri' + 'ton')\n", lines=(2,)),
        Invalid("import sys\nt = sys.modules['triton'].jit\n", lines=(2,)),
        Invalid("t = __import__('jax')\n", lines=(1,)),
        Invalid("import torch\nf = torch.ops.aiter.gelu\n", lines=(2,)),
        Invalid("import torch\nf = getattr(torch.ops, 'vl' + 'lm').silu\n", lines=(2,)),
        Invalid("from torch.utils.dlpack import to_dlpack\n", lines=(1,), fixed=""),
        Invalid(candidate(imports="import numpy as np", before="a = x.cpu().numpy()").replace("return y", "return torch.from_numpy(np.dot(a, a.T))")),
        Invalid(candidate(imports="import numpy", before="a = numpy.asarray(x.cpu())\nb = numpy.exp(a)")),
        Invalid(candidate(imports="from numpy import einsum", before="a = einsum('ij->i', x)")),
        Invalid(candidate(imports="import numpy as np", top="def helper(a):\n    return np.matmul(a, a)\n\n", before="b = helper(x)")),
        Invalid(candidate(before="a = getattr(x, 'num' + 'py')()")),
        Invalid("import cutlass.cute as cute\n", lines=(1,), fixed=""),
    ))  # fmt: skip

    @classmethod
    def table(cls, framework: Framework) -> Mapping[str, str]:
        """Leave out the packages of the chosen kernel language."""
        own = framework.imports
        return {path: why for path, why in cls.FORBIDDEN.items() if path.partition(".")[0] not in own}

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield foreign packages, then tensors computed with NumPy on the path of forward."""
        yield from super().check(context)
        flow, values = context.module.flow, context.module.values
        pending: list[tuple[ast.expr, str]] = []
        converted = False
        survey = context.module.survey
        for call in (
            *survey.calls_below(("numpy.",)),
            *survey.calls_ending(_INTO_NUMPY),
            *survey.method_calls(_INTO_NUMPY),
            *survey.calls_of(_MAKERS),
        ):
            if not flow.on_path(call):
                continue
            for value in values.of(call.func):
                if _converts(context, call, value):
                    converted = True
                    yield Finding(call, f"a tensor is turned into an array: it {_HOST}", self.HELP)
                elif isinstance(value, Qual) and value.name.startswith("numpy."):
                    name = value.name.removeprefix("numpy.").partition(".")[0]
                    if name in _PRODUCTS:
                        yield Finding(call, f"`{value.name}` {_HOST}", self.HELP)
                    elif name in _ELEMENTWISE:
                        pending.append((call, value.name))
        for node, path in pending if converted else ():
            yield Finding(node, f"`{path}` {_HOST}", self.HELP)

    def finding(self, context: Context, reference: Reference, why: str) -> Finding | None:
        """Offer to remove an import that nothing uses."""
        if reference.path in ("torch.ops", "torch.classes"):
            return None
        unused = unused_import(context, reference.node)
        fix = removal(context.module, unused, "the unused import") if unused is not None else None
        severity = Severity.WARNING if why.startswith("hands") else None
        return Finding(reference.node, f"`{shown(reference.path)}` {why}", self.HELP, fix, severity)


def _converts(context: Context, call: ast.Call, value: Value) -> bool:
    """Whether a call turns a tensor into an array: ``x.numpy()``, ``np.asarray(x)``."""
    if isinstance(value, (Attr, Qual)):
        path = value.name
        if path.rpartition(".")[2] in _INTO_NUMPY and (isinstance(value, Attr) or "()" in path):
            return not (isinstance(call.func, ast.Attribute) and is_own(context, call.func.value))
    if isinstance(value, Qual) and value.name in _MAKERS and call.args:
        return any(_from_input(v) for v in context.module.values.of(call.args[0]))
    return False


def _from_input(value: Value) -> bool:
    """Whether a value is an input or what methods of an input give, shapes aside."""
    while isinstance(value, Attr):
        if value.name in ("shape", "size", "stride", "dtype", "device", "ndim", "numel", "dim"):
            return False
        value = value.base
    return isinstance(value, Param)
