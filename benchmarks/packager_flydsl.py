"""Package a Model over every builder of a FlyDSL checkout's ``kernels/`` and compare what is compiled.

Usage::

    python benchmarks/packager_flydsl.py --flydsl CHECKOUT [--target gfx942 ...] [--only TEXT] [--peers]

A builder is a public function of ``kernels/`` named as ``PREFIXES`` says, a top-level ``@flyc.jit``
launcher, or a host function of ``CALLS``. For each one the script writes a small Model over it, and
prints: packaged, imports in isolation, IR equal, code objects identical, bytes in (its modules) and
out, seconds of CPU to package. Settings are guessed from the parameters' names (``SETTINGS``,
``OVERRIDES``); a builder whose original does not compile here with them is listed with the reason
and does not count. With ``--peers``, installed peers package the same entries.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_lint.packager import PackageError, PackageResult, package
from kernel_lint.packager.prove import Job, compare, pair, trace

PREFIXES = ("build_", "compile_", "create_wmma", "make_allreduce")
# Values by parameter name: small sizes that the tiles of most kernels divide.
SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("N", "n", "hidden", "cols", "D", "model_dim", "K", "k"), 1024),
    **dict.fromkeys(("M", "m", "rows", "tokens", "max_tok", "n_tokens"), 256),
    **dict.fromkeys(("inter_dim", "INTER", "D_INTER"), 512),
    **dict.fromkeys(("experts", "num_experts", "E", "NE", "num_heads", "num_q_heads", "gqa", "npes"), 8),
    **dict.fromkeys(("world_size", "query_group_size", "num_query_heads", "max_m_blocks", "num_programs"), 8),
    **dict.fromkeys(("topk", "TOPK"), 2),
    **dict.fromkeys(("num_kv_heads", "num_heads_k", "query_length", "query_seq_len"), 1),
    **dict.fromkeys(("head_dim", "head_size", "tile_n", "tile_k", "group_size", "TILE_N", "TILE_K"), 128),
    **dict.fromkeys(("tile_m", "BM", "sort_block_m", "unit_size"), 32),
    **dict.fromkeys(("dtype_str", "dtype", "out_dtype", "output_dtype_str", "weight_dtype_str"), "bf16"),
    **dict.fromkeys(("in_dtype", "quant_mode", "a_dtype"), "fp8"),
    **dict.fromkeys(("doweight_stage1", "doweight_stage2", "quant", "q_weighted"), False),
    **dict.fromkeys(("num_cu", "rope_head_dim", "max_tokens", "c"), 64),
    "MN": (256, 1024),
    "block_size": 16,
    "kv_granularity": 16,
    "sliding_window": 128,
    "s": 256,
    "rank": 0,
    "max_context_partition_num": 4,
    "scale_dtype": "fp32",
    "N_OUT": 1024,
    "D_HIDDEN": 1024,
    "HIDDEN": 1024,
}
_CONV = {
    "n": 1,
    "d": 4,
    **dict.fromkeys(("h", "width"), 16),
    **dict.fromkeys(("c", "k"), 64),
    **dict.fromkeys(("kt", "kh", "kw"), 3),
    **dict.fromkeys(("st", "sh", "sw", "pt", "ph", "pw"), 1),
}
OVERRIDES: dict[str, dict[str, Any]] = {
    "build_topk_gating_softmax_module": {"num_experts": 64},
    "compile_preshuffle_gemm": {"in_dtype": "bf16", "tile_m": 64},
    "compile_flydsl_qk_norm_rope_quant": {"head_dim": 512},
    "compile_conv3d_implicit": _CONV,
    "compile_conv3d_implicit_fp8": _CONV,
}
# Functions of the host that launch by themselves, called with tensors t(*shape).
CALLS: dict[str, str] = {
    "attention.flash_attn_interface:flydsl_flash_attn_func": "(*[t(1, 256, 8, 128) for _ in range(3)])",
    "gemm.gemm_a16w16_gfx950:gemm_a16w16": "(t(256, 1024), t(512, 1024))",
    "conv.conv3d_implicit:conv3d_implicit": "(t(1, 64, 4, 16, 16), t(64, 64, 3, 3, 3), stride=1, padding=1)",
}
TENSORS = {"fp8": "float8_e4m3fn", "bf16": "bfloat16", "f32": "float32", "f16": "float16", "fp16": "float16"}

ENTRY = '''"""A Model over {name}, written by benchmarks/packager_flydsl.py."""

import inspect
import re

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
import torch.nn as nn
from {module} import {name}

NUMBERS = {numbers!r}
# Parameters without annotation that are sizes and strides, not tensors.
COUNT = re.compile("^(i32_|s_|n_|num|max|batch)|stride|len|count|_size$|dim|^[a-z]$|idx")


def launch(function, tensor):
    target = getattr(function, "func", function)
    arguments = {{}}
    for name, parameter in inspect.signature(target).parameters.items():
        kind = str(getattr(parameter.annotation, "__name__", parameter.annotation))
        if name in NUMBERS and "Tensor" not in kind:
            arguments[name] = NUMBERS[name]
        elif "Stream" in kind:
            arguments[name] = fx.Stream(None)
        elif parameter.default is not parameter.empty:
            continue
        elif "Tensor" in kind or (parameter.annotation is parameter.empty and not COUNT.search(name)):
            arguments[name] = tensor
        elif "Pointer" in kind:
            arguments[name] = flyc.from_c_void_p(fx.{pointer}, tensor.data_ptr(), assumed_align=16)
        elif "Int64" in kind:
            arguments[name] = tensor.data_ptr()
        elif "Float" in kind:
            arguments[name] = 1.0
        else:
            arguments[name] = 64
    function(**arguments)


def launches(built):
    if isinstance(built, dict):
        return list(built.values())
    return list(built) if isinstance(built, tuple | list) else [built]


class Model(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.launches = launches({build})

    def forward(self, x):
        for function in self.launches:
            if callable(function) and type(function).__name__ != "KernelFunction":
                launch(function, x)
        return x
'''
CALL = '''"""A Model over {name}, written by benchmarks/packager_flydsl.py."""

import torch
import torch.nn as nn
from {module} import {name}


def t(*shape):
    return torch.zeros(shape, dtype=torch.bfloat16, device="cuda" if torch.cuda.is_available() else "cpu")


class Model(nn.Module):
    def __init__(self, settings):
        super().__init__()

    def forward(self, x):
        return {name}{call}
'''
INPUT = """import torch


