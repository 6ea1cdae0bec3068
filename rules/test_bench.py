"""KL107."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import chain

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Fix, Severity, Span
from kernel_lint.patterns import lazy
from kernel_lint.rule import Context, Finding, Invalid, cases
from kernel_lint.rules._edits import removal
from kernel_lint.rules._imports import is_read, unused_import
from kernel_lint.rules._modules import TESTING
from kernel_lint.rules._paths import shown
from kernel_lint.rules._reads import is_own
from kernel_lint.rules._samples import candidate
from kernel_lint.rules._shallow import ShallowPaths
from kernel_lint.source.domain import Class, Const, Func, Instance, Param, Qual, Value
from kernel_lint.source.names import canonical
from kernel_lint.source.references import Reference
from kernel_lint.source.scopes import ScopeKind, walk

if TYPE_CHECKING:
    from typing import ClassVar

_TEST = "is test code"
_TIMER = "measures time"
_PROFILER = "is profiling code"
_BENCH = "is benchmark code"
_MEMORY = "measures memory"
_CLOCKS = "time perf_counter monotonic process_time thread_time clock_gettime".split()
_COMPARERS = frozenset(
    """allclose isclose assert_close assert_allclose assert_equal assert_almost_equal assert_array_equal
    assert_array_almost_equal array_equal assertEqual assertTrue assertAlmostEqual gradcheck gradgradcheck""".split()
)
_BENCHERS = frozenset(
    {"do_bench", "do_bench_cudagraph", "do_bench_using_profiling", "perf_report", "run_perftest"}
)
_ASKED = _BENCHERS | _COMPARERS
_EVENTS = frozenset({"Event", "hipEventElapsedTime", "cudaEventElapsedTime"})
_ELAPSED = ("elapsed_time", "self_cuda_time_total", "key_averages")
_TEST_NAME = lazy(
    r"^_*(test|tests|check_correctness|selfcheck|self_check|selftest|self_test|smoke_test)(_|$|\d)|_(test|selftest)$",
    words=("test", "check"),
)
_BENCH_NAME = lazy(
    r"(?:^|_)(bench|benchmark|profile|timeit|test)(?:_|$)", words=("bench", "profile", "timeit", "test")
)
_RUN_NAME = lazy(
    r"(?:^|_)(bench|benchmark|benchmarks|benchmarking|profile|profiling|timeit|timed|time|measure|elapsed|latency|verify|validate|compare"
    r"|correctness|accuracy|warmup|warm_up|check)(?:_|$)",
    words=("bench", "profil", "time", "measure", "elapsed", "latency", "verify", "validate", "compare", "correctness",
           "accuracy", "warm", "check"),
)  # fmt: skip


_GIVEN_BACK = frozenset(
    f"torch.nn.Module().{name}()"
    for name in "cuda to eval train half float bfloat16 double cpu requires_grad_".split()
)
_BENCH_CLASS = lazy(
    r"^_*(Bench|Benchmark|Profile|Perf|Timing)([A-Z_]|$|r$|er$)|(Bench|Benchmark|Profiler|TestCase|Tests?)$",
    words=("bench", "profile", "perf", "timing", "test"),
)


class TestBench(ShallowPaths):
    """
    ## What it does
    Finds test, benchmark and profiling code: `pytest`, `unittest`, `doctest`, timers, timed events, `do_bench`,
    profilers, functions that test or measure the model, assertions that compare with a reference.

    ## Why is this bad?
    The evaluator brings its own tests and clocks. Code that runs or times the model from inside the file is never
    called there, and a clock in a candidate is also what one needs to tell being measured from being used.

    ## What is allowed
    Assertions about the input (`assert x.dim() >= 1`), names such as `bench_rows`, a table called `_PROFILE`, a
    helper called `test_bit` that the kernel uses.

    ## How to fix it
    Move it to a test file beside the kernel.

    ## Example
    ```python
    def test_scale():
        assert torch.allclose(Model(4)(x), x * 2)
    ```

    ## Fix safety
    Removing a test function that nothing refers to, or an import that nothing uses, is safe.

    ## References
    - Contract clauses X3 (no test code) and X4 (no benchmark or profiling code).
    """

    code = "KL107"
    name = "test-bench"
    clauses = ("X3", "X4")
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        **{f"time.{name}{suffix}": _TIMER for name in _CLOCKS for suffix in ("", "_ns")},
        "time.clock": _TIMER,
        "time.get_clock_info": _TIMER,
        "time.sleep": "waits",
        "datetime.datetime.now": _TIMER,
        "datetime.datetime.utcnow": _TIMER,
        "datetime.datetime.today": _TIMER,
        "os.times": _TIMER,
        "resource": _MEMORY,
        "tracemalloc": _MEMORY,
        "psutil": _MEMORY,
        "torch.cuda.max_memory_allocated": _MEMORY,
        "torch.cuda.max_memory_reserved": _MEMORY,
        "torch.cuda.reset_peak_memory_stats": _MEMORY,
        "torch.cuda.memory_stats": _MEMORY,
        "torch.cuda.memory_summary": _MEMORY,
        "torch.cuda.memory._record_memory_history": _MEMORY,
        "torch.profiler": _PROFILER,
        "torch.autograd.profiler": _PROFILER,
        "torch.autograd.profiler_util": _PROFILER,
        "torch.cuda.profiler": _PROFILER,
        "torch.cuda.nvtx": _PROFILER,
        "torch.cuda.cudart": _PROFILER,
        "torch.utils.bottleneck": _PROFILER,
        "torch.utils.flop_counter": _PROFILER,
        "torch.utils.benchmark": _BENCH,
        "nvtx": _PROFILER,
        "roctx": _PROFILER,
        "roctracer": _PROFILER,
        "memory_profiler": _PROFILER,
        "viztracer": _PROFILER,
        "yappi": _PROFILER,
        "torch.testing": _TEST,
        "torch.autograd.gradcheck": _TEST,
        "torch.autograd.gradgradcheck": _TEST,
        "torch.allclose": _TEST,
        "torch.isclose": _TEST,
        "numpy.testing": _TEST,
        "numpy.allclose": _TEST,
        "numpy.isclose": _TEST,
        "numpy.array_equal": _TEST,
        "test": _TEST,
        "triton.testing": _BENCH,
        "flydsl.testing": _TEST,
        "pytest_benchmark": _BENCH,
        "asv": _BENCH,
        "pyperf": _BENCH,
        **dict.fromkeys(sorted(TESTING), _TEST),
        "timeit": _TIMER,
        "cProfile": _PROFILER,
        "profile": _PROFILER,
        "pstats": _PROFILER,
        "pyinstrument": _PROFILER,
        "line_profiler": _PROFILER,
    }
    HELP = "move it to a test file beside the kernel"
    VALID = cases(
        lambda: (
            candidate(before='assert x.dim() >= 1, "need at least one dimension"'),
            "def _rows(bench_rows):\n    return bench_rows * 2\n",
            "_PROFILE = {'gfx950': 256, 'gfx942': 128}\nT = _PROFILE['gfx950']\n",
            candidate(
                top="def test_bit(n, i):\n    return (n >> i) & 1\n\n", init="self.odd = test_bit(dim, 0)"
            ),
            "TEXT = 'import pytest'\n",
            "class Event:\n    elapsed_time = None\n\nEvent.elapsed_time = 3\n",
            "def f(time):\n    return time.perf_counter\n",
            "def check_shape(x):\n    if x.dim() != 2:\n        raise ValueError('two dimensions expected')\n",
            "import time\n",
            "def f(shape):\n    assert all(s > 0 for s in shape)\n    return max(shape)\n",
            "import math\nOK = math.isclose(1.0, 1.0)\n",
        )
    )
    INVALID = cases(lambda: (
        Invalid(candidate() + "\n\ndef test_scale():\n    m = Model(4)\n    assert m is not None\n", fixed=candidate() + "\n\n"),
        Invalid("import pytest\n", lines=(1,), fixed=""),
        Invalid("def f(m, x):\n    import triton.testing as tt\n    return tt.do_bench(lambda: m(x))\n", lines=(2, 3)),
        Invalid("import torch\ndef f(m, x):\n    with torch.profiler.profile() as p:\n        m(x)\n    return p\n", lines=(3,)),
        Invalid("import torch\ndef f():\n    a = torch.cuda.Event(enable_timing=True)\n    return a\n", lines=(3,)),
        Invalid("import torch\ndef f(a, b):\n    return a.elapsed_time(b)\n", lines=(3,)),
        Invalid("import doctest\ndef f():\n    return doctest.testmod()\n", lines=(1, 3)),
        Invalid("import time\nT = time.perf_counter()\n", lines=(2,)),
        Invalid("from time import perf_counter_ns as now\n", lines=(1,), fixed=""),
        Invalid("import time\nT = getattr(time, 'mono' + 'tonic')()\n", lines=(2,)),
        Invalid("import torch\ndef f(y, r):\n    assert torch.allclose(y, r)\n", lines=(3,)),
        Invalid("def f(y, r):\n    assert y.allclose(r)\n", lines=(2,)),
        Invalid("def f(y, r):\n    assert (y - r).abs().max() < 1e-3\n", lines=(2,)),
        Invalid("from torch.testing import assert_close\n", lines=(1,), fixed=""),
        Invalid("def bench_scale(f, x):\n    for _ in range(100):\n        f(x)\n", lines=(1,)),
        Invalid("class TestScale:\n    def test_it(self):\n        return 1\n", lines=(1,), fixed=""),
        Invalid(candidate(top="import torch as th\n\ndef run():\n    return Model(4)(th.ones(4))\n\n")),
        Invalid("import datetime\nT = datetime.datetime.now()\n", lines=(2,)),
        Invalid("import torch.utils.benchmark as b\n", lines=(1,), fixed=""),
    ))  # fmt: skip

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield forbidden paths, comparers and benchmark helpers, then test functions and assertions."""
        seen: set[ast.AST | Span] = set()
        for finding in super().check(context):
            seen.add(finding.where)
            yield finding
        yield from self._methods(context, seen)
        yield from self._events(context)
        yield from self._functions(context)
        for node in context.module.scopes.of_type(ast.Assert):
            if _compares(node.test) and not any(inner in seen for inner in walk(node.test)):
                yield Finding(node, "an assertion compares with a reference", self.HELP)
        yield from self._own_runs(context)

    def finding(self, context: Context, reference: Reference, why: str) -> Finding | None:
        """Offer to remove an import that nothing uses."""
        unused = unused_import(context, reference.node)
        fix = removal(context.module, unused, "the unused import") if unused is not None else None
        return Finding(reference.node, f"`{shown(reference.path)}` {why}", self.HELP, fix)

    def _methods(self, context: Context, seen: set[ast.AST | Span]) -> Iterator[Finding]:
        asserted = context.module.scopes.ancestors
        attributes = context.module.scopes.attributes
        for node in chain.from_iterable(attributes[name] for name in attributes.keys() & _ASKED):
            if node in seen or not isinstance(node.ctx, ast.Load) or is_own(context, node.value):
                continue
            if node.attr in _BENCHERS:
                yield Finding(node, f"`{node.attr}` {_BENCH}", self.HELP)
            elif node.attr in _COMPARERS and not _is_module(context, node, "math"):
                if not any(isinstance(above, ast.Assert) for above in asserted(node)):
                    yield Finding(node, f"`{node.attr}` {_TEST}", self.HELP)
        for alias in context.module.scopes.of_type(ast.ImportFrom):
            for name in alias.names:
                if name.name in _BENCHERS and name not in seen:
                    yield Finding(name, f"`{name.name}` {_BENCH}", self.HELP)

    def _events(self, context: Context) -> Iterator[Finding]:
        values = context.module.values
        events = context.module.survey.calls_ending(_EVENTS)
        for call in events:
            paths = [v.name for v in values.of(call.func) if isinstance(v, Qual)]
            timing = [*call.args[:1], *(k.value for k in call.keywords if k.arg in ("enable_timing", None))]
            if any(values.constant(value) != Const(False) for value in timing) and not _is_sync(paths):
                yield Finding(call, f"a timed event {_TIMER}", self.HELP)
        for call in chain.from_iterable(map(values.sites.calls_named, _ELAPSED)):
            if isinstance(call.func, ast.Attribute) and not is_own(context, call.func.value):
                yield Finding(call.func, f"`{call.func.attr}` {_TIMER}", self.HELP)

    def _functions(self, context: Context) -> Iterator[Finding]:
        flow, scopes = context.module.flow, context.module.scopes
        used = flow.reachable | flow.init_reachable
        for node in scopes.of_type(ast.FunctionDef):
            outer = scopes.scope[node]
            if node in used or (outer.kind is ScopeKind.CLASS and _is_test_class(outer.node)):
                continue
            nested = outer.kind is ScopeKind.FUNCTION
            if (
                _TEST_NAME.search(node.name)
                and not (nested and not _runs(context, node))
                and not _is_helper(context, node)
            ):
                yield Finding(
                    _name_of(context, node), f"`{node.name}` {_TEST}", self.HELP, self._removal(context, node)
                )
            elif not nested and self._measures(context, node):
                yield Finding(
                    _name_of(context, node),
                    f"`{node.name}` {_BENCH}",
                    self.HELP,
                    self._removal(context, node),
                )
        for assign in scopes.of_type(ast.Assign):
            target = assign.targets[0]
            if (
                isinstance(assign.value, ast.Lambda)
                and isinstance(target, ast.Name)
                and _TEST_NAME.search(target.id)
            ):
                if assign.value not in used:
                    yield Finding(target, f"`{target.id}` {_TEST}", self.HELP)
        for cls in scopes.of_type(ast.ClassDef):
            if _is_test_class(cls) or (_BENCH_CLASS.search(cls.name) and not is_read(context, cls.name)):
                yield Finding(
                    _name_of(context, cls), f"`{cls.name}` {_TEST}", self.HELP, self._removal(context, cls)
                )

    def _measures(self, context: Context, node: ast.FunctionDef) -> bool:
        """Whether a function that the model does not use runs or compares what it is named for."""
        inside = context.module.scopes.scope[node].node is context.module.flow.model
        if not (_BENCH_NAME if inside else _RUN_NAME).search(node.name):
            return False
        return _runs(context, node) or _measures_difference(node)

    def _removal(self, context: Context, node: ast.FunctionDef | ast.ClassDef) -> Fix | None:
        if context.module.scopes.scope[node].kind is not ScopeKind.MODULE or is_read(context, node.name):
            return None
        return removal(context.module, node, "the test code", safe=not node.decorator_list)

    def _own_runs(self, context: Context) -> Iterator[Finding]:
        """Code of the file that builds its own model and runs it."""
        model = context.module.flow.model
        if model is None:
            return
        flow = context.module.flow
        survey = context.module.survey
        for call in (*survey.calls_of_kind(Instance), *survey.calls_of(_GIVEN_BACK)):
            if not isinstance(call.func, (ast.Name, ast.Call)) or flow.on_path(call):
                continue
            if any(_is_model(v, model) for v in context.module.values.of(call.func)) and not _in_class(
                context, call, model
            ):
                yield Finding(call, "the file runs its own model", self.HELP, severity=Severity.WARNING)


