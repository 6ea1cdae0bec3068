"""Kernels become PTX, with a driver that records instead of launching; what cannot run is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.flydsl
ROOT = Path(__file__).parents[2]

_PRELUDE = """
import json, sys
import torch
from kernel_lint.nvptx.session import install
import flydsl.compiler as flyc
import flydsl.expr as fx

class Recorder:
    def __init__(self):
        self.texts, self.launches = [], []
    def load(self, ptx):
        self.texts.append(ptx.text)
        return ptx.entry
    def launch(self, function, grid, block, shared, stream, parameters):
        self.launches.append([function, list(grid), list(block), stream, [len(p) for p in parameters]])
        self.shared = shared

driver = Recorder()
session = install(driver, "sm_90")
stream = fx.Stream(None)
"""


def run(code: str, *folders: str) -> subprocess.CompletedProcess[str]:
    """Run code after the prelude in a process of its own: FlyDSL stays hooked there."""
    paths = "".join(f"sys.path.insert(0, {str(ROOT / folder)!r})\n" for folder in folders)
    text = _PRELUDE + paths + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=120, cwd=ROOT
    )


def ptx_of(code: str, *folders: str) -> str:
    done = run(textwrap.dedent(code) + "\nprint(driver.texts[-1])", *folders)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_softmax_moves_sixteen_bytes_at_once_without_checks() -> None:
    text = ptx_of(
        """
        from ops import build_softmax
        x = torch.zeros(2, 8192, dtype=torch.bfloat16)
        build_softmax(8192, x.dtype)(x, torch.empty_like(x), 2, stream=stream)
        """,
        "examples/softmax",
    )
    assert len(re.findall(r"ld\.global\.v4\.b32", text)) == 4
    assert len(re.findall(r"st\.global\.v4\.b32", text)) == 4
    assert text.count("ex2.approx.f32") == 32
    # A wave of 64 is two warps: its halves meet at a barrier of their own.
    assert re.search(r"bar\.sync\s+%r\d+, 64;", text)
    assert "call.uni" not in text


def test_a_target_that_flydsl_wrote_into_the_module_is_replaced() -> None:
    text = ptx_of(
        """
        import re
        from kernel_lint.nvptx import session as nvptx
        lowered = nvptx.lowered_text
        def as_flydsl_0_3_writes_it(module):
            text = lowered(module)
            return re.sub(r"(gpu\\.module @\\w+)[^{]*", r'\\1 [#rocdl.target<chip = "gfx942">] ', text, 1)
        nvptx.lowered_text = as_flydsl_0_3_writes_it
        from ops import build_softmax
        x = torch.zeros(2, 256, dtype=torch.bfloat16)
        build_softmax(256, x.dtype)(x, torch.empty_like(x), 2, stream=stream)
        """,
        "examples/softmax",
    )
    assert ".target sm_90" in text


def test_a_row_of_odd_length_is_checked_and_narrow() -> None:
    text = ptx_of(
        """
        from ops import build_softmax
        x = torch.zeros(3, 77, dtype=torch.float16)
        build_softmax(77, x.dtype)(x, torch.empty_like(x), 3, stream=stream)
        """,
        "examples/softmax",
    )
    assert "ld.global.b16" in text
    assert "v4" not in re.sub(r"ld\.shared\S+", "", text)


def test_rmsnorm_compiles_for_one_wave_and_for_four() -> None:
    done = run(
        """
        from norm_ops import add_rmsnorm
        for cols in (256, 4096):
            x = torch.zeros(2, cols)
            add_rmsnorm(x, x.clone(), torch.ones(cols), torch.empty_like(x), torch.empty_like(x), 1e-6)
        print(json.dumps(driver.launches))
        """,
        "examples/rmsnorm",
    )
    assert done.returncode == 0, done.stderr
    assert '"rmsnorm_wave_0", [2, 1, 1], [64, 1, 1]' in done.stdout
    assert '"rmsnorm_block_0", [2, 1, 1], [256, 1, 1]' in done.stdout


_TEXT = """
from kernel_lint.nvptx.apart import compile_apart
from kernel_lint.nvptx.facts import Known

def compiled(operation, mtype="f32"):
    *before, operation = operation.split(" ; ")
    before = "\\n".join(before)
    text = f'''module attributes {{gpu.container_module}} {{ gpu.module @m {{
      gpu.func @k(%p: !llvm.ptr<1>, %x: {mtype}, %y: {mtype}, %i: i32) kernel {{
        {before}
        %r = {operation}
        llvm.store %r, %p : {mtype}, !llvm.ptr<1>
        gpu.return }} }} }}'''
    return compile_apart(text, "k", Known((64, 1, 1), {}), "sm_90").text
