"""The roofline, its expressions and its hardware table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workbench_schemas import conforms

from kernel_lint import hardware
from kernel_lint.cli import main
from kernel_lint.errors import KernelLintError
from kernel_lint.tools import expressions, roofline

ROOT = Path(__file__).resolve().parents[2]
GEMM = [
    *("--gpu", "MI300X", "--dtype", "bf16", "--flops-expr", "2*M*N*K", "--bytes-expr", "2*(M*K+N*K+M*N)"),
    *("--grid-blocks", "cdiv(M,BM)*cdiv(N,BN)", "--var", "M=4096", "--var", "N=4096", "--var", "K=4096"),
    *("--var", "BM=256", "--var", "BN=256", "--scope", "kernel"),
]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("2*M*N*K", 2 * 64 * 32 * 16),
        ("-M + +N", -32),
        ("cdiv(M, 48) * max(N, K)", 64),
        ("M // 3 % 5", 21 % 5),
        ("2 ** 10", 1024),
        ("N if M > N else K", 32),
        ("1e3 / 4", 250.0),
    ],
)
def test_expression_value(text: str, value: float) -> None:
    assert expressions.evaluate(text, {"M": 64, "N": 32, "K": 16}) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "__import__('os').system('true')",
        "().__class__",
        "(lambda: 1)()",
        "[1][0]",
        "'a'",
        "True",
        "M.real",
        "open(1)",
        "min(*M)",
        "round(1, ndigits=2)",
        "1 << 4",
        "f'{M}'",
        "(x := 3)",
        "10 ** 10 ** 10",
        "9 ** 99999",
        "(-1) ** 0.5",
        "1 / 0",
        "1e308 * 10",
        "1e999",
        "1j",
        "sqrt(-1)",
        "min(1)",
        "1" * 5000,
        "-" * 1500 + "1",
        "UNKNOWN",
    ],
)
def test_expression_refused(text: str) -> None:
    with pytest.raises(KernelLintError):
        expressions.evaluate(text, {"M": 64})


@given(st.text(max_size=60))
def test_expression_never_raises_anything_else(text: str) -> None:
    try:
        value = expressions.evaluate(text)
    except KernelLintError:
        return
    assert isinstance(value, (int, float))


@given(*(st.integers(1, 10**6) for _ in range(3)))
def test_expression_agrees_with_python(a: int, b: int, c: int) -> None:
    value = expressions.evaluate("2*a*b + c//b - a%c", {"a": a, "b": b, "c": c})
    assert value == 2 * a * b + c // b - a % c


def test_variables_build_on_each_other() -> None:
    assert expressions.parse_variables(["M=512", "BM=128", "T=M//BM"]) == {"M": 512, "BM": 128, "T": 4}


@pytest.mark.parametrize("text", ["BM", "1=2", "a b=3"])
def test_variable_refused(text: str) -> None:
    with pytest.raises(KernelLintError, match="NAME=VALUE"):
        expressions.parse_variables([text])


def test_misspelt_variable_is_named() -> None:
    with pytest.raises(KernelLintError, match="did you mean BLOCK_M"):
        expressions.evaluate("BLOCK_N * 2", {"BLOCK_M": 1})


def test_every_figure_has_a_public_source() -> None:
    for gpu in hardware.GPUS:
        for figure in (gpu.compute_units, gpu.lds_kib, gpu.memory_gb, gpu.bandwidth, *gpu.peaks.values()):
            if figure.value is None:
                assert figure.source is None
            else:
                assert figure.value > 0
                assert figure.source is not None
                assert figure.source.url.startswith("https://")


@pytest.mark.parametrize(
    ("name", "dtype", "peak"),
    [
        ("MI300X", "bf16", 1307.4),
        ("mi300x", "torch.bfloat16", 1307.4),
        ("H100", "float8_e4m3fn", 1978.9),
        ("NVIDIA H200", "fp16", 989.5),
        ("H100-PCIe", "bf16", 756.0),
        ("MI355X", "fp8", 5033.2),
        ("MI355X", "mxfp4", 10066.3),
        ("H20", "bf16", 148.0),
        ("MI308X", "int8", None),
    ],
)
def test_peak(name: str, dtype: str, peak: float | None) -> None:
    assert hardware.get_gpu(name).peak(dtype).value == peak


@pytest.mark.parametrize("name", ["MI300X", "MI308X", "MI355X", "H100", "H20", "H200"])
def test_platforms_of_the_contract(name: str) -> None:
    framework = "FlyDSL" if name.startswith("MI") else "CuteDSL"
    assert hardware.get_gpu(name).framework == framework


def test_unknown_gpu_suggests() -> None:
    with pytest.raises(KernelLintError, match="MI300X"):
        hardware.get_gpu("MI300")


def test_roofline_by_hand() -> None:
    limits = roofline.limits_for("X", "bf16", 100.0, 1000.0, 10)
    work = roofline.Work(tile_flops=1e9, tile_bytes=1e6, grid_blocks=25, time_ms=0.5)
    result = roofline.compute(limits, work)
    assert result.intensity == 1000
    assert result.ridge == 100
    assert result.bound == "compute"
    assert result.roofline_time_ms == pytest.approx(0.25)
    assert result.utilization == pytest.approx(50)
    assert result.achieved_tflops == pytest.approx(50)
    assert result.achieved_gbs == pytest.approx(50)
    assert (result.waves, result.idle_units) == (3, 5)
    assert result.wave_efficiency == pytest.approx(250 / 3)


@given(st.floats(1, 1e12), st.floats(1, 1e9), st.integers(1, 10**5), st.floats(1e-3, 1e3))
def test_utilization_is_the_larger_share(flops: float, moved: float, blocks: int, time_ms: float) -> None:
    limits = roofline.limits_for("MI300X", "bf16")
    result = roofline.compute(limits, roofline.Work(flops, moved, blocks, time_ms))
    shares = (result.percent_peak_tflops, result.percent_peak_bandwidth)
    assert result.utilization == pytest.approx(max(share for share in shares if share is not None))
    assert result.wave_efficiency is not None
    assert 0 < result.wave_efficiency <= 100


@pytest.mark.parametrize(("time_ms", "code"), [("0.110", 0), ("0.117", 2), ("5", 2), ("0.01", 2)])
def test_exit_code(time_ms: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The bound of 2*4096^3 FLOP at 1307.4 TFLOPS is 0.1051 ms; below that no time is possible."""
    assert main(["utilization", *GEMM, "--time-ms", time_ms]) == code
    assert "AMD CDNA 3 Architecture white paper" in capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["utilization", *GEMM, "--time-ms", "0.2", "--output-format", "json"])
    report = json.loads(capsys.readouterr().out)
    conforms("utilization", report)
    assert report["work"]["grid_blocks"] == 256
    assert report["result"]["percent_peak_tflops"] == pytest.approx(52.56, abs=0.01)
    assert report["limits"]["peak"]["source"]["url"].startswith("https://www.amd.com/")
    assert report["pass"] is False


