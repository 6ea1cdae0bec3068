"""KL306."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import chain

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, cases
from kernel_lint.rules._counters import call_counters
from kernel_lint.rules._paths import shown
from kernel_lint.rules._samples import candidate
from kernel_lint.rules._shallow import ShallowPaths
from kernel_lint.source.domain import Attr, Class, Container, Func, Instance, Param, Qual, Value
from kernel_lint.source.references import Reference
from kernel_lint.source.scopes import Binding, BindingKind, ScopeKind

if TYPE_CHECKING:
    from typing import ClassVar

_ENVIRONMENT = "reads or sets the environment"
_HOST = "tells one machine or user from another"
_PLACE = "tells where the file runs"
_CALLER = "tells who calls"
_TIME = "depends on the time"
_CHANCE = "depends on chance"
_MODE = "tells one way of calling the model from another"
_MEASURED = "tells whether the run is being measured"
_EXISTS = frozenset({"exists", "is_file", "is_dir", "is_symlink", "cwd", "home", "resolve", "absolute"})
_IDENTITY = ("data_ptr", "untyped_storage", "storage", "_version", "_cdata", "__hash__")
_DIFFERENCES = frozenset({ast.Sub, ast.BitXor})


class EnvDetect(ShallowPaths):
    """
    ## What it does
    Finds behaviour that depends on where, when, how often and by whom the model is called: environment variables, host
    and user names, existing files, the working directory, loaded modules, the call stack, the clock, random choices, addresses
    of inputs compared between calls, counters of calls that switch what is done.

    ## Why is this bad?
    A kernel computes the same for the same inputs. Code that asks such questions can be right while it is checked and
    fast while it is measured.

    ## What is allowed
    The properties of the device (to choose a tile), `x.is_cuda`, `x.dtype`, alignment of `x.data_ptr()`, a check that two
    inputs are the same memory, `sys.version_info`, `sys.platform`, a count of calls that nothing depends on.

    ## How to fix it
    Decide from the inputs and from the device only.

    ## Example
    ```python
    if "pytest" in sys.modules:
        _scale(x, y, x.numel())
    ```

    ## References
    - Contract clauses F3 (self-contained) and P7 (the same output as the reference).
    """

    code = "KL306"
    name = "env-detect"
    clauses = ("F3", "P7")
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        **{f"os.{name}": _ENVIRONMENT for name in "environ environb getenv getenvb putenv unsetenv".split()},
        "dotenv": _ENVIRONMENT,
        "decouple": _ENVIRONMENT,
        **{
            f"os.{name}": _HOST
            for name in """uname getlogin getuid geteuid getgid getpid getppid getpgid getsid cpu_count getloadavg sched_getaffinity
            process_cpu_count ctermid ttyname isatty get_terminal_size confstr sysconf""".split()
        },
        **{f"os.{name}": _PLACE for name in "getcwd getcwdb chdir".split()},
        **{
            f"os.path.{name}": _PLACE
            for name in """exists lexists isfile isdir islink ismount abspath realpath expanduser expandvars getsize getmtime getctime
            getatime samefile""".split()
        },
        **dict.fromkeys(
            "platform socket getpass pwd grp locale psutil cpuinfo GPUtil pynvml amdsmi rocm_smi distro".split(),
            _HOST,
        ),
        "sys.modules": _CALLER,
        "sys.argv": _CALLER,
        "sys.orig_argv": _CALLER,
        "sys.flags": _CALLER,
        "sys.warnoptions": _CALLER,
        "sys._xoptions": _CALLER,
        "sys.ps1": _CALLER,
        "sys.stdin": _CALLER,
        "sys.executable": _HOST,
        "sys.prefix": _HOST,
        "sys.base_prefix": _HOST,
        "sys.gettrace": _MEASURED,
        "sys.getprofile": _MEASURED,
        "sys.getrefcount": _CALLER,
        "sys._getframe": _CALLER,
        "sys._current_frames": _CALLER,
        "sys.is_finalizing": _CALLER,
        "inspect.stack": _CALLER,
        "inspect.currentframe": _CALLER,
        "inspect.getouterframes": _CALLER,
        "inspect.trace": _CALLER,
        "traceback.extract_stack": _CALLER,
        "traceback.format_stack": _CALLER,
        "traceback.walk_stack": _CALLER,
        "importlib.util.find_spec": _CALLER,
        "pkgutil.iter_modules": _CALLER,
        **{
            f"threading.{name}": _CALLER
            for name in "current_thread main_thread active_count enumerate get_ident get_native_id".split()
        },
        "multiprocessing.current_process": _CALLER,
        "multiprocessing.parent_process": _CALLER,
        **{
            f"time.{name}{suffix}": _TIME
            for name in "time perf_counter monotonic process_time thread_time clock_gettime".split()
            for suffix in ("", "_ns")
        },
        **{f"time.{name}": _TIME for name in "localtime gmtime ctime strftime asctime".split()},
        **{f"datetime.datetime.{name}": _TIME for name in "now utcnow today fromtimestamp".split()},
        "datetime.date.today": _TIME,
        **dict.fromkeys("random secrets uuid".split(), _CHANCE),
        "os.urandom": _CHANCE,
        "os.getrandom": _CHANCE,
        "numpy.random": _CHANCE,
        "torch.initial_seed": _CHANCE,
        "torch.random.initial_seed": _CHANCE,
        "torch.get_rng_state": _CHANCE,
        "torch.random.get_rng_state": _CHANCE,
        "torch.cuda.get_rng_state": _CHANCE,
        "torch.cuda.initial_seed": _CHANCE,
        **{
            f"torch.{name}": _MEASURED
            for name in """autograd._profiler_enabled _C._autograd._profiler_enabled autograd.profiler._is_profiler_enabled
            cuda.is_current_stream_capturing cuda.graphs.is_current_stream_capturing cuda.utilization cuda.temperature
            cuda.power_draw cuda.clock_rate cuda.memory_usage cuda.list_gpu_processes cuda.memory_allocated
            cuda.memory_reserved cuda.mem_get_info cuda.max_memory_allocated cuda.memory.memory_allocated""".split()
        },
        "torch.is_grad_enabled": _MODE,
        "torch.is_inference_mode_enabled": _MODE,
        "torch.is_inference": _MODE,
        "builtins.__debug__": _MODE,
        "torch.utils.collect_env": _HOST,
        "torch.utils.data.get_worker_info": _CALLER,
    }
    HELP = "decide from the inputs and the device only"
    VALID = cases(
        lambda: (
            "import torch\ndef tile(d):\n    return 256 if torch.cuda.get_device_properties(d).multi_processor_count > 200 else 128\n",
            candidate(before="wide = x.dtype == torch.float32\nn = x.numel() if wide else x.numel()"),
            candidate(before="if not x.is_cuda:\n    raise RuntimeError('device tensor expected')"),
            candidate(before="if x.data_ptr() % 16:\n    raise ValueError('alignment')"),
            candidate(after="self.calls = getattr(self, 'calls', 0) + 1"),
            candidate(init="self.calls = 0", before="self.calls += 1"),
            candidate(before="if x.data_ptr() == y.data_ptr():\n    raise ValueError('same memory')"),
            candidate(
                init="self.pos = 0",
                before="self.pos += 1\nif self.pos > self.dim:\n    raise ValueError('full')",
            ),
            "import sys\nNEW = sys.version_info >= (3, 10)\n",
            "import os\nP = os.path.join('a', 'b')\n",
            "import torch\nHIP = torch.version.hip is not None\n",
            "environ = {}\nenviron['a'] = 1\n",
            "import time\n",
            candidate(init="self.ws = None", before="if self.ws is None:\n    self.ws = torch.empty(4)"),
            "def f(n):\n    count = 0\n    for i in range(n):\n        count += 1\n        if count > 4:\n            break\n    return count\n",
            "TEXT = 'os.environ'\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("import os\nF = os.environ.get('EVAL')\n", lines=(2,)),
            Invalid("from os import getenv\nF = getenv('EVAL')\n", lines=(1,)),
            Invalid("import os\nos.environ['HIP_VISIBLE_DEVICES'] = '0'\n", lines=(2,)),
            Invalid(
                "import inspect\nB = any('benchmark' in f.filename for f in inspect.stack())\n", lines=(2,)
            ),
            Invalid("import sys\nT = 'pytest' in sys.modules\n", lines=(2,)),
            Invalid("import sys\nT = getattr(sys, 'mod' + 'ules')\n", lines=(2,)),
            Invalid("import os\nE = os.path.exists('shapes.json')\n", lines=(2,)),
            Invalid("from pathlib import Path\nE = Path('shapes.json').exists()\n", lines=(2,)),
            Invalid("import os\nE = os.getcwd().endswith('eval')\n", lines=(2,)),
            Invalid("import time\nT0 = time.time()\n", lines=(2,)),
            Invalid("import random\nR = random.random() < 0.5\n", lines=(1, 2)),
            Invalid("import platform\nN = platform.node()\n", lines=(1, 2)),
            Invalid("import socket\nN = socket.gethostname()\n", lines=(1, 2)),
            Invalid("import sys\nT = sys.gettrace() is not None\n", lines=(2,)),
            Invalid("import torch\nC = torch.cuda.is_current_stream_capturing()\n", lines=(2,)),
            Invalid(
                candidate(init="self._p = 0", before="warm = x.data_ptr() == self._p\nself._p = x.data_ptr()")
            ),
            Invalid(
                candidate(init="self._p = 0", before="p = x.data_ptr()\nif p != self._p:\n    self._p = p")
            ),
            Invalid(
                candidate(
                    top="_SEEN = set()\n\n", before="if id(x) in _SEEN:\n    return y\n_SEEN.add(id(x))"
                )
            ),
            Invalid(candidate(init="self._x = None", before="if x is self._x:\n    return y\nself._x = x")),
            Invalid(
                candidate(init="self.calls = 0", before="self.calls += 1\nif self.calls > 3:\n    return y")
            ),
            Invalid(
                candidate(
                    init="self.calls = 0",
                    before="self.calls = self.calls + 1\nif self.calls % 10 == 0:\n    return y",
                )
            ),
            Invalid(candidate(top="_N = 0\n\n", before="global _N\n_N += 1\nif _N > 3:\n    return y")),
            Invalid(candidate(top="_S = {'n': 0}\n\n", before="_S['n'] += 1\nif _S['n'] > 3:\n    return y")),
            Invalid(
                candidate(
                    top="import itertools\n\n_IT = itertools.count()\n\n",
                    before="if next(_IT) > 3:\n    return y",
                )
            ),
            Invalid(
                candidate(
                    init="self.log = []", before="self.log.append(1)\nif len(self.log) > 3:\n    return y"
                )
            ),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield forbidden paths, questions to paths, identities kept between calls, and counters of calls."""
        yield from super().check(context)
        attributes = context.module.scopes.attributes
        for node in chain.from_iterable(attributes[name] for name in attributes.keys() & _EXISTS):
            if any(_of_path(v) for v in context.module.values.of(node)):
                yield Finding(node, f"`{node.attr}` of a path {_PLACE}", self.HELP)
        for compare in context.module.flow.on_path_of(ast.Compare):
            if _compares_calls(context, compare):
                yield Finding(compare, "an input is compared with that of an earlier call", self.HELP)
        yield from self._asked(context)
        for place in call_counters(context):
            yield Finding(place, "what is done depends on how often the model was called", self.HELP)

    def _asked(self, context: Context) -> Iterator[Finding]:
        """An identity looked up in, or subtracted from, what outlives the call."""
        flow = context.module.flow
        for call in chain.from_iterable(
            map(context.module.values.sites.calls_named, ("get", "__contains__"))
        ):
            if isinstance(call.func, ast.Attribute) and call.args and flow.on_path(call):
                if _is_identity(context, call.args[0]) and _outlives(context, call.func.value):
                    yield Finding(call, "an input is looked up among those of earlier calls", self.HELP)
        for pair in context.module.scopes.of_type(ast.BinOp):
            if pair.op.__class__ in _DIFFERENCES and flow.on_path(pair):
                sides = (pair.left, pair.right)
                if any(
                    _outlives(context, a) and _is_identity(context, b) and not _outlives(context, b)
                    for a, b in (sides, sides[::-1])
                ):
                    yield Finding(pair, "an input is compared with that of an earlier call", self.HELP)

    def finding(self, context: Context, reference: Reference, why: str) -> Finding | None:
        """``sys.modules[__name__]`` is the file itself; an import alone asks nothing."""
        if reference.path == "sys.modules" and _is_own_module(context, reference.node):
            return None
        severity = (
            Severity.WARNING
            if "stream_capturing" in reference.path
            else Severity.INFO
            if why == _MODE
            else None
        )
        return Finding(reference.node, f"`{shown(reference.path)}` {why}", self.HELP, None, severity)