"""


PERMUTE = (
    "%s = arith.constant {0} : i32 ; "
    'llvm.call_intrinsic "llvm.amdgcn.perm"(%i, %i, %s) : (i32, i32, i32) -> i32'
)
# 16 bytes to the lane's place in LDS, at an address that the wave shares or that differs in it.
TO_LDS = """%z = arith.constant 0 : i32 ; %n = arith.constant 16 : i32 ; %m = arith.constant 256 : i64 ; \
%st = arith.constant 0 : i16 ; %fl = arith.constant 159744 : i32 ; \
%d = rocdl.make.buffer.rsrc %p, %st, %m, %fl : !llvm.ptr<1> to <8> ; \
%l = llvm.inttoptr {0} : i32 to !llvm.ptr<3> ; %id = gpu.thread_id x ; \
%t = arith.index_cast %id : index to i32 ; %o = arith.muli %t, %n : i32 ; {1} ; \
"rocdl.raw.ptr.buffer.load.lds"(%d, %q, %n, %o, %z, %z) {{aux = 0 : i32}} : \
(!llvm.ptr<8>, !llvm.ptr<3>, i32, i32, i32, i32) -> () ; llvm.load %q : !llvm.ptr<3> -> i32"""
INSTRUCTIONS = {
    ("math.absf %x : f32", "f32"): "abs.f32",
    ("math.absi %i : i32", "i32"): "max.s32",
    ("math.fma %x, %x, %x : f32", "f32"): "fma.rn.f32",
    ("math.fma %x, %x, %x : vector<2xf16>", "vector<2xf16>"): "fma.rn.f16",
    ("math.floor %x : f32", "f32"): "cvt.rmi.f32.f32",
    ("math.ceil %x : f16", "f16"): "cvt.rpi.f16.f16",
    ("math.roundeven %x : f32", "f32"): "cvt.rni.f32.f32",
    ("math.exp %x : f32", "f32"): "ex2.approx.f32",
    ("math.log %x : f32", "f32"): "lg2.approx.f32",
    ('llvm.call_intrinsic "llvm.amdgcn.exp2.f32"(%x) : (f32) -> f32', "f32"): "ex2.approx.f32",
    ('llvm.call_intrinsic "llvm.amdgcn.rcp.f32"(%x) : (f32) -> f32', "f32"): "rcp.approx.f32",
    ('"llvm.intr.fabs"(%x) : (f32) -> f32', "f32"): "abs.f32",
    ("arith.maxnumf %x, %y : f32", "f32"): "max.f32",
    # Bytes 2 and 3 of the second operand, then those of the first.
    (PERMUTE.format(0x07060302), "i32"): f"{0x7632};",
    (
        TO_LDS.format("%i", "%q = llvm.getelementptr %l[64] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8"),
        "i32",
    ): "st.shared.b32",
    ("rocdl.update.dpp %i, %i with 273, 15, 15, true : i32", "i32"): "shfl.sync.idx.b32",
    (
        'llvm.atomicrmw add %p, %i syncscope("agent") monotonic : !llvm.ptr<1>, i32',
        "i32",
    ): "atom.relaxed.gpu.global.add.u32",
    (
        'llvm.atomicrmw add %p, %i syncscope("workgroup-one-as") monotonic : !llvm.ptr<1>, i32',
        "i32",
    ): "atom.relaxed.cta.global.add.u32",
}


def test_functions_become_instructions() -> None:
    done = run(f"{_TEXT}\nprint(json.dumps([compiled(*pair) for pair in {list(INSTRUCTIONS)!r}]))")
    assert done.returncode == 0, done.stderr
    texts = json.loads(done.stdout)
    wrong = {
        pair: text for (pair, name), text in zip(INSTRUCTIONS.items(), texts, strict=True) if name not in text
    }
    assert not wrong
    assert not any(".extern" in text for text in texts)


def exchange(threads: int, number: str = "divui", barrier: str = "") -> subprocess.CompletedProcess[str]:
    """Compile a sum over two halves of a wave, under a condition on a thread's ``number`` by 64."""
    return run(
        f"""
from kernel_lint.nvptx.apart import compile_apart
from kernel_lint.nvptx.facts import Known

text = '''module attributes {{gpu.container_module}} {{ gpu.module @m {{
  gpu.func @k(%p: !llvm.ptr<1>, %x: f32) kernel {{
    %c32 = arith.constant 32 : i32
    %c64 = arith.constant 64 : i32
    %c0 = arith.constant 0 : i32
    %id = gpu.thread_id x
    %t = arith.index_cast %id : index to i32
    {barrier}
    %n = arith.{number} %t, %c64 : i32
    %c = arith.cmpi ne, %n, %c0 : i32
    scf.if %c {{
      %r, %ok = gpu.shuffle xor %x, %c32, %c64 : f32
      llvm.store %r, %p : f32, !llvm.ptr<1>
    }}
    gpu.return }} }} }}'''
print(compile_apart(text, "k", Known(({threads}, 1, 1), {{}}), "sm_90").text)
"""
    )


def test_waves_exchange_under_a_condition_that_they_share() -> None:
    done = exchange(256)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"(?:bar|barrier)\.sync\S*\s+%r\d+, 64;", done.stdout)) == 2
    assert re.search(r"\.shared .*__wave_exchange\[1024\]", done.stdout)


