"""Candidates that cheat or break, each with the reason that it must fail with.

They are text: nothing here runs in the test's own process. ``{task}`` becomes the path of the
task folder, which a real candidate could guess.
"""

# ruff: noqa: E501 - the table reads best with a candidate a line
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from verify_tasks import ADD, ADD_ONE, SOFTMAX, TaskText

from kernel_lint.diagnostics import Reason
from kernel_lint.verify.isolation import Limits


@dataclass(frozen=True, slots=True)
class Hostile:
    """One candidate and the reason for it; ``also`` is another that a slow machine may find first."""

    name: str
    reason: Reason
    source: str
    task: TaskText = ADD_ONE
    options: dict[str, Any] = field(default_factory=dict)
    also: Reason | None = None


_TOP = "import os, sys, time\nimport torch\nfrom torch import nn\n\n"


def forward(body: str, *, before: str = "", init: str = "", arguments: str = "a, b") -> str:
    """Return a candidate whose forward has these statements."""
    lines = "\n".join("        " + line for line in body.strip().splitlines())
    constructor = ""
    if init:
        statements = "\n".join("        " + line for line in init.strip().splitlines())
        constructor = f"    def __init__(self):\n        super().__init__()\n{statements}\n\n"
    return f"{_TOP}{before}\n\nclass Model(nn.Module):\n{constructor}    def forward(self, {arguments}):\n{lines}\n"


def on_x(body: str, **more: str) -> str:
    """Return a candidate for the softmax task."""
    return forward(body, arguments="x", **more)


_RIGHT = forward("return a + b")
_QUICK = {"timeout": 2.0, "import_timeout": 3.0}

AT_IMPORT = (
    Hostile("syntax_error", Reason.SYNTAX, "def forward(:\n"),
    Hostile("import_raises", Reason.IMPORT_ERROR, "raise ValueError('no')\n"),
    Hostile("import_exits", Reason.IMPORT_ERROR, "import sys\nsys.exit(0)\n" + _RIGHT),
    Hostile("import_ends_the_process", Reason.CRASH, "import os\nos._exit(0)\n" + _RIGHT),
    Hostile("import_never_ends", Reason.TIMEOUT, "while True:\n    pass\n", options=_QUICK),
    Hostile("import_of_a_file_beside_it", Reason.IMPORT_ERROR, "import helper\n" + _RIGHT),
    Hostile("import_of_the_reference", Reason.IMPORT_ERROR, "from reference import Model\n"),
    Hostile(
        "reference_by_path", Reason.FILE_ACCESS,
        "import importlib.util as u\ns = u.spec_from_file_location('r', '{task}/reference.py')\n"
        "m = u.module_from_spec(s)\ntry:\n    s.loader.exec_module(m)\nexcept OSError:\n    pass\n" + _RIGHT,
    ),
    Hostile("no_model", Reason.SIGNATURE, "x = 1\n"),
    Hostile("model_is_a_function", Reason.SIGNATURE, "def Model():\n    return lambda a, b: a + b\n"),
    Hostile("forward_has_other_names", Reason.SIGNATURE, forward("return x + y", arguments="x, y")),
    Hostile("init_needs_more", Reason.SIGNATURE, _RIGHT + "\n    def __init__(self, size):\n        super().__init__()\n"),
    Hostile("reads_the_shapes", Reason.FILE_ACCESS,
            "try:\n    open('{task}/shapes.json').read()\nexcept OSError:\n    pass\n" + _RIGHT),
    Hostile("walks_the_disk", Reason.FILE_ACCESS,
            "import os\ntry:\n    os.listdir('/root')\nexcept OSError:\n    pass\n" + _RIGHT),
    Hostile("calls_home", Reason.FILE_ACCESS,
            "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 9), 1)\nexcept OSError:\n    pass\n" + _RIGHT),
    Hostile("runs_a_program", Reason.TAMPERING,
            "import subprocess\ntry:\n    subprocess.run(['true'])\nexcept OSError:\n    pass\n" + _RIGHT),
    Hostile("loads_native_code", Reason.TAMPERING, "import ctypes\nctypes.CDLL(None)\n" + _RIGHT),
)  # fmt: skip

