"""The baseline's gate, memory, report and commit, from test results made up here.

The executor is a stand-in that prints a prepared RESULT_JSON line; the walkthrough runs the real thing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from workbench_schemas import conforms

from kernel_lint.errors import KernelLintError
from kernel_lint.tools import baseline, kernel_cases, measured, workspace
from kernel_lint.tools.kernel_test import RESULT_MARK, KernelTestResult
from kernel_lint.tools.memory_store import Edits, MemoryStore
from kernel_lint.tools.sandbox_spec import Run, RunResult

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHAPES = list(json.loads((EXAMPLES / "gemm/shapes.json").read_text()))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "gemm"
    workspace.create(folder, EXAMPLES / "gemm/reference.py", "mi300x")
    return folder


@pytest.fixture
def made(tmp_path: Path, template: Path) -> workspace.Workspace:
    shutil.copytree(template, tmp_path / "gemm")
    return workspace.Workspace.open(tmp_path / "gemm")


def case(name: str, status: str = "PASS", seed: int = 0, **more: Any) -> kernel_cases.CaseResult:
    launches = [{"kernel": "gemm_tile", "grid": [2, 2, 1], "block": [256, 1, 1]}]
    data = {
        "launches": launches,
        "compile": {"kernels": [{"kernel": "gemm_tile", "vgprs": 88, "lds_bytes": 20480}]},
    }
    values = {"rel_err": 0.002, "threshold": 0.01, "checks": 1, "data": data} | more
    return kernel_cases.CaseResult(name, name.split("/")[0].split(" ")[0], seed, status, **values)


def result(cases: list[kernel_cases.CaseResult], performance: dict[str, Any] | None = None) -> dict[str, Any]:
    return KernelTestResult("v0", "emulate", "gfx942", tuple(cases), performance, "kernel.py").to_json()


@dataclass
class PreparedExecutor:
    """Prints one prepared result a run and remembers the commands."""

    results: list[dict[str, Any]]
    commands: list[tuple[str, ...]] = field(default_factory=list)
    exit_code: int = 0

    def run(self, run: Run, output: Path | None = None) -> RunResult:
        assert output is not None
        self.commands.append(run.command)
        output.write_text(f"some lines\n{RESULT_MARK}{json.dumps(self.results.pop(0))}\n")
        return RunResult(self.exit_code, "exited", "", 1.0)


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def run(
    made: workspace.Workspace, results: list[dict[str, Any]], **options: Any
) -> tuple[baseline.Baseline, str | None, PreparedExecutor]:
    executor = PreparedExecutor(results)
    found, commit = baseline.run(made, executor, baseline.BaselineOptions(**options), lambda message: None)
    return found, commit, executor


def good() -> list[dict[str, Any]]:
    return [
        result([case(shape) for shape in SHAPES]),
        result([case(f"{shape} seed 1", seed=1) for shape in SHAPES]),
    ]


def timed(made: workspace.Workspace, microseconds: float = 10.0) -> dict[str, Any] | None:
    data = {
        "microseconds": {"candidate": {"value": microseconds}, "reference": {"value": 2 * microseconds}},
        "device": {"name": "MI300X"},
        "method": "events",
    }
    cases = [case(shape, data={"performance": data}) for shape in SHAPES]
    return measured.performance(made, cases)


def test_a_good_baseline_is_committed(made: workspace.Workspace) -> None:
    found, commit, executor = run(made, good(), multi_seed=1)
    assert found.passed
    conforms("baseline", found.to_json() | {"commit": commit})
    assert git(made.folder, "log", "-1", "--format=%H %s") == f"{commit} V0: baseline kernel\n"
    files = set(git(made.folder, "show", "--format=", "--name-only", "HEAD").split())
    assert files == set(workspace.BASELINE_FILES)
    assert git(made.folder, "status", "--short") == ""
    base = ("python", "test_kernel.py", "--version", "v0", "--no-memory")
    assert executor.commands == [base, (*base, "--multi-seed", "1")]


def test_unmeasured_fields_are_null(made: workspace.Workspace) -> None:
    run(made, good(), multi_seed=1)
    memory = MemoryStore(made.folder).read("v0")
    performance = memory["performance"]
    assert {name: value for name, value in performance.items() if value is not None} == {"per_shape": []}
    assert memory["isa_metric_progress"]["vgpr"] == 88
    assert memory["isa_metric_progress"]["sgpr"] is None
    assert memory["correctness"]["seeds"] == [0, 1]
    assert memory["git_commit_hash"] == git(made.folder, "rev-parse", "HEAD~1").strip()
    assert "not measured" in (made.folder / "baseline_report.md").read_text()


@pytest.mark.parametrize(
    ("status", "failing"),
    [("FAIL", {"base seed"}), ("ERROR", {"base seed"}), ("TIMEOUT_FAIL", {"base seed", "no TIMEOUT_FAIL"})],
)
def test_a_bad_base_run_is_not_committed(made: workspace.Workspace, status: str, failing: set[str]) -> None:
    bad = result([case(SHAPES[0]), case(SHAPES[1], status, message="why")])
    found, commit, executor = run(made, [bad], multi_seed=3)
    assert (found.passed, commit) == (False, None)
    assert {check.name for check in found.checks if check.passed is False} == failing
    assert len(executor.commands) == 1
    report = (made.folder / "baseline_report.md").read_text()
    assert "Quality gate: **FAILED**" in report
    assert f"TIMEOUT_FAIL: {SHAPES[1] if status == 'TIMEOUT_FAIL' else 'none'}." in report
    memory = MemoryStore(made.folder).read("v0")
    assert memory["quality_gate"]["passed"] is False
    assert git(made.folder, "log", "-1", "--format=%s") == "Set up the workspace\n"


def test_an_error_over_the_limit_fails_whatever_the_status(made: workspace.Workspace) -> None:
    found, commit, _ = run(made, [result([case(SHAPES[0], rel_err=0.02)])], multi_seed=0)
    assert commit is None
    assert [check.name for check in found.checks if check.passed is False] == ["rel_err"]


def test_a_bad_further_seed_fails(made: workspace.Workspace) -> None:
    bad = result([case(f"{SHAPES[0]} seed 1", "FAIL", seed=1, message="off")])
    found, commit, _ = run(made, [good()[0], bad], multi_seed=1)
    assert commit is None
    assert [check.name for check in found.checks if check.passed is False] == ["further seeds"]
    assert MemoryStore(made.folder).read("v0")["correctness"]["status"] == "failed"


def test_it_can_be_repeated_until_it_is_committed(made: workspace.Workspace) -> None:
    run(made, [result([case(SHAPES[0], "FAIL", message="x")])])
    MemoryStore(made.folder).update("v0", Edits.parse(("optimization.configuration.tile=128x128x32",)))
    _, commit, _ = run(made, good(), multi_seed=1)
    assert commit is not None
    assert "- tile: 128x128x32" in (made.folder / "baseline_report.md").read_text()
    with pytest.raises(KernelLintError, match="committed already"):
        run(made, good(), multi_seed=1)


def test_no_commit_when_asked(made: workspace.Workspace) -> None:
    found, commit, _ = run(made, good(), multi_seed=1, commit=False)
    assert (found.passed, commit) == (True, None)


def test_local_modules_are_committed_too(made: workspace.Workspace) -> None:
    (made.folder / "ops").mkdir()
    (made.folder / "ops/__init__.py").write_text("X = 1\n")
    (made.folder / "helper.py").write_text("Y = 1\n")
    (made.folder / "kernel.py").write_text("import helper\nfrom ops import X\n")
    run(made, good(), multi_seed=1)
    files = set(git(made.folder, "show", "--format=", "--name-only", "HEAD").split())
    assert files == {*workspace.BASELINE_FILES, "ops/__init__.py", "helper.py"}


def test_performance_of_a_timed_run(made: workspace.Workspace) -> None:
    performance = timed(made)
    assert performance is not None
    row = performance["per_shape"][0]
    flops, moved = 2 * 256 * 256 * 512, 2 * (256 * 512 * 2 + 256 * 256)
    assert row["tflops"] == pytest.approx(flops / 10 / 1e6)
    assert row["gbs"] == pytest.approx(moved / 10 / 1e3)
    assert row["percent_peak_tflops"] == pytest.approx(100 * flops / 1e7 / 1307.4)
    assert row["percent_peak_bandwidth"] == pytest.approx(100 * moved / 1e4 / 5300)
    assert row["speedup"] == 2
    assert performance["latency_us"] == pytest.approx(10)


def test_a_timed_baseline_reports_and_remembers(made: workspace.Workspace) -> None:
    base = good()[0] | {"performance": timed(made)}
    found, _, _ = run(made, [base], multi_seed=0)
    conforms("test-kernel", found.base)
    conforms("utilization", {key: value for key, value in found.utilization[0].items() if key != "shape"})
    assert [entry["result"]["waves"] for entry in found.utilization] == [1] * len(SHAPES)
    memory = MemoryStore(made.folder).read("v0")
    assert memory["performance"]["latency_us"] == pytest.approx(10)
    assert len(memory["performance"]["per_shape"]) == len(SHAPES)
    report = (made.folder / "baseline_report.md").read_text()
    assert "not measured" not in report
    assert "| whole_tiles | memory |" in report or "| whole_tiles | compute |" in report


def test_times_of_failed_cases_do_not_count(made: workspace.Workspace) -> None:
    data = {"performance": {"microseconds": {"candidate": {"value": 1.0}}}}
    assert measured.performance(made, [case(SHAPES[0], "FAIL", data=data)]) is None


def test_a_peak_that_nobody_publishes_gives_no_share(made: workspace.Workspace) -> None:
    hopper = workspace.Workspace(made.folder, workspace.get_gpu("MI308X"), ())
    data = {"performance": {"microseconds": {"candidate": {"value": 1.0}}}}
    found = measured.performance(hopper, [case(SHAPES[0], data=data)])
    assert found is not None
    assert found["per_shape"][0]["speedup"] is None
    assert found["speedup"] is None


def test_a_run_that_broke_is_an_error(made: workspace.Workspace) -> None:
    executor = PreparedExecutor(deepcopy(good()), exit_code=2)
    with pytest.raises(KernelLintError, match="ended with 2"):
        baseline.run(made, executor, baseline.BaselineOptions(), lambda message: None)
    assert not list((made.folder / "memory").glob("v*.json"))