def test_an_exchange_that_would_divide_a_wave_is_refused() -> None:
    assert "some threads of the wave may be missing" in exchange(256, "remui").stderr


def test_sixteen_waves_have_barriers_where_the_workgroup_needs_none() -> None:
    done = exchange(1024)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"(?:bar|barrier)\.sync\S*\s+%r\d+, 64;", done.stdout)) == 2
    assert "some threads of the block may be missing" in exchange(1024, barrier="gpu.barrier").stderr


REFUSED = {
    PERMUTE.format(0x0C060302): "it makes bytes of signs or constants",
    TO_LDS.format("%i", "%q = llvm.getelementptr %l[%t] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8"): (
        "rocdl.raw.ptr.buffer.load.lds"
    ),
    "math.tanh %x : f32": "math.tanh",
    '"llvm.intr.exp10"(%x) : (f32) -> f32': "llvm.intr.exp10",
    'llvm.call_intrinsic "llvm.amdgcn.fract.f32"(%x) : (f32) -> f32': "llvm.amdgcn.fract",
}


def test_functions_without_an_instruction_are_refused_by_name() -> None:
    done = run(
        f"""{_TEXT}
from kernel_lint.nvptx.errors import NvptxRefusalError
for operation in {list(REFUSED)!r}:
    try:
        compiled(operation, "i32" if operation.endswith("i32") else "f32")
    except NvptxRefusalError as refusal:
        print(" ".join(str(refusal).split()))
"""
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(REFUSED)
    for line, name in zip(lines, REFUSED.values(), strict=True):
        assert name in line
        assert "--backend emulate" in line


def test_where_llvm_ends_its_process_its_words_are_the_refusal() -> None:
    done = run(
        _TEXT
        + textwrap.dedent(
            """
            from kernel_lint.nvptx import rewrite
            rewrite._INTRINSICS |= {"llvm.exp10"}
            try:
                compiled('"llvm.intr.exp10"(%x) : (f32) -> f32')
            except Exception as error:
                print(type(error).__name__, error)
            print("still here")
            """
        )
    )
    assert done.returncode == 0, done.stderr
    assert "NvptxRefusalError kernel k" in done.stdout
    assert re.search(r"LLVM ended its process \(SIGABRT\): .*error", done.stdout, re.IGNORECASE)
    assert "still here" in done.stdout


def test_a_fault_of_the_compiler_is_no_refusal() -> None:
    done = run(
        f"{_TEXT}\nfrom kernel_lint.nvptx import compile\ncompile._PIPELINE = ('no-such-pass',)\n"
        "compiled('math.absf %x : f32')"
    )
    assert "RuntimeError: the compilation of kernel k failed" in done.stderr
    assert "no-such-pass" in done.stderr


def test_arguments_decide_how_wide_accesses_are() -> None:
    code = """
        import generated_kernel as g
        a = torch.zeros({size})
        g.launch_add(a, a.clone(), torch.empty_like(a), {size}, 4, stream)
        """
    aligned, odd = (ptx_of(code.format(size=size), "tests/nvptx/vector_add") for size in (4096, 1001))
    assert "ld.global.v4.b32" in aligned
    assert "ld.global.v4.b32" not in odd
    assert len(re.findall(r"ld\.global\.b32", odd)) == 8


def test_what_cannot_run_is_refused_by_name_and_line(tmp_path: Path) -> None:
    text = (ROOT / "tests/nvptx/vector_add/generated_kernel.py").read_text()
    changed = text.replace("load(A) + load(B)", "fx.math.tanh(load(A))")
    assert changed != text
    (tmp_path / "tanh_kernel.py").write_text(changed)
    line = 1 + changed[: changed.index("fx.math.tanh")].count("\n")
    done = run(
        """
        import tanh_kernel as g
        a = torch.zeros(1024)
        g.launch_add(a, a.clone(), torch.empty_like(a), 1024, 1, stream)
        """,
        str(tmp_path),
    )
    assert done.returncode != 0
    assert f"math.tanh at {tmp_path / 'tanh_kernel.py'}:{line} cannot run on an NVIDIA GPU" in done.stderr, (
        done.stderr[-800:]
    )
    assert "--backend emulate" in done.stderr


def test_the_gemm_example_becomes_products_of_the_tensor_cores() -> None:
    text = ptx_of(
        """
        import kernel
        a = torch.zeros(256, 512, dtype=torch.bfloat16)
        kernel.Model()(a, a.clone())
        """,
        "examples/gemm",
    )
    assert "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32" in text


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize("shape", ["odd", "large"])
def test_vector_add_runs_on_the_gpu(shape: str) -> None:
    from kernel_lint.verify import VerifyOptions, verify

    folder = Path(__file__).parent / "vector_add"
    options = VerifyOptions(backend="nvptx", lint=False, shapes=(shape,), seeds=2, variants=False)
    report = verify(folder / "generated_kernel.py", folder, options)
    assert report.passed, report.headline
