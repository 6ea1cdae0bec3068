"""Small Models over the builders of FlyDSL's ``kernels/``, for ``packager_flydsl.py``.

The sizes are small ones that the tiles of the kernels divide; which tensors a launcher takes, and of
what type, is what FlyDSL's own tests under ``tests/kernels`` hand in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    **dict.fromkeys(("m_warp", "n_warp", "num_buffers"), 2),
    **dict.fromkeys(("cluster_m", "cluster_n", "batch"), 1),
    **dict.fromkeys(("out_is_f16", "is_bsc", "a_is_fp4", "has_bias", "stage1_act", "waves_per_eu"), 0),
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
    "n_experts": 8,
    "b_dtype": "fp4",
    "num_cus": 64,
    "lds_size": 160 * 1024,
}
_CONV = {
    "n": 1,
    "d": 4,
    **dict.fromkeys(("h", "w", "width"), 16),
    **dict.fromkeys(("c", "k"), 64),
    **dict.fromkeys(("kt", "kh", "kw"), 3),
    **dict.fromkeys(("st", "sh", "sw", "pt", "ph", "pw"), 1),
}
_CONV_FP8 = {name: value for name, value in _CONV.items() if name != "w"}
_CONV_BF16 = {name: value for name, value in _CONV.items() if name != "width"}
_MOE = {"in_dtype": "fp8", "out_dtype": "f16", "tile_n": 128, "tile_k": 128}
OVERRIDES: dict[str, dict[str, Any]] = {
    "build_topk_gating_softmax_module": {"num_experts": 64},
    "compile_preshuffle_gemm": {"in_dtype": "bf16", "tile_m": 64},
    "compile_flydsl_qk_norm_rope_quant": {"head_dim": 512},
    "compile_conv3d_implicit": _CONV_BF16,
    "compile_conv3d_implicit_fp8": {**_CONV_FP8, "c": 128, "k": 128},
    "compile_moe_gemm1": _MOE,
    "compile_moe_gemm2": _MOE,
    "compile_fp8_gemm": {"M": 128, "N": 256, "K": 256},
    "build_flash_attn_func_module_primary": {"dtype_str": "bf16", "causal": True},
}
_IDS = "t(64, dtype=torch.int32)"
_MOE_ARGUMENTS = (
    "(t(512, 1024, dtype=torch.float16), t(256 * 1024, dtype=F8), t(8 * 1024 * 1024, dtype=F8), "
    "t(256, dtype=torch.float32), t(8 * 1024, dtype=torch.float32), {0}, {0}, t(64, dtype=torch.float32), "
    "{0}, 256, {1}, 8, STREAM)"
)
_QKVO = "*[t(256 * 64 * 128) for _ in range(4)]"
# How a launcher is called: ``built`` is what the builder returned.
LAUNCHES: dict[str, str] = {
    "build_flash_attn_func_module_primary": "built(*[t(256 * 8 * 128) for _ in range(4)], 1, 256)",
    "build_gqa_attn": f"built({_QKVO}, 8192, 1024, 1024, 8192, 256, 256)",
    "build_fused_rope_cache_module": (
        "built(t(16, 8, 64), t(16, 1, 64), t(16, 1, 64), t(16, dtype=torch.int32), t(128, 32), t(128, 32), "
        "t(16, dtype=torch.int32), t(32, 16, 1, 64), t(32, 16, 1, 64), t(16, 8, 64), t(16, 1, 64), 16, "
        "t(1, dtype=torch.float32), t(1, dtype=torch.float32), stream=STREAM)"
    ),
    "compile_pa_decode_tile": (
        "built['launch'](t(4, 8, 128, dtype=torch.float16), *[t(1, dtype=torch.float32)] * 3, "
        "t(4, 8, 128, dtype=torch.float16), t(32, 1, 8, 16, 16, dtype=F8), t(32, 1, 1, 128, 16, dtype=F8), "
        "t(4, 8, dtype=torch.int32), t(4, dtype=torch.int32), *[t(1, dtype=torch.float32)] * 2, "
        "8, 4, 1, 0, 0, 1024, 128, STREAM)"
    ),
    "compile_pa_metadata_v1": (
        "built['launch'](t(5, dtype=torch.int32), t(4, dtype=torch.int32), t(65, dtype=torch.int32), "
        "t(8 * 64, dtype=torch.int32), t(5, dtype=torch.int32), t(8, dtype=torch.int32), "
        "t(64, dtype=torch.int32), 4, STREAM)"
    ),
    "compile_flydsl_qk_norm_rope_quant": (
        "built(p(t(16, 8, 512)), p(t(16, 512)), *map(flyc.from_torch_tensor, "
        "(t(512), t(512), t(128, 32), t(128, 32))), p(t(16, dtype=torch.int32)), p(t(16, 8, 512)), "
        "p(t(16, 512)), p(t(1, dtype=torch.float32)), p(t(1, dtype=torch.float32)), 512, 16, stream=STREAM)"
    ),
    "compile_moe_gemm1": "built" + _MOE_ARGUMENTS.format(_IDS, "512, 1024"),
    "compile_moe_gemm2": "built" + _MOE_ARGUMENTS.format(_IDS, "1024, 512"),
    "compile_moe_reduction": (
        "built(p(t(256, 2, 1024, dtype=torch.float16), fx.Float16), p(t(256, 1024, dtype=torch.float16), "
        "fx.Float16), p(t(8, dtype=torch.int32)), p(t(512, dtype=torch.int32), fx.Int32), 256, STREAM)"
    ),
    "compile_moe_sorting_oneshot_fused": (
        f"built(t(16, 8), {_IDS}, t(64, dtype=torch.float32), {_IDS}, {_IDS}, "
        f"t(16, 1024, dtype=torch.int32), {_IDS}, 16, 16384, 8, STREAM)"
    ),
    "compile_gemm1": (
        "built(t(256, 512, dtype=F8), t(256, 1024, dtype=F8), t(8 * 1024, 1024, dtype=torch.uint8), "
        "t(256, 32, dtype=torch.uint8), t(8 * 1024, 32, dtype=torch.uint8), "
        f"{_IDS}, {_IDS}, t(256, 16, dtype=torch.uint8), 8, 8, STREAM)"
    ),
}
# Functions of the host that launch by themselves, called with tensors t(*shape).
# They ask for tensors on a GPU, so these say that they are.
CALLS: dict[str, str] = {
    "attention.flash_attn_interface:flydsl_flash_attn_func": "(*[t(1, 256, 8, 128) for _ in range(3)])",
    "gemm.gemm_a16w16_gfx950:gemm_a16w16": "(t(256, 1024), t(512, 1024).t())",
    "conv.conv3d_implicit:conv3d_implicit": "(t(1, 64, 4, 16, 16), t(64, 64, 3, 3, 3), stride=1, padding=1)",
}
# Not kernels that one can compile alone: made by another builder, or host tables.
NOT_BUILDERS = (
    "mega_moe.gemm1:build_fused_gemm1",  # part of a traced kernel
    "comm.flydsl_dispatch_combine_intranode_op:build_geometry_tuning_table_for_config",
    "comm.flydsl_dispatch_combine_intranode_op:build_p2p_table",
    "gemm.gemm_a16w16_gfx950:gemm_a16w16_gfx950",  # called by gemm_a16w16 with its parameter object
)
TENSORS = {"fp8": "float8_e4m3fn", "bf16": "bfloat16", "f32": "float32", "f16": "float16", "fp16": "float16"}

HEAD = '''"""A Model over {name}, written by benchmarks/packager_flydsl.py."""

import inspect
import re

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
import torch.nn as nn
from {module} import {name}

'''
GUESSED = """NUMBERS = {numbers!r}
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
"""
GIVEN = """torch.Tensor.is_cuda = property(lambda self: True)
F8 = torch.float8_e4m3fn
STREAM = fx.Stream(None)