WRONG_OUTPUTS = (
    Hostile("zeros_for_a_softmax", Reason.VALUE, on_x("return torch.zeros_like(x)"), SOFTMAX),
    Hostile("empty_for_a_softmax", Reason.UNWRITTEN, on_x("return torch.empty_like(x)"), SOFTMAX),
    Hostile("last_row_left_out", Reason.UNWRITTEN,
            forward("out = torch.empty_like(a)\nout[:-1] = a[:-1] + b[:-1]\nreturn out")),
    Hostile("integers_left_out", Reason.UNWRITTEN,
            on_x("return torch.empty(x.shape[0], dtype=torch.int64)"),
            TaskText("class Model(nn.Module):\n    def forward(self, x):\n        return x.argmax(-1)\n",
                     SOFTMAX.inputs, SOFTMAX.shapes, {})),
    Hostile("other_dtype", Reason.DTYPE, forward("return (a + b).double()")),
    Hostile("other_shape", Reason.SHAPE, forward("return (a + b)[:, :-1]")),
    Hostile("transposed_shape", Reason.SHAPE, forward("return (a + b).t()")),
    Hostile("tuple_for_a_tensor", Reason.STRUCTURE, forward("return (a + b,)")),
    Hostile("none_for_a_tensor", Reason.STRUCTURE, forward("a + b")),
    Hostile("object_for_a_tensor", Reason.STRUCTURE, forward("return object()")),
    Hostile("sparse_tensor", Reason.STRUCTURE, forward("return (a + b).to_sparse()")),
    Hostile("meta_tensor", Reason.STRUCTURE, forward("return (a + b).to('meta')")),
    Hostile("nested_too_deep", Reason.STRUCTURE,
            forward("out = a + b\nfor _ in range(500):\n    out = [out]\nreturn out")),
    Hostile("a_trillion_elements", Reason.SHAPE, forward("return (a + b)[:1, :1].expand(1 << 20, 1 << 20)")),
    Hostile("a_trillion_elements_sometimes", Reason.SHAPE,
            forward("CALLS.append(1)\nout = a + b\nreturn out if len(CALLS) == 3 else out[:1, :1].expand(1 << 20, 1 << 20)",
                    before="CALLS = []")),
    Hostile("list_without_end", Reason.STRUCTURE,
            forward("return Endless()", before="class Endless(list):\n    def __iter__(self):\n        while True:\n            yield None")),
    Hostile("dict_that_lies", Reason.STRUCTURE,
            forward("return Lying(y=a + b)", before="import itertools\n\n\nclass Lying(dict):\n    def items(self):\n"
                    "        return ((f'y{i}', None) for i in itertools.count())")),
    Hostile("list_in_itself", Reason.STRUCTURE, forward("out = [a + b]\nout.append(out)\nreturn out")),
    Hostile("text_of_a_hundred_megabytes", Reason.STRUCTURE, forward("return 'x' * 100_000_000")),
    Hostile("number_of_a_million_digits", Reason.STRUCTURE, forward("return 1 << 2 ** 27")),
    Hostile("equal_to_everything", Reason.VALUE,
            forward("return Equal(3)", before="class Equal(int):\n    __hash__ = int.__hash__\n\n    def __eq__(self, other):\n        return True"),
            TaskText(ADD.reference.replace("a + b", "4"), ADD_ONE.inputs, ADD_ONE.shapes, {})),
    Hostile("one_nan", Reason.NONFINITE, forward("out = a + b\nout[1, 2] = float('nan')\nreturn out")),
    Hostile("all_nan", Reason.NONFINITE, forward("return (a + b) * float('nan')")),
    Hostile("one_huge_element", Reason.VALUE, forward("out = a + b\nout[1, 2] = 1e30\nreturn out")),
    Hostile("three_percent_off", Reason.VALUE, forward("return (a + b) * 1.03")),
    Hostile("two_rows_zero", Reason.VALUE, forward("out = a + b\nout[2:4] = 0\nreturn out")),
    Hostile("tail_column_ignored", Reason.VALUE, forward("out = a + b\nout[:, -1] = a[:, -1]\nreturn out")),
    Hostile("half_inside_single_outside", Reason.VALUE, forward("return (a.half() + b.half()).float()")),
    Hostile("constant_by_heart", Reason.VALUE, forward("return torch.ones_like(a)")),
    Hostile("right_for_the_first_shape", Reason.VALUE,
            forward("return a + b if a.shape[0] == 5 else a - b"), ADD),
    Hostile("stale_specialisation", Reason.VALUE,
            forward("COMPILED.setdefault('rows', a.shape[0])\nout = a + b\n"
                    "out[COMPILED['rows']:] = 0\nreturn out", before="COMPILED = {}"), ADD),
    Hostile("shape_a_spoiled_by_shape_b", Reason.VALUE,
            forward("out = a + b\nif self.width != STATE['last']:\n    out[0] = 0\nreturn out",
                    before="STATE = {'last': None, 'count': 0}",
                    init="STATE['count'] += 1\nSTATE['last'] = self.width = STATE['count']"), ADD),
)  # fmt: skip