def _make_inputs(dtype):
    return {"x": torch.zeros(256, 1024).to(getattr(torch, dtype))}
"""


@dataclass
class Row:
    """What came out for one builder."""

    name: str
    module: str
    packaged: bool = False
    imports: bool = False
    verdict: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    note: str = ""
    peers: dict[str, str] = field(default_factory=dict)
    result: PackageResult | None = None


def builders(checkout: Path) -> Iterator[tuple[str, ast.FunctionDef, bool]]:
    """Yield the module, the definition, and whether it is a launcher itself, for every builder."""
    for path in sorted((checkout / "kernels").rglob("*.py")):
        module = ".".join(path.relative_to(checkout).with_suffix("").parts)
        if path.name == "__init__.py":
            continue
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            jit = any(
                ast.unparse(decorator).split("(")[0].endswith("flyc.jit") for decorator in node.decorator_list
            )
            called = f"{module.removeprefix('kernels.')}:{node.name}" in CALLS
            launcher = jit and (node.name.startswith("launch") or node.name.endswith(("_direct", "_gfx950")))
            if called or launcher or node.name.startswith(PREFIXES):
                yield module, node, jit


def settings_of(node: ast.FunctionDef) -> dict[str, Any]:
    """Guess a builder's arguments: those without default, by name."""
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    required = positional[: len(positional) - len(args.defaults)]
    required += [
        arg for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default is None
    ]
    values = {**SETTINGS, **OVERRIDES.get(node.name, {})}
    found = {arg.arg: values[arg.arg] for arg in required if arg.arg in values}
    return {**found, **OVERRIDES.get(node.name, {})}


def write_entry(folder: Path, module: str, node: ast.FunctionDef, jit: bool) -> Path:
    """Write the entry over one builder."""
    folder.mkdir(parents=True)
    build = node.name if jit else f"{node.name}(**settings)"
    path = folder / "kernel.py"
    call = CALLS.get(f"{module.removeprefix('kernels.')}:{node.name}")
    fields = {"name": node.name, "module": module, "build": build, "numbers": SETTINGS if jit else {}}
    fields["pointer"] = "BFloat16" if "layernorm" in node.name else "Uint8"
    path.write_text(CALL.format(call=call, **fields) if call else ENTRY.format(**fields))
    (folder / "input.py").write_text(INPUT)
    return path


def package_row(row: Row, entry: Path, checkout: Path) -> None:
    """Package one entry and note the figures."""
    began = time.process_time()
    try:
        row.result = package(entry, roots=[checkout])
    except PackageError as error:
        row.note = "refused: " + str(error).replace("\n", " ")[:200]
        return
    row.seconds = time.process_time() - began
    row.packaged = True
    row.bytes_in, row.bytes_out = row.result.report.bytes_in, row.result.report.bytes_out


def judge(rows: list[Row], jobs: list[tuple[Job, Job]], target: str, scratch: Path, python: str) -> None:
    """Trace all entries and compare; a side that only imports tells whether the result imports alone."""
    outcomes = trace([job for both in jobs for job in both], target, scratch, python)
    for row in rows:
        first, second = outcomes[f"{row.name}/original"], outcomes[f"{row.name}/packaged"]
        assert row.result is not None
        stage = compare(first, second, row.name, target, row.result)
        frames = second.get("trace", "")
        row.imports = "exec_module" not in frames
        if stage.status.value == "passed":
            row.verdict = "identical" if stage.data.get("objects_equal") else "IR equal"
        elif stage.status.value == "error":
            same = second.get("error") == first.get("error")
            row.verdict = "does not compile here" if same or "error" not in second else "differs"
            row.note = first.get("error", stage.message)[:160]
        else:
            row.verdict, row.note = "DIFFERS", stage.message[:300]


