"""KL307."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, cases
from kernel_lint.rules._reads import attribute_reads, is_outside, is_own
from kernel_lint.rules._samples import candidate
from kernel_lint.rules._shallow import ShallowPaths
from kernel_lint.source.domain import Attr, Namespace, Qual, Value

if TYPE_CHECKING:
    from typing import ClassVar

_FRAMES = "looks at the frames of its callers"
_OBJECTS = "searches the objects of the process"
_MAIN = "reaches into the script that runs the file"
_TRACE = "watches what runs"
_MEMORY = "searches the memory that others use"
_SOURCE = "looks into functions"
_FRAME_NAMES = frozenset(
    """f_back f_globals f_locals f_builtins f_code f_lasti f_trace tb_frame tb_next tb_lasti gi_frame cr_frame ag_frame
    __traceback__ __closure__ cell_contents __globals__ __builtins__ co_code co_consts co_names""".split()
)
_CLASS_NAMES = frozenset({"__subclasses__"})


class Introspection(ShallowPaths):
    """
    ## What it does
    Finds code that looks at the program around it: frames of the callers, `gc`, stack walking, tracing hooks, the main
    script, all subclasses of a class, the modules that are loaded, closures, what allocations others hold.

    ## Why is this bad?
    Somewhere in the process lie the expected output and the reference. Code that goes looking for them is not a
    kernel, and a kernel has no other use for any of this.

    ## What is allowed
    `self.modules()`, `inspect.signature`, `__name__` of a function, variables called `frame` or `gc`.

    ## How to fix it
    Remove it. `forward` gets everything it may use as arguments.

    ## Example
    ```python
    expected = inspect.currentframe().f_back.f_locals["ref"]
    ```

    ## References
    - Contract clauses F3 (self-contained) and P3 (the reference is not used).
    - Python, Data model: frame, traceback and code objects.
    """

    code = "KL307"
    name = "introspection"
    clauses = ("F3", "P3")
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        "gc": _OBJECTS,
        "__main__": _MAIN,
        **{f"ctypes.{name}": _OBJECTS for name in "py_object cast pythonapi".split()},
        "_ctypes.PyObj_FromPtr": _OBJECTS,
        "objgraph": _OBJECTS,
        "pympler": _OBJECTS,
        "guppy": _OBJECTS,
        "weakref.getweakrefs": _OBJECTS,
        "tracemalloc": _MEMORY,
        "sys._getframe": _FRAMES,
        "sys._getframemodulename": _FRAMES,
        "sys._current_frames": _FRAMES,
        "sys._current_exceptions": _FRAMES,
        "sys.exc_info": _FRAMES,
        "sys.last_traceback": _FRAMES,
        "sys.last_exc": _FRAMES,
        "sys.getrefcount": _OBJECTS,
        "sys.getobjects": _OBJECTS,
        "sys._clear_type_cache": _OBJECTS,
        **{
            f"sys.{name}": _TRACE
            for name in "settrace setprofile gettrace getprofile addaudithook audit call_tracing monitoring".split()
        },
        **{
            f"threading.{name}": _TRACE
            for name in "settrace setprofile settrace_all_threads setprofile_all_threads".split()
        },
        "threading._active": _OBJECTS,
        **{
            f"inspect.{name}": _FRAMES
            for name in "currentframe stack trace getouterframes getinnerframes getframeinfo getargvalues FrameInfo getmodule".split()
        },
        **{
            f"inspect.{name}": _SOURCE
            for name in """getclosurevars getsource getsourcelines getsourcefile getfile getcomments getmembers getmembers_static
            getattr_static getgeneratorlocals getcoroutinelocals findsource classify_class_attrs getclasstree""".split()
        },
        **{
            f"traceback.{name}": _FRAMES
            for name in """extract_stack format_stack walk_stack walk_tb extract_tb format_tb print_stack StackSummary FrameSummary
            TracebackException format_exc clear_frames""".split()
        },
        "dis": _SOURCE,
        "symtable": _SOURCE,
        "bdb": _TRACE,
        "trace": _TRACE,
        "types.FrameType": _FRAMES,
        "types.TracebackType": _FRAMES,
        "_testinternalcapi": _OBJECTS,
        "_xxsubinterpreters": _OBJECTS,
        "torch._guards": _FRAMES,
        "torch.utils._traceback": _FRAMES,
        "torch._C._profiler": _TRACE,
        "torch.cuda.memory_snapshot": _MEMORY,
        "torch.cuda.memory.memory_snapshot": _MEMORY,
        "torch.cuda.memory._snapshot": _MEMORY,
        "torch.cuda.caching_allocator_alloc": _MEMORY,
        "torch.cuda.caching_allocator_delete": _MEMORY,
        "torch._C._cuda_memorySnapshot": _MEMORY,
        "torch._C._construct_storage_from_data_pointer": _MEMORY,
        "torch._C._construct_CUDA_Tensor_From_Storage_And_Metadata": _MEMORY,
    }
    HELP = "remove it; forward gets everything that it may use as arguments"
    VALID = cases(
        lambda: (
            candidate(init="self.count = len(list(self.modules()))"),
            "def _frames(n):\n    frame = n // 16\n    return frame\n",
            "def f(m, gm):\n    gc = (m + gm - 1) // gm\n    return gc\n",
            "import inspect\nS = inspect.signature(len)\n",
            "def f():\n    return f.__name__ + f.__qualname__\n",
            "class C:\n    f_back = 1\n\nX = C().f_back\n",
            "TEXT = 'gc.get_objects()'\n",
            "import sys\nV = sys.version_info\n",
            "import sys\nM = sys.modules[__name__]\n",
            "def f(d):\n    return [k for k in d.items()]\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("import gc\nT = [o for o in gc.get_objects()]\n", lines=(1, 2)),
            Invalid("import inspect\nf = inspect.currentframe().f_back\n", lines=(2, 2)),
            Invalid("import inspect as i\ns = i.stack()[1]\n", lines=(2,)),
            Invalid("import __main__ as m\nR = getattr(m, 'ref', None)\n", lines=(1, 2)),
            Invalid("import sys\nR = sys.modules['__main__'].ref\n", lines=(2,)),
            Invalid("import sys\nsys.settrace(lambda *a: None)\n", lines=(2,)),
            Invalid("from sys import _getframe as gf\ng = gf(1).f_globals\n", lines=(1, 2)),
            Invalid("import sys\ng = getattr(sys, '_get' + 'frame')(1)\n", lines=(2,)),
            Invalid("def f(frame):\n    return frame.f_back.f_locals['ref']\n", lines=(2, 2)),
            Invalid("def f(g):\n    return getattr(g, 'f_' + 'back')\n", lines=(2,)),
            Invalid(
                "try:\n    1 / 0\nexcept Exception as e:\n    t = e.__traceback__.tb_frame\n", lines=(4, 4)
            ),
            Invalid("import traceback\ns = traceback.extract_stack()\n", lines=(2,)),
            Invalid("import torch.nn as nn\nC = nn.Module.__subclasses__()\n", lines=(2,)),
            Invalid("import sys\nfor m in sys.modules.values():\n    x = m\n", lines=(2,)),
            Invalid("import sys\nM = list(sys.modules)\n", lines=(2,)),
            Invalid("import torch\nF = [k for k in vars(torch)]\n", lines=(2,)),
            Invalid("import torch\nF = dir(torch)\n", lines=(2,)),
            Invalid("def f(g):\n    return g.__closure__[0].cell_contents\n", lines=(2, 2)),
            Invalid("def f(g):\n    return g.__globals__['ref']\n", lines=(2,)),
            Invalid("import torch\nS = torch.cuda.memory_snapshot()\n", lines=(2,)),
            Invalid("import sys\nt = sys.gettrace()\n", lines=(2,)),
            Invalid("import operator\ng = operator.attrgetter('f_back')\n", lines=(2,)),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield forbidden paths, then frames by their attributes and scans of modules."""
        yield from super().check(context)
        for node, name, target in attribute_reads(context, _FRAME_NAMES | _CLASS_NAMES):
            if not is_own(context, target):
                yield Finding(node, f"`{name}` {_OBJECTS if name in _CLASS_NAMES else _FRAMES}", self.HELP)
        yield from self._scans(context)

    def _scans(self, context: Context) -> Iterator[Finding]:
        """Loops over the loaded modules, or over the names of one."""
        scopes, values = context.module.scopes, context.module.values
        seen: set[ast.AST] = set()
        for kind in (ast.For, ast.comprehension):
            for node in scopes.nodes.get(kind, ()):
                seen.add(node.iter)  # type: ignore[attr-defined]
                finding = self._scan(context, node.iter)  # type: ignore[attr-defined]
                if finding is not None:
                    yield finding
        for call in context.module.survey.calls_of({"builtins.dir", *_TAKERS}):
            names = [v.name for v in values.of(call.func) if isinstance(v, Qual)]
            if call.args and "builtins.dir" in names and any(is_outside(v) for v in values.of(call.args[0])):
                yield Finding(call, f"`dir` of a module {_OBJECTS}", self.HELP)
            elif call.args and call.args[0] not in seen and any(n in _TAKERS for n in names):
                finding = self._scan(context, call.args[0])
                if finding is not None:
                    yield finding

    def _scan(self, context: Context, iterated: ast.expr) -> Finding | None:
        for value in context.module.values.of(iterated):
            if _is_module_table(value):
                return Finding(iterated, f"going through the loaded modules {_OBJECTS}", self.HELP)
            if _is_own_table(value):
                return Finding(
                    iterated, "going through the names of this module", self.HELP, severity=Severity.INFO
                )
            space = value.base if isinstance(value, Attr) else value
            if isinstance(space, Namespace) and space.base is not None and is_outside(space.base):
                return Finding(
                    iterated,
                    f"going through the names of a module {_OBJECTS}",
                    self.HELP,
                    severity=Severity.WARNING,
                )
            if (
                isinstance(value, Attr)
                and isinstance(value.base, Attr)
                and isinstance(value.base.base, Namespace)
            ):
                inner = value.base.base.base
                if inner is not None and is_outside(inner):
                    return Finding(
                        iterated,
                        f"going through the names of a module {_OBJECTS}",
                        self.HELP,
                        severity=Severity.WARNING,
                    )
        return None


def _is_own_table(value: Value) -> bool:
    while isinstance(value, Attr) and value.name in ("()", "items", "values", "keys", "copy"):
        value = value.base
    return isinstance(value, Namespace) and value.base is None


def _is_module_table(value: Value) -> bool:
    return isinstance(value, Qual) and (
        value.name == "sys.modules"
        or value.name.startswith(
            ("sys.modules.values", "sys.modules.items", "sys.modules.keys", "sys.modules.copy")
        )
    )


_TAKERS = frozenset(
    f"builtins.{name}" for name in "list tuple set sorted dict map filter iter enumerate next any all".split()
)