def t(*shape, dtype=torch.bfloat16):
    return torch.zeros(shape, dtype=dtype, device="cuda" if torch.cuda.is_available() else "cpu")


def p(tensor, kind=fx.Uint8):
    return flyc.from_c_void_p(kind, tensor.data_ptr(), assumed_align=16)


class Model(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.built = {build}

    def forward(self, x):
        built = self.built
        return {call}
"""
INPUT = """import torch


def _make_inputs(dtype):
    return {"x": torch.zeros(256, 1024).to(getattr(torch, dtype))}
"""


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
            name = name_of(module, node)
            launcher = jit and (node.name.startswith("launch") or node.name.endswith(("_direct", "_gfx950")))
            if name not in NOT_BUILDERS and (name in CALLS or launcher or node.name.startswith(PREFIXES)):
                yield module, node, jit


def name_of(module: str, node: ast.FunctionDef) -> str:
    """Return the name of a builder in tables and results."""
    return f"{module.removeprefix('kernels.')}:{node.name}"


def settings_of(node: ast.FunctionDef) -> dict[str, Any]:
    """Return a builder's arguments: those without default by their name, and its overrides."""
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    required = positional[: len(positional) - len(args.defaults)]
    required += [
        arg for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default is None
    ]
    found = {arg.arg: SETTINGS[arg.arg] for arg in required if arg.arg in SETTINGS}
    return {**found, **OVERRIDES.get(node.name, {})}


def targets_of(name: str) -> list[str]:
    """Return the targets to try for a builder, the one that it is written for first."""
    for mark, target in (("gfx1250", "gfx1250"), ("rdna3", "gfx1100"), ("rdna", "gfx1201")):
        if mark in name:
            return [target]
    return ["gfx950", "gfx942"]


def write_entry(folder: Path, module: str, node: ast.FunctionDef, jit: bool) -> Path:
    """Write the entry over one builder, and its ``input.py``; return the entry's path."""
    folder.mkdir(parents=True, exist_ok=True)
    host = CALLS.get(name_of(module, node))
    fields = {
        "name": node.name,
        "module": module,
        "build": node.name if jit or host else f"{node.name}(**settings)",
        "numbers": {**SETTINGS, **OVERRIDES.get(node.name, {})} if jit else {},
        "pointer": "BFloat16" if "layernorm" in node.name else "Uint8",
        "call": f"built{host}" if host else LAUNCHES.get(node.name, ""),
    }
    path = folder / "kernel.py"
    path.write_text(HEAD.format(**fields) + (GIVEN if fields["call"] else GUESSED).format(**fields))
    (folder / "input.py").write_text(INPUT)
    return path


def shape_of(node: ast.FunctionDef, jit: bool) -> dict[str, Any]:
    """Return the one shape of an entry, as in ``shapes.json``."""
    settings = {} if jit else settings_of(node)
    kind = settings.get("in_dtype", settings.get("dtype_str", "bf16"))
    return {
        "init_kwargs": {"settings": settings},
        "input_kwargs": {"dtype": TENSORS.get(kind, "bfloat16")},
    }