def peer_sizes(row: Row, entry: Path, checkout: Path, scratch: Path) -> None:
    """Let installed peers package the entry; note the size of what they write, or that they fail."""
    commands = {
        "cribo": ["cribo", "--entry", str(entry), "--output", "{out}"],
        "stickytape": [
            "stickytape",
            str(entry),
            "--add-python-path",
            str(checkout),
            "--output-file",
            "{out}",
        ],
        "pinliner": ["pinliner", str(checkout / "kernels"), "-o", "{out}"],
        "impacker": ["impacker", str(entry), "{out}"],
    }
    for name, command in commands.items():
        tool = Path(sys.executable).with_name(name)
        if not tool.exists():
            continue
        out = scratch / f"{name}.py"
        environment = {"PYTHONPATH": str(checkout), "PATH": "/usr/bin:/bin"}
        words = [str(tool), *(word.format(out=out) for word in command[1:])]
        try:
            done = subprocess.run(
                words, capture_output=True, timeout=120, check=False, env=environment, cwd=entry.parent
            )
        except subprocess.TimeoutExpired:
            row.peers[name] = "timeout"
            continue
        row.peers[name] = f"{out.stat().st_size:,}" if done.returncode == 0 and out.exists() else "fails"
        out.unlink(missing_ok=True)


def main() -> int:
    """Run the comparison; exit 1 when anything that compiles is not packaged identically."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flydsl", type=Path, required=True, help="a checkout of FlyDSL")
    parser.add_argument(
        "--target", action="append", help="default: gfx950, then gfx942 and others for what is left"
    )
    parser.add_argument("--only", default="", help="only builders whose module and name contain this")
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter that has the matching FlyDSL"
    )
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for each trace")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--json", type=Path, help="write the rows there")
    options = parser.parse_args()
    checkout = options.flydsl.resolve()
    scratch = Path(tempfile.mkdtemp(prefix="packager-flydsl-"))
    rows: list[Row] = []
    jobs: list[tuple[Job, Job]] = []
    for module, node, jit in builders(checkout):
        name = f"{module.removeprefix('kernels.')}:{node.name}"
        if options.only not in name:
            continue
        row = Row(name, module)
        rows.append(row)
        folder = scratch / "entries" / str(len(rows))
        entry = write_entry(folder, module, node, jit)
        package_row(row, entry, checkout)
        if options.peers:
            peer_sizes(row, entry, checkout, scratch)
        if row.result is not None:
            settings = settings_of(node)
            kind = settings.get("in_dtype", settings.get("dtype_str", "bf16"))
            shape = {
                "init_kwargs": {"settings": settings},
                "input_kwargs": {"dtype": TENSORS.get(kind, "bfloat16")},
            }
            text = row.result.text
            jobs.append(pair(name, entry, text, folder, [checkout], scratch, shape, options.timeout))
    waiting = [(row, both) for row, both in zip([row for row in rows if row.packaged], jobs, strict=True)]
    for target in options.target or ["gfx950", "gfx942", "gfx1201", "gfx1100"]:
        if waiting:
            judge(
                [row for row, _ in waiting],
                [both for _, both in waiting],
                target,
                scratch / target,
                options.python,
            )
        waiting = [(row, both) for row, both in waiting if row.verdict == "does not compile here"]
        print(f"{target}: {len(waiting)} left", file=sys.stderr)
    report(rows, options.json)
    shutil.rmtree(scratch, ignore_errors=True)
    return int(any(not row.packaged or row.verdict.lower() == "differs" for row in rows))


def report(rows: list[Row], path: Path | None) -> None:
    """Print one line for each builder, then the sums."""
    for row in rows:
        peers = "".join(f" {name}={size}" for name, size in row.peers.items())
        print(
            f"{row.name:75} packaged={row.packaged!s:5} imports={row.imports!s:5} {row.verdict:22}"
            f" {row.bytes_in:>8,} -> {row.bytes_out:>8,}  {row.seconds:5.2f} s{peers}  {row.note}"
        )
    compiled = [row for row in rows if row.verdict not in ("does not compile here", "")]
    same = [row for row in compiled if row.verdict == "identical"]
    packaged = [row for row in rows if row.packaged]
    print(
        f"\n{len(rows)} builders; packaged {len(packaged)}; alone {sum(row.imports for row in rows)}; "
        f"{len(compiled)} compile here, of these identical {len(same)}; "
        f"{sum(row.bytes_in for row in packaged):,} bytes in, {sum(row.bytes_out for row in packaged):,} out;"
        f" slowest {max((row.seconds for row in rows), default=0.0):.2f} s of CPU"
    )
    found = importlib.util.find_spec("flydsl")
    print(f"FlyDSL: {found.origin if found else 'not installed'}")
    if path is not None:
        keys = ("name", "packaged", "imports", "verdict", "bytes_in", "bytes_out", "seconds", "note", "peers")
        path.write_text(json.dumps([{key: getattr(row, key) for key in keys} for row in rows], indent=1))


if __name__ == "__main__":
    sys.exit(main())