def _is_model(value: Value, model: ast.ClassDef) -> bool:
    """The model, also after ``.cuda()``, ``.eval()`` and their like, which give it back."""
    return value == Instance(model) or (isinstance(value, Qual) and value.name in _GIVEN_BACK)


def _is_module(context: Context, node: ast.Attribute, name: str) -> bool:
    return any(isinstance(v, Qual) and v.name == name for v in context.module.values.of(node.value))


def _is_sync(paths: list[str]) -> bool:
    """``threading.Event`` and its like tell no time."""
    return all(path.startswith(("threading.", "multiprocessing.", "asyncio.")) for path in paths)


def _is_test_class(node: ast.AST) -> bool:
    if not isinstance(node, ast.ClassDef):
        return False
    methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
    return node.name.startswith("Test") and any(name.startswith("test") for name in methods)


def _is_helper(context: Context, node: ast.FunctionDef) -> bool:
    """A function with arguments that it only computes with, and that other code of the file uses."""
    arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
    return bool(arguments) and is_read(context, node.name) and not _runs(context, node)


def _runs(context: Context, node: ast.FunctionDef) -> bool:
    """Whether a function builds or calls a model, a kernel or a function that it is given."""
    values, flow = context.module.values, context.module.flow
    launchers = set(flow.launchers(context.framework))
    for call in walk(node):
        if not isinstance(call, ast.Call):
            continue
        for value in values.of(call.func):
            if isinstance(value, Param) and value.function is node:
                return True
            if flow.model is not None and value in (Class(flow.model), Instance(flow.model)):
                return True
            if isinstance(value, Func) and value.node in launchers:
                return True
            if isinstance(value, Qual) and canonical(value.name) in (
                "torch.cuda.synchronize",
                "torch.randn",
                "torch.rand",
            ):
                return True
    return False


def _measures_difference(node: ast.FunctionDef) -> bool:
    return any(isinstance(inner, ast.Call) and _compares(inner) for inner in walk(node))


def _compares(test: ast.expr) -> bool:
    """Whether an assertion compares tensors: a comparer, or the size of a difference."""
    for node in walk(test):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _COMPARERS or (node.func.attr == "equal" and node.args):
                return True
            if node.func.attr in ("abs", "norm", "max", "amax", "mean", "square", "pow"):
                if any(
                    isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub) for inner in walk(node)
                ):
                    return True
    return False


def _in_class(context: Context, node: ast.AST, cls: ast.ClassDef) -> bool:
    return any(above is cls for above in context.module.scopes.ancestors(node))


def _name_of(context: Context, node: ast.FunctionDef | ast.ClassDef) -> ast.AST | Span:
    line = context.module.lines[node.lineno - 1] if node.lineno <= len(context.module.lines) else ""
    start = line.find(node.name, node.col_offset)
    return Span(node.lineno, start + 1, node.lineno, start + 1 + len(node.name)) if start >= 0 else node