def _is_own_module(context: Context, node: ast.AST) -> bool:
    parent = context.module.scopes.parent.get(node)
    return isinstance(parent, ast.Subscript) and Qual("__name__") in context.module.values.of(parent.slice)


def _of_path(value: Value) -> bool:
    return isinstance(value, Qual) and value.name.startswith(
        ("pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath")
    )


def _compares_calls(context: Context, node: ast.Compare) -> bool:
    """Whether an identity of an input is compared with something that outlives the call."""
    operands = [node.left, *node.comparators]
    kept = [operand for operand in operands if _outlives(context, operand)]
    if kept and any(_is_identity(context, operand) for operand in operands if operand not in kept):
        return True
    if not all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
        return False
    inputs = [operand for operand in operands if _is_input(context, operand)]
    return bool(inputs) and any(
        _keeps_input(context, operand) for operand in operands if operand not in inputs
    )


def _is_identity(context: Context, node: ast.expr) -> bool:
    """An address, an id or a version of a tensor, alone or in a tuple."""
    if isinstance(node, ast.Tuple):
        return any(_is_identity(context, part) for part in node.elts)
    found = context.module.values.of(node)
    tuples = [
        v.node
        for v in found
        if isinstance(v, Container) and isinstance(v.node, ast.Tuple) and v.node is not node
    ]
    return any(_names_identity(context, value) for value in found) or any(
        _is_identity(context, inner) for inner in tuples
    )