BREAKS = (
    Hostile("forward_raises", Reason.RUNTIME_ERROR, forward("raise ValueError('no')")),
    Hostile("forward_exits", Reason.RUNTIME_ERROR, forward("sys.exit(0)")),
    Hostile("constructor_raises", Reason.RUNTIME_ERROR, forward("return a + b", init="raise KeyError('x')")),
    Hostile("forward_ends_the_process", Reason.CRASH, forward("os._exit(0)")),
    Hostile("forward_aborts", Reason.CRASH, forward("os.abort()")),
    Hostile("segmentation_fault", Reason.CRASH, forward("import faulthandler\nfaulthandler._sigsegv()")),
    Hostile("kills_itself", Reason.TAMPERING, forward("import signal\nos.kill(os.getpid(), signal.SIGKILL)")),
    Hostile("crash_in_the_second_shape", Reason.CRASH,
            forward("if a.shape[0] == 7:\n    os._exit(0)\nreturn a + b"), ADD),
    Hostile("second_call_raises", Reason.RUNTIME_ERROR,
            forward("self.calls += 1\nif self.calls == 2:\n    raise RuntimeError('again')\nreturn a + b",
                    init="self.calls = 0")),
    Hostile("forward_never_ends", Reason.TIMEOUT, forward("while True:\n    pass"), options=_QUICK),
    Hostile("forward_sleeps_and_ignores_signals", Reason.TIMEOUT,
            forward("import signal\nfor s in (signal.SIGTERM, signal.SIGALRM, signal.SIGINT):\n"
                    "    signal.signal(s, signal.SIG_IGN)\n"
                    "while True:\n    try:\n        time.sleep(60)\n    except BaseException:\n        pass"),
            options=_QUICK),
    Hostile("takes_all_memory", Reason.OOM,
            forward("hold = []\nwhile True:\n    hold.append(torch.ones(2 ** 26))"),
            options={"timeout": 30.0}, also=Reason.TIMEOUT),
    Hostile("error_whose_text_raises", Reason.RUNTIME_ERROR,
            forward("raise Trap()", before="class Trap(Exception):\n    def __str__(self):\n        raise ValueError")),
    Hostile("error_of_fifty_megabytes", Reason.RUNTIME_ERROR, forward("raise ValueError('x' * 50_000_000)")),
    Hostile("error_that_blames_the_judge", Reason.RUNTIME_ERROR,
            forward("from kernel_lint.errors import KernelLintError\nraise KernelLintError('the machine is broken')")),
    Hostile("closes_every_file", Reason.CRASH, forward("os.closerange(0, 4096)\nreturn a + b")),
)  # fmt: skip

