"""Shared memory beyond what PTX takes in variables, dynamic LDS, and assembly that only waits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from test_nvptx import ptx_of, run

from kernel_lint.nvptx.shared import NAME, STATIC_BYTES, gather

pytestmark = pytest.mark.flydsl
_ENTRY = ".version 8.0\n.target sm_90\n.address_size 64\n\n\t// .globl k\n.visible .entry k()\n{\n"


def _text(*lines: str) -> str:
    return _ENTRY + "".join(f"\t{line}\n" for line in lines) + "\tret;\n}\n"


def test_variables_that_fit_stay_as_they_are() -> None:
    text = _text(
        f".shared .align 16 .b8 a[{STATIC_BYTES - 4}];", ".shared .align 4 .b32 b;", "mov.b64 %rd1, b;"
    )
    assert gather(text) == (text, 0)


def test_variables_that_do_not_fit_lie_one_behind_the_other() -> None:
    text = _text(
        ".shared .align 4 .b8 lds_1[40001];",
        ".shared .align 16 .b8 lds_10[24576];",
        "mov.b64 %rd1, lds_10;",
        "ld.shared.b32 %r1, [lds_1+12];",
        "st.shared.b32 [lds_10 + -4], %r1;",
        "mov.b64 %rd2, my.lds_1;",
    )
    made, size = gather(text)
    # 40,001 rounded up to 16 bytes.
    assert size == 40016 + 24576
    assert f"mov.b64 %rd1, {NAME}+40016;" in made
    assert f"ld.shared.b32 %r1, [{NAME}+12];" in made
    assert f"st.shared.b32 [{NAME}+40012], %r1;" in made
    assert "mov.b64 %rd2, my.lds_1;" in made
    assert re.findall(r"\.shared \.align.*", made) == [f".shared .align 16 .b8 {NAME}[];"]
    assert made.index(f".extern .shared .align 16 .b8 {NAME}[];") < made.index(".entry")


def test_the_dynamic_lds_begins_behind_the_variables() -> None:
    text = ".extern .shared .align 1024 .b8 dynamic[];\n" + _text(
        ".shared .align 4 .b8 few[20];", "mov.b64 %rd1, dynamic;", "mov.b64 %rd2, few;"
    )
    made, size = gather(text)
    assert size == 1024
    assert f"mov.b64 %rd1, {NAME}+1024;" in made
    assert f"mov.b64 %rd2, {NAME}+0;" in made


@pytest.mark.parametrize("static", [True, False])
def test_a_launch_asks_for_the_lds_of_its_workgroup(static: bool) -> None:
    done = run(
        f"""
        import reverse
        reverse.case({static})
        print(driver.shared, driver.texts[-1].count("bar.sync"), driver.texts[-1].count(".extern .shared"))
        """,
        "tests/nvptx/lds",
    )
    assert done.stdout.split() == ["65536", "1", "1"], done.stderr


_ASSEMBLY = """
from flydsl._mlir.dialects import llvm
@flyc.kernel(known_block_size=[64, 1, 1])
def wait(X: fx.Tensor):
    llvm.InlineAsmOp(None, [], {text!r}, "", has_side_effects=True)
    X[fx.thread_idx.x] = fx.Float32(1.0)
@flyc.jit
def launch(X: fx.Tensor):
    wait(X).launch(grid=(1, 1, 1), block=(64, 1, 1))
launch(torch.zeros(64))
"""


@pytest.mark.parametrize(
    ("text", "barriers"),
    [
        ("s_waitcnt vmcnt(0) lgkmcnt(0)", 0),
        ("s_nop 7\n", 0),
        ("s_waitcnt vmcnt(3)\ns_barrier", 1),
        ("s_setprio 1\n\n\ts_barrier\n\ts_setprio 0", 1),
    ],
)
def test_assembly_that_waits(text: str, barriers: int, tmp_path: Path) -> None:
    (tmp_path / "asm_kernel.py").write_text(
        "import torch\nimport flydsl.compiler as flyc\nimport flydsl.expr as fx\n"
        + _ASSEMBLY.format(text=text)
    )
    assert ptx_of(f"sys.path.insert(0, {str(tmp_path)!r})\nimport asm_kernel").count("bar.sync") == barriers


@pytest.mark.parametrize("text", ["v_mov_b32 v0, 0", "s_waitcnt vmcnt(0); s_endpgm", "s_barrier_signal -1"])
def test_other_assembly_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "asm_kernel.py").write_text(
        "import torch\nimport flydsl.compiler as flyc\nimport flydsl.expr as fx\n"
        + _ASSEMBLY.format(text=text)
    )
    done = run(f"sys.path.insert(0, {str(tmp_path)!r})\nimport asm_kernel")
    assert done.returncode == 1
    assert re.search(r"asm_kernel.py:\d+ cannot run on an NVIDIA GPU: it is inline assembly", done.stderr)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize("static", [True, False])
def test_numbers_go_through_64_kib_on_the_gpu(static: bool) -> None:
    code = f"""
    from kernel_lint.nvptx.session import install_on_gpu
    session.close()
    install_on_gpu()
    import reverse
    got, want = reverse.case({static}, "cuda")
    print(torch.equal(got, want))
    """
    done = run(code, "tests/nvptx/lds")
    assert done.stdout.split() == ["True"], done.stderr


def test_more_than_a_block_may_have_is_an_error_with_both_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    from test_nvptx_driver import install_bindings

    from kernel_lint.errors import KernelLintError
    from kernel_lint.nvptx.driver import CudaDriver

    asked = install_bindings(monkeypatch)
    driver = CudaDriver()
    driver.launch(1, (1, 1, 1), (64, 1, 1), 65536, 0, [])
    assert asked == [65536]
    with pytest.raises(
        KernelLintError, match=r"asks for 262,144 bytes of LDS; a block of this GPU has up to 232,448"
    ):
        driver.launch(1, (1, 1, 1), (64, 1, 1), 262144, 0, [])