def _names_identity(context: Context, value: Value) -> bool:
    if isinstance(value, Qual):
        if value.name in ("builtins.id()", "builtins.hash()"):
            return True
        if _is_weight(value):
            return False
        return value.name.startswith("torch.") and value.name.endswith(
            tuple(f".{name}()" for name in _IDENTITY)
        )
    while isinstance(value, Attr):
        if value.name in _IDENTITY:
            return not _gets_weights(context, value.base)
        if value.name not in ("()", "[]"):
            return False
        value = value.base
    return False


def _is_weight(value: Value) -> bool:
    """A parameter of the model: what is made of it may be kept while it stays the same."""
    return isinstance(value, Qual) and value.name.startswith("torch.nn.")


def _gets_weights(context: Context, value: Value) -> bool:
    """Whether a parameter of a helper is given nothing but weights."""
    if not isinstance(value, Param):
        return False
    values = context.module.values
    passed = values.sites.argument_nodes(value.function, value.name)
    return bool(passed) and all(bool(values.of(a)) and all(map(_is_weight, values.of(a))) for a in passed)


def _outlives(context: Context, node: ast.expr) -> bool:
    """An attribute of the model, or something that the module keeps."""
    if isinstance(node, ast.Subscript):
        return _outlives(context, node.value)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("get", "keys", "values", "items")
    ):
        return _outlives(context, node.func.value)
    if isinstance(node, ast.Attribute):
        owners = context.module.values.of(node.value)
        return any(isinstance(owner, (Instance, Class, Func)) for owner in owners)
    if isinstance(node, ast.Name):
        found = context.module.scopes.scope[node].lookup(node.id)
        if found is None or found[0].kind is ScopeKind.MODULE:
            return found is not None
        return any(_holds_kept(context, binding) for binding in found[1])
    return False


def _holds_kept(context: Context, binding: Binding) -> bool:
    """``seen = self.seen``, also as one of several: a name for what outlives the call."""
    value = binding.value
    if binding.kind is not BindingKind.ASSIGN or len(binding.path) > 1:
        return False
    if binding.path:
        step = binding.path[0]
        known = isinstance(value, (ast.Tuple, ast.List)) and isinstance(step, int) and step < len(value.elts)
        value = value.elts[step] if known else None  # type: ignore[union-attr]
    return isinstance(value, ast.Attribute) and _outlives(context, value)


def _is_input(context: Context, node: ast.expr) -> bool:
    entries = context.module.flow.entries
    return isinstance(node, ast.Name) and any(
        isinstance(value, Param) and value.function in entries for value in context.module.values.of(node)
    )


def _keeps_input(context: Context, node: ast.expr) -> bool:
    """An attribute (or a name of the module) that an input is stored in."""
    if not _outlives(context, node):
        return False
    entries = context.module.flow.entries
    return any(
        isinstance(value, Param) and value.function in entries for value in context.module.values.of(node)
    )