CHEATS = (
    Hostile("changes_its_input", Reason.INPUT_MUTATED, forward("out = a + b\na.zero_()\nreturn out")),
    Hostile("adds_in_place", Reason.INPUT_MUTATED, forward("return a.add_(b)")),
    Hostile("zeroes_inputs_first", Reason.INPUT_MUTATED, forward("a.zero_()\nb.zero_()\nreturn a + b")),
    Hostile("writes_out_of_bounds", Reason.OUT_OF_BOUNDS,
            forward("out = torch.empty_like(a)\nout.copy_(a + b)\n"
                    "beyond = np.lib.stride_tricks.as_strided(out.numpy(), (out.numel() + 8,), (4,))\n"
                    "beyond[-8:] = 1.0\nreturn out", before="import numpy as np")),
    Hostile("writes_before_its_input", Reason.OUT_OF_BOUNDS,
            forward("flat = a.numpy()\nbase = np.lib.stride_tricks.as_strided(flat, (flat.size, 2), (4, -4))\n"
                    "base[0, 1] = 1.0\nreturn a + b", before="import numpy as np")),
    Hostile("lazy_tensor", Reason.TAMPERING,
            forward("return (a + b).as_subclass(Lazy)", before="class Lazy(torch.Tensor):\n    pass")),
    Hostile("replay_by_pointer", Reason.TAMPERING,
            forward("key = a.data_ptr()\nif key not in SEEN:\n    SEEN[key] = a + b\nreturn SEEN[key].clone()",
                    before="SEEN = {}")),
    Hostile("memo_by_content", Reason.TAMPERING,
            forward("key = a.numpy().tobytes()\nif key not in SEEN:\n    SEEN[key] = a + b\nreturn SEEN[key].clone()",
                    before="SEEN = {}")),
    Hostile("replaces_allclose", Reason.TAMPERING,
            "import torch\ntorch.allclose = lambda *a, **k: True\n" + _RIGHT),
    Hostile("replaces_the_clock", Reason.TAMPERING,
            "import time\ntime.perf_counter = lambda: 0.0\n" + _RIGHT),
    Hostile("replaces_event_timing", Reason.TAMPERING,
            "import torch\ntorch.cuda.Event.elapsed_time = lambda self, other: 1e-6\n" + _RIGHT),
    Hostile("replaces_a_builtin", Reason.TAMPERING,
            "import builtins\nold = builtins.abs\nbuiltins.abs = lambda x: 0\n" + _RIGHT),
    Hostile("replaces_tensor_equality", Reason.TAMPERING,
            "import torch\ntorch.Tensor.__eq__ = lambda self, other: torch.ones(1, dtype=torch.bool)\n" + _RIGHT),
    Hostile("replaces_module_call_late", Reason.TAMPERING,
            forward("nn.Module.__call__ = lambda self, *a, **k: None\nreturn a + b")),
    Hostile("replaces_the_writer", Reason.TAMPERING,
            forward("from kernel_lint.verify import trees\nold = trees.save_tree\n"
                    "trees.save_tree = lambda value, path, **k: old(value, path)\nreturn a + b")),
    Hostile("replaces_numpy_and_works", Reason.TAMPERING,
            "import numpy as np\nnp.allclose = lambda *a, **k: True\n" + _RIGHT),
    Hostile("replaces_numpy_and_breaks_the_judge", Reason.TAMPERING,
            forward("np.asarray = lambda *a, **k: None\nreturn a + b", before="import numpy as np")),
    Hostile("replaces_json", Reason.TAMPERING,
            forward("json.dumps = lambda *a, _old=json.dumps, **k: _old(*a, **k)\nreturn a + b", before="import json")),
    Hostile("replaces_seeding_of_the_judge", Reason.TAMPERING,
            forward("sys.modules['kernel_lint.verify.inputs'].seed_everything = lambda seed: None\nreturn a + b")),
    Hostile("puts_a_folder_where_the_output_goes", Reason.TAMPERING,
            forward("for i in range(9):\n    os.mkdir(f'../outbox/output-{i}.safetensors')\nreturn a + b")),
    Hostile("fills_the_disk", Reason.TAMPERING,
            forward("import tempfile\nfor i in range(400):\n    with open(f'{tempfile.gettempdir()}/{i}', 'wb') as file:\n"
                    "        file.write(bytes(1 << 20))\n    time.sleep(0.02)\nreturn a + b"),
            options={"limits": Limits(memory_bytes=2 << 30, processes=40, disk_bytes=32 << 20)}),
    Hostile("leaves_a_mode_that_hides_changes", Reason.INPUT_MUTATED,
            forward("Lying().__enter__()\na.add_(1)\nreturn a + b - 1",
                    before="from torch.utils._python_dispatch import TorchDispatchMode\n\n\n"
                    "class Lying(TorchDispatchMode):\n    def __torch_dispatch__(self, f, types, args=(), kwargs=None):\n"
                    "        return True if f is torch.ops.aten.equal.default else f(*args, **(kwargs or {}))")),
    Hostile("scans_the_heap", Reason.TAMPERING,
            forward("import gc\nfor thing in gc.get_objects():\n    pass\nreturn a + b")),
    Hostile("reads_frames", Reason.TAMPERING, forward("frame = sys._getframe(1)\nreturn a + b")),
    Hostile("reads_frames_by_inspect", Reason.TAMPERING,
            forward("import inspect\nframe = inspect.currentframe()\nreturn a + b")),
    Hostile("counts_the_callers", Reason.TAMPERING,
            forward("import traceback\nreturn a + b if len(traceback.extract_stack()) > 9 else a")),
    Hostile("reads_frames_by_an_error", Reason.TAMPERING,
            forward("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    frame = e.__traceback__.tb_frame\nreturn a + b")),
    Hostile("reads_frames_by_a_generator", Reason.TAMPERING,
            forward("def walk():\n    yield it.gi_frame.f_back\nit = walk()\nnext(it)\nreturn a + b")),
    Hostile("unsays_what_was_seen", Reason.TAMPERING,
            forward("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    frame = e.__traceback__.tb_frame\n"
                    "while frame:\n    worker = frame.f_locals.get('self')\n    if hasattr(worker, '_log'):\n"
                    "        worker._log.records.clear()\n        worker._tampering = lambda: []\n"
                    "    frame = frame.f_back\nreturn a + b")),
    Hostile("floods_the_witness", Reason.TIMEOUT,
            forward("while True:\n    for fd in range(100, 110):\n        try:\n"
                    "            os.write(fd, b'{\"seen\": {\"reason\": \"VALUE\", \"message\": \"x\"}}\\n')\n"
                    "        except OSError:\n            pass"), options=_QUICK, also=Reason.TAMPERING),
    Hostile("kills_its_parent", Reason.TAMPERING,
            forward("try:\n    os.kill(os.getppid(), 9)\nexcept OSError:\n    pass\nreturn a + b")),
    Hostile("fork_bomb", Reason.TAMPERING, forward("while True:\n    os.fork()"), options={"timeout": 8.0},
            also=Reason.TIMEOUT),
    Hostile("patient_fork_bomb", Reason.TIMEOUT,
            forward("while True:\n    try:\n        os.fork()\n    except OSError:\n        time.sleep(0.01)"),
            # Refused by the kernel it waits for its deadline; seen above the limit it is killed for it.
            options=_QUICK, also=Reason.TAMPERING),
    Hostile("leaves_a_daemon", Reason.TAMPERING,
            forward("if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)\n"
                    "    os._exit(0)\nreturn a + b")),
    Hostile("answers_for_the_worker", Reason.TAMPERING,
            forward("for fd in range(3, 256):\n    try:\n"
                    "        os.write(fd, b'{\"op\": \"run\", \"ok\": true, \"data\": {}}\\n')\n"
                    "    except OSError:\n        pass\nos._exit(0)")),
    Hostile("writes_nonsense_to_the_judge", Reason.TAMPERING,
            forward("for fd in range(3, 256):\n    try:\n        os.write(fd, b'PASS\\n')\n"
                    "    except OSError:\n        pass\ntime.sleep(1)\nreturn a + b")),
    Hostile("work_left_to_a_thread", Reason.TAMPERING,
            forward("out = torch.empty_like(a)\nx, y = a.clone(), b.clone()\n"
                    "def later():\n    time.sleep(0.3)\n    torch.add(x, y, out=out)\n"
                    "threading.Thread(target=later).start()\nreturn out", before="import threading"),
            # A machine so slow that it has ended when it is looked for finds what it had not written.
            also=Reason.UNWRITTEN),
    Hostile("forbids_itself_to_write", Reason.TAMPERING,
            forward("resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nreturn a + b", before="import resource")),
    Hostile("noise_within_tolerance", Reason.NONDETERMINISTIC,
            forward("noise = int.from_bytes(os.urandom(4), 'little') / 2 ** 32\nreturn a + b + noise * 1e-7")),
    Hostile("launches_nothing", Reason.NO_LAUNCH, _RIGHT, options={"require_launch": True}),
)  # fmt: skip

ALL = (*AT_IMPORT, *WRONG_OUTPUTS, *BREAKS, *CHEATS)