@pytest.mark.parametrize(
    "arguments",
    [
        ["--time-ms", "0"],
        ["--time-ms", "nan"],
        ["--time-ms", "1", "--grid-blocks", "0"],
        ["--time-ms", "1", "--grid-blocks", "1.5"],
        ["--time-ms", "1", "--gpu", "NOPE"],
        ["--time-ms", "1", "--dtype", "fp4"],
        ["--time-ms", "1", "--flops-expr", "0", "--bytes-expr", "0"],
        [],
    ],
)
def test_bad_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["utilization", *GEMM, *arguments]) == 2
    assert capsys.readouterr().err


def test_unknown_gpu_with_given_peaks(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--gpu", "B999", "--peak-tflops", "100", "--bandwidth-gbs", "1000", "--time-ms", "1.4"]
    assert main(["utilization", *GEMM, *arguments]) == 0
    assert "given on the command line" in capsys.readouterr().out


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_list_gpus(output_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["utilization", "--list-gpus", "--output-format", output_format]) == 0
    text = capsys.readouterr().out
    assert all(gpu.name in text for gpu in hardware.GPUS)


def test_script_is_the_command() -> None:
    command = [sys.executable, "tools/compute_utilization.py", *GEMM, "--time-ms", "0.110"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "utilization" in done.stdout


def test_script_without_its_libraries_says_so(tmp_path: Path) -> None:
    for name in ("launcher.py", "compute_utilization.py"):
        (tmp_path / name).write_text((ROOT / "tools" / name).read_text())
    command = [sys.executable, "-S", str(tmp_path / "compute_utilization.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install kernel-lint" in done.stderr
    assert "Traceback" not in done.stderr
