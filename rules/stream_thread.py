"""KL303."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import chain

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Severity
from kernel_lint.rule import Context, Finding, Invalid, cases
from kernel_lint.rules._paths import shown
from kernel_lint.rules._samples import candidate
from kernel_lint.rules._shallow import ShallowPaths
from kernel_lint.source.references import Reference
from kernel_lint.source.scopes import FunctionNode, ScopeKind

if TYPE_CHECKING:
    from typing import ClassVar

_STREAM = "puts work on another stream than the one that is measured"
_THREAD = "runs work beside the call that is measured"
_PROCESS = "runs work in another process"
_LATER = "runs work after the call that is measured"
_GRAPH = "records work to run it again"
_STREAM_METHODS = frozenset({"wait_stream", "wait_event", "record_stream", "record_event"})
_DONE_BY_HAND = "takes part in ordering streams by hand"


class StreamThread(ShallowPaths):
    """
    ## What it does
    Finds work that is not done when `forward` returns on the current stream: other streams, events that order them,
    CUDA graphs, threads, processes, event loops, timers, signals, exit handlers, finalizers, coroutines.

    ## Why is this bad?
    The evaluator measures the current stream. Work on another stream or thread is not in the time, and the output may be
    read before it is written: it passes on one machine and fails on the next.

    ## What is allowed
    `torch.cuda.current_stream()`, a parameter called `stream`, locks (`threading.Lock`, `RLock`) around a cache of
    compiled launchers, `torch.cuda.synchronize()`.

    ## How to fix it
    Launch on `torch.cuda.current_stream()` from `Model.forward`.

    ## Example
    ```python
    s = torch.cuda.Stream()
    _scale(x, y, x.numel(), stream=s)
    ```

    ## Use instead
    ```python
    _scale(x, y, x.numel(), stream=torch.cuda.current_stream())
    ```

    ## References
    - Contract clause P1: the work is launched from `Model.forward`.
    - PyTorch, CUDA semantics: streams.
    """

    code = "KL303"
    name = "stream-thread"
    clauses = ("P1",)
    FORBIDDEN: ClassVar[Mapping[str, str]] = {
        **{
            f"torch.cuda.{name}": _STREAM
            for name in "Stream ExternalStream StreamContext stream set_stream default_stream streams get_stream_from_external".split()
        },
        **{
            f"torch.{name}": _STREAM
            for name in "Stream accelerator.set_stream xpu.Stream xpu.stream mtia.Stream hip.Stream".split()
        },
        "torch.cuda.Event": _DONE_BY_HAND,
        "torch.Event": _DONE_BY_HAND,
        "torch.cuda._sleep": "keeps the device busy",
        "torch._C._cuda_setStream": _STREAM,
        "torch._C._CudaStreamBase": _STREAM,
        "torch._C._cuda_getStreamFromExternal": _STREAM,
        "torch._C.Stream": _STREAM,
        "cupy.cuda.Stream": _STREAM,
        **{
            f"torch.cuda.{name}": _GRAPH
            for name in "CUDAGraph graph graphs make_graphed_callables graph_pool_handle".split()
        },
        "torch._C._CUDAGraph": _GRAPH,
        **{
            f"threading.{name}": _THREAD
            for name in """Thread Timer Event Condition Semaphore BoundedSemaphore Barrier _start_new_thread
            start_joinable_thread active_count enumerate main_thread current_thread get_ident excepthook
            setprofile settrace stack_size _register_atexit _shutdown""".split()
        },
        **{
            f"_thread.{name}": _THREAD
            for name in "start_new_thread start_new start_joinable_thread interrupt_main".split()
        },
        **dict.fromkeys(
            "queue _queue sched concurrent asyncio selectors select trio anyio gevent greenlet eventlet curio uvloop".split(),
            _THREAD,
        ),
        **dict.fromkeys(
            "multiprocessing _multiprocessing joblib ray dask mpi4py pathos multiprocess billiard".split(),
            _PROCESS,
        ),
        "os.fork": _PROCESS,
        "os.forkpty": _PROCESS,
        "os.register_at_fork": _LATER,
        "torch.multiprocessing": _PROCESS,
        "torch.distributed": _PROCESS,
        "torch.nn.DataParallel": _THREAD,
        "torch.nn.parallel": _THREAD,
        "torch.utils.data": _PROCESS,
        "torch.futures": _LATER,
        "torch.jit.fork": _THREAD,
        "torch.jit._async": _THREAD,
        "torch._C.Future": _LATER,
        "atexit": _LATER,
        "weakref.finalize": _LATER,
        "gc.callbacks": _LATER,
        "signal": _LATER,
        "sys.setswitchinterval": _THREAD,
        "faulthandler.dump_traceback_later": _LATER,
        "tkinter": _THREAD,
    }
    TYPES = frozenset(
        {"torch.cuda.Stream", "torch.Stream", "torch.cuda.Event", "torch.Event", "torch.cuda.ExternalStream"}
    )
    HELP = "launch on torch.cuda.current_stream() from Model.forward, and nothing else"
    VALID = cases(
        lambda: (
            candidate(),
            "import threading\nLOCK = threading.Lock()\nR = threading.RLock()\n\ndef f():\n    with LOCK:\n        return R\n",
            "import torch\ndef f(g, stream=None):\n    g(stream=stream or torch.cuda.current_stream())\n",
            "class Thread:\n    pass\n\nT = Thread()\n",
            "import flydsl.expr as fx\ndef f():\n    return fx.thread_idx.x\n",
            "import weakref\nW = weakref.WeakKeyDictionary()\n",
            "def stream(queue):\n    return queue.pop()\n",
            "TEXT = 'torch.cuda.Stream()'\n",
            "import torch\nS = torch.cuda.current_stream().cuda_stream\n",
            "import threading\nL = threading.local()\n",
            "import torch\nfrom typing import Optional\ndef f(s: Optional[torch.cuda.Stream] = None) -> torch.cuda.Stream:\n    return s\n",
            "import torch\ndef f(s):\n    return isinstance(s, torch.cuda.Stream)\n",
            "from torch.cuda import Stream\ndef f(s: 'Stream | None', t: Stream) -> int:\n    return 1\n",
        )
    )
    INVALID = cases(
        lambda: (
            Invalid("import torch\ns = torch.cuda.Stream()\n", lines=(2,)),
            Invalid("import torch\nwith torch.cuda.stream(None):\n    pass\n", lines=(2,)),
            Invalid("from torch.cuda import Stream as S\n", lines=(1,)),
            Invalid("import torch\ns = getattr(torch.cuda, 'Str' + 'eam')()\n", lines=(2,)),
            Invalid("import torch\ns = torch.cuda.ExternalStream(0)\n", lines=(2,)),
            Invalid("import threading\nt = threading.Thread(target=id)\nt.start()\n", lines=(2,)),
            Invalid("import threading as th\nth.Timer(1, id).start()\n", lines=(2,)),
            Invalid("import multiprocessing as mp\nQ = mp.Queue()\n", lines=(1, 2)),
            Invalid(
                "from concurrent.futures import ThreadPoolExecutor\nP = ThreadPoolExecutor(1)\n", lines=(1,)
            ),
            Invalid("import _thread\n_thread.start_new_thread(id, (1,))\n", lines=(2,)),
            Invalid("import asyncio\n", lines=(1,)),
            Invalid("import atexit\natexit.register(id)\n", lines=(1, 2)),
            Invalid("import weakref\nweakref.finalize(id, id)\n", lines=(2,)),
            Invalid("import weakref\nR = weakref.ref(id, lambda r: 1)\n", lines=(2,)),
            Invalid("import torch\ng = torch.cuda.CUDAGraph()\n", lines=(2,)),
            Invalid("async def f():\n    return 1\n", lines=(1,)),
            Invalid("class C:\n    def __del__(self):\n        self.run()\n", lines=(2,)),
            Invalid("def f(y, s):\n    y.record_stream(s)\n", lines=(2,)),
            Invalid("import importlib\nt = importlib.import_module('thread' + 'ing').Thread\n", lines=(2,)),
            Invalid("import torch\ne = torch.cuda.Event()\n", lines=(2,)),
            Invalid("import signal\n", lines=(1,)),
            Invalid("import os\np = os.fork()\n", lines=(2,)),
        )
    )

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield forbidden paths, then coroutines, finalizers and callbacks of weak references."""
        yield from super().check(context)
        scopes, values = context.module.scopes, context.module.values
        for node in scopes.nodes.get(ast.AsyncFunctionDef, ()):
            yield Finding(node, f"a coroutine {_LATER}", self.HELP)
        for function in scopes.of_type(ast.FunctionDef):
            if (
                function.name == "__del__"
                and scopes.scope[function].kind is ScopeKind.CLASS
                and _acts(function)
            ):
                yield Finding(function, f"`__del__` {_LATER}", self.HELP, severity=Severity.WARNING)
        for call in chain.from_iterable(map(values.sites.calls_named, _STREAM_METHODS)):
            if isinstance(call.func, ast.Attribute):
                yield Finding(
                    call.func, f"`{call.func.attr}` {_DONE_BY_HAND}", self.HELP, severity=Severity.WARNING
                )
        for call in context.module.survey.calls_of(("weakref.ref", "weakref.proxy")):
            if len(call.args) > 1:
                yield Finding(call, f"the callback of a weak reference {_LATER}", self.HELP)

    def finding(self, context: Context, reference: Reference, why: str) -> Finding | None:
        """Events only order work: a warning."""
        severity = Severity.WARNING if why == _DONE_BY_HAND else None
        return Finding(reference.node, f"`{shown(reference.path)}` {why}", self.HELP, None, severity)


def _acts(function: FunctionNode) -> bool:
    """Whether a finalizer does anything but set or delete attributes."""
    body = function.body if isinstance(function.body, list) else [function.body]
    return any(isinstance(node, ast.Call) for node in chain.from_iterable(map(ast.walk, body)))
