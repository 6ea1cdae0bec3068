"""The public reports about kernel evaluators, one test a line; what those got wrong is right here.

The reports about timing are tested with the performance stage (``tests/performance/test_public_timing.py``).
"""

# ruff: noqa: E501 - the candidates are lines of text
from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from verify_tasks import ADD, ADD_ONE, HEADER, ONE_SHAPE, SOFTMAX, judge, task

from kernel_lint.diagnostics import Reason, StageStatus
from kernel_lint.verify import Verdict, VerifyReport, cases
from kernel_lint.verify import judge as judging

_PLUS = HEADER + "class Model(nn.Module):\n    def forward(self, a, b):\n        return a + b\n"
_FOUR = {str(i): {"rows": i, "columns": 8} for i in range(1, 5)}


def _statuses(report: VerifyReport, stage: str) -> dict[str | None, StageStatus]:
    return {result.shape: result.status for result in report.stages if result.stage == stage}


def test_all_zero_softmax_fails_although_its_values_are_small(tmp_path: Path) -> None:
    """ScalingIntelligence/KernelBench#165."""
    zeros = (
        HEADER + "class Model(nn.Module):\n    def forward(self, x):\n        return torch.zeros_like(x)\n"
    )
    assert judge(tmp_path, SOFTMAX, zeros).reason is Reason.VALUE


def test_empty_does_not_find_the_references_result_in_freed_memory(tmp_path: Path) -> None:
    """ScalingIntelligence/KernelBench#38."""
    empty = (
        HEADER + "class Model(nn.Module):\n    def forward(self, a, b):\n        return torch.empty_like(a)\n"
    )
    assert judge(tmp_path, ADD_ONE, empty).reason is Reason.UNWRITTEN


def test_changed_inputs_are_seen_and_the_reference_has_its_own(tmp_path: Path) -> None:
    """ScalingIntelligence/KernelBench#82: with shared inputs both would compute zero, and agree."""
    body = "class Model(nn.Module):\n    def forward(self, a, b):\n        a.zero_(), b.zero_()\n        return a + b\n"
    report = judge(tmp_path, ADD_ONE, HEADER + body)
    assert report.reason is Reason.INPUT_MUTATED
    assert _statuses(report, "correctness") == {"only": StageStatus.FAILED}


_LINEAR = task(
    "class Model(nn.Module):\n    def __init__(self, size):\n        super().__init__()\n"
    "        torch.seed()\n        self.linear = nn.Linear(size, 4)\n    def forward(self, x):\n"
    "        return self.linear(x)\n",
    "def _make_inputs(rows, columns):\n    return {'x': torch.randn(rows, columns)}\n",
    ONE_SHAPE,
    size=16,
)


def test_random_weights_are_copied(tmp_path: Path) -> None:
    """ScalingIntelligence/KernelBench#88: these weights come from the operating system's entropy."""
    assert judge(tmp_path, _LINEAR, HEADER + _LINEAR.reference).verdict is Verdict.PASS


def test_random_weights_that_cannot_be_copied_are_the_tasks_fault(tmp_path: Path) -> None:
    """ScalingIntelligence/KernelBench#88, the other half."""
    report = judge(tmp_path, _LINEAR, HEADER + _LINEAR.reference.replace("linear", "other"))
    assert (report.verdict, report.reason, report.exit_code) == (Verdict.INVALID_TASK, Reason.INVALID_TASK, 2)


def test_memory_of_the_comparison_is_never_the_candidates_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ScalingIntelligence/KernelBench#146."""

    def out_of_memory(*_arguments: Any, **_keywords: Any) -> None:
        raise MemoryError("no room to compare")

    monkeypatch.setattr(cases, "compare", out_of_memory)
    report = judge(tmp_path, ADD_ONE, _PLUS)
    assert (report.verdict, report.reason, report.exit_code) == (Verdict.ERROR, Reason.HARNESS_ERROR, 2)


def test_a_fault_of_ours_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any, **_keywords: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(judging, "load_task", broken)
    report = judge(tmp_path, ADD_ONE, _PLUS)
    assert (report.verdict, report.reason, report.exit_code) == (Verdict.ERROR, Reason.HARNESS_ERROR, 2)
    assert "ZeroDivisionError: a bug" in report.headline


def test_a_crash_does_not_spoil_the_next_shape(tmp_path: Path) -> None:
    """ScalingIntelligence/KernelBench#164."""
    crash = _PLUS.replace(
        "return", "if a.shape[0] == 5: __import__('faulthandler')._sigsegv()\n        return"
    )
    report = judge(tmp_path, ADD, crash)
    assert report.reason is Reason.CRASH
    assert _statuses(report, "correctness") == {"first": StageStatus.FAILED, "second": StageStatus.PASSED}


def test_half_precision_inside_single_fails_and_is_named(tmp_path: Path) -> None:
    """ScalingIntelligence/KernelBench#155."""
    half = _PLUS.replace("a + b", "(a.half() + b.half()).float()")
    report = judge(tmp_path, ADD_ONE, half)
    assert report.reason is Reason.VALUE
    [leaf] = report.failure.data["comparison"]["leaves"]  # type: ignore[union-attr]
    assert "16" in leaf["precision"]["looks_like"] or "half" in leaf["precision"]["looks_like"]


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time = lambda: 0.0\n" + _PLUS,
        _PLUS.replace("return a + b", "return (a + b).as_subclass(type('Lazy', (torch.Tensor,), {}))"),
        "SEEN = {}\n" + _PLUS.replace("return a + b", "return SEEN.setdefault(a.data_ptr(), a + b).clone()"),
    ],
    ids=["timer patched", "lazy tensor", "replayed by pointer"],
)
def test_timers_replays_and_lazy_tensors_are_tampering(tmp_path: Path, source: str) -> None:
    """gpu-mode/reference-kernels#162 and gpu-mode/reference-kernels#142."""
    assert judge(tmp_path, ADD_ONE, source).reason is Reason.TAMPERING


def test_memoisation_by_content_is_tampering(tmp_path: Path) -> None:
    """gpu-mode/reference-kernels#167."""
    memo = _PLUS.replace(
        "return a + b",
        "key = a.numpy().tobytes()\n        if key not in SEEN: SEEN[key] = a + b\n        return SEEN[key].clone()",
    )
    assert judge(tmp_path, ADD_ONE, "SEEN = {}\n" + memo).reason is Reason.TAMPERING


_HUNT = """
HALVES = (b'{first}', b'{second}')


def found():
    with open('/proc/self/maps') as maps:
        spans = [line.split()[0].split('-') for line in maps if ' rw' in line]
    with open('/proc/self/mem', 'rb', 0) as memory:
        for low, high in spans:
            for start in range(int(low, 16), int(high, 16), 1 << 20):
                try:
                    memory.seek(start)
                    block = memory.read((1 << 20) + 64)
                except (OSError, ValueError, OverflowError):
                    break
                at = block.find(HALVES[0])
                while at >= 0:
                    if block[at + len(HALVES[0]):].startswith(HALVES[1]):
                        return True
                    at = block.find(HALVES[0], at + 1)
    return False


class Model(nn.Module):
    def forward(self, a, b):
        return a + b + (float('nan') if found() else 0.0)
"""


@pytest.mark.parametrize("planted", [False, True], ids=["as it is", "with the secret planted"])
def test_the_candidates_process_holds_no_secret(tmp_path: Path, planted: bool) -> None:
    """gpu-mode/pygpubench#23: a candidate that finds the secret in its memory betrays it by a NaN."""
    secret = 7302918465577120493
    text = str(secret)
    source = HEADER + _HUNT.replace("{first}", text[:9]).replace("{second}", text[9:])
    if planted:
        source += "\nKEPT = b''.join(HALVES)\n"
    report = judge(tmp_path, ADD_ONE, source, seed=secret)
    assert report.reason is (Reason.NONFINITE if planted else None), report.headline


def test_nan_does_not_compare_as_anything(tmp_path: Path) -> None:
    """gpu-mode/pygpubench#7."""
    assert (
        judge(tmp_path, ADD_ONE, _PLUS.replace("a + b", "(a + b) * float('nan')")).reason is Reason.NONFINITE
    )


def test_an_unwritable_state_folder_is_said_for_every_shape(tmp_path: Path) -> None:
    """flashinfer-ai/flashinfer-bench#103."""
    (tmp_path / "file").write_text("")
    report = judge(tmp_path, ADD, _PLUS, state_dir=tmp_path / "file" / "state")
    assert (report.verdict, report.reason, report.exit_code) == (Verdict.ERROR, Reason.ENV_ERROR, 2)
    assert _statuses(report, "correctness") == {"first": StageStatus.ERROR, "second": StageStatus.ERROR}


_BF16 = task(
    "class Model(nn.Module):\n    def forward(self, x):\n        return x * 30.0\n",
    "def _make_inputs(rows, columns):\n    return {'x': (1 + torch.rand(rows, columns) / 64).bfloat16()}\n",
)


def test_one_unit_in_the_last_place_passes(tmp_path: Path) -> None:
    """sgl-project/sglang#35795: bf16 at magnitude 30 has steps of 0.125."""
    off_by_one = HEADER + (
        "class Model(nn.Module):\n    def forward(self, x):\n        out = x * 30.0\n"
        "        out[0, 0] = (out.view(torch.int16)[0, 0] + 1).view(torch.bfloat16)\n        return out\n"
    )
    report = judge(tmp_path, _BF16, off_by_one)
    assert report.verdict is Verdict.PASS, report.headline


def test_three_percent_in_single_precision_fail(tmp_path: Path) -> None:
    """tenstorrent/tt-metal#54893."""
    assert judge(tmp_path, ADD_ONE, _PLUS.replace("a + b", "(a + b) * 1.03")).reason is Reason.VALUE


def test_a_kernel_cached_for_one_shape_and_used_for_another_is_seen(tmp_path: Path) -> None:
    """ROCm/FlyDSL#317: shapes run as A, B, A in one process."""
    stale = "ROWS = []\n" + _PLUS.replace(
        "return a + b",
        "ROWS.append(a.shape[0])\n        out = a + b\n        out[ROWS[0]:] = 0\n        return out",
    )
    assert judge(tmp_path, ADD, stale).reason is Reason.VALUE


def test_the_shape_before_runs_once_more(tmp_path: Path) -> None:
    """ROCm/FlyDSL#317, the other way: B's arrival spoils A."""
    spoiled = "LAST = [0]\n" + _PLUS.replace(
        "    def forward",
        "    def __init__(self):\n        super().__init__()\n        LAST[0] += 1\n        self.number = LAST[0]\n\n"
        "    def forward",
    ).replace("return a + b", "return a + b if self.number == LAST[0] else a - b")
    report = judge(tmp_path, ADD, spoiled)
    assert report.reason is Reason.VALUE
    assert "again after shape second" in report.headline


def test_the_second_call_counts(tmp_path: Path) -> None:
    """ROCm/FlyDSL#265."""
    once = "CALLS = []\n" + _PLUS.replace(
        "return", "CALLS.append(1)\n        assert len(CALLS) < 2\n        return"
    )
    assert judge(tmp_path, ADD_ONE, once).reason is Reason.RUNTIME_ERROR


def test_nothing_is_left_for_the_next_candidate(tmp_path: Path) -> None:
    """ROCm/FlyDSL#453: every candidate has a process, a home and cache folders of its own."""
    marker = _PLUS.replace(
        "return a + b",
        "import os\n        path = os.path.join(os.environ['HOME'], 'marker')\n"
        "        first = not os.path.exists(path) or SEEN\n        SEEN.append(open(path, 'w').close())\n"
        "        return a + b if first else a - b",
    )
    for _ in range(2):
        report = judge(tmp_path, ADD, "SEEN = []\n" + marker)
        assert report.verdict is Verdict.PASS, report.headline


def test_seeds_that_a_task_sets_itself_still_give_distinct_inputs(tmp_path: Path) -> None:
    """alibaba/atrex-kernel-agent: "several seeds" were one."""
    seeded = dataclasses.replace(
        ADD_ONE, inputs=ADD_ONE.inputs.replace("    return", "    torch.manual_seed(0)\n    return")
    )
    report = judge(tmp_path, seeded, _PLUS, seeds=5)
    assert report.verdict is Verdict.PASS, report.headline
    [correctness] = [result for result in report.stages if result.stage == "correctness"]
    assert len(set(correctness.data["draws"])) == 5


def test_inputs_that_no_seed_reaches_are_a_harness_error(tmp_path: Path) -> None:
    """alibaba/atrex-kernel-agent, where it cannot be mended."""
    stuck = "from torch import manual_seed\n" + ADD_ONE.inputs.replace(
        "    return", "    manual_seed(0)\n    return"
    )
    report = judge(tmp_path, dataclasses.replace(ADD_ONE, inputs=stuck), _PLUS, seeds=5)
    assert (report.verdict, report.reason) == (Verdict.ERROR, Reason.HARNESS_ERROR)


def test_a_crash_at_the_third_of_four_is_not_a_success_of_the_rest(tmp_path: Path) -> None:
    """SOL-ExecBench: reported as 2/2 passed."""
    four = dataclasses.replace(ADD_ONE, shapes=_FOUR)
    crash = _PLUS.replace("return", "if a.shape[0] == 3: __import__('os')._exit(0)\n        return")
    report = judge(tmp_path, four, crash)
    assert (report.verdict, report.exit_code) == (Verdict.FAIL, 1)
    good, bad = StageStatus.PASSED, StageStatus.FAILED
    assert _statuses(report, "correctness") == {"1": good, "2": good, "3": bad, "4": good}


def test_what_our_backend_cannot_run_is_not_blamed_on_the_candidate(tmp_path: Path) -> None:
    """An operation that the emulator does not know ends in HARNESS_ERROR and exit 2, never in FAIL."""
    body = (
        "from kernel_lint.emulator.options import parse_checks\n\n\nclass Model(nn.Module):\n"
        "    def forward(self, a, b):\n        parse_checks('none of ours')\n"
    )
    report = judge(tmp_path, ADD_ONE, HEADER + body)
    assert report.reason is Reason.HARNESS_ERROR
    assert report.exit_code == 2


def test_a_write_into_an_allocators_slack_is_seen(tmp_path: Path) -> None:
    """pytorch/pytorch#45294: allocators round sizes up, and what lies beyond the end harms no one at first."""
    body = (
        "import ctypes\n\n\nclass Model(nn.Module):\n    def forward(self, a, b):\n        out = torch.empty_like(a)\n"
        "        torch.add(a, b, out=out)\n"
        "        ctypes.memset(out.data_ptr() + out.numel() * 4, 7, 4)\n        return out\n"
    )
    report = judge(tmp_path, ADD_ONE, HEADER + body)
    assert report.reason is Reason.OUT_OF_BOUNDS, report.headline
    assert "bytes 0 to 3 after the data of a tensor" in report.headline


def test_flydsls_cache_is_off_in_one_run_and_on_in_the_next(tmp_path: Path) -> None:
    """ROCm/FlyDSL#265: it was the second call without the cache that crashed."""
    body = (
        "import os\n\nSEEN = []\n\n\nclass Model(nn.Module):\n    def forward(self, a, b):\n"
        "        SEEN.append(os.environ.get('FLYDSL_RUNTIME_ENABLE_CACHE'))\n"
        "        assert SEEN[:3] != ['0', '1', '1'], 'both'\n        return a + b\n"
    )
    report = judge(tmp_path, ADD_ONE, HEADER + body)
    assert report.reason is Reason.RUNTIME_ERROR
    assert "both" in report.headline


# What went wrong elsewhere, in a few words; the tests name the report that they are about.
PUBLIC_REPORTS = {
    "ScalingIntelligence/KernelBench#165": "zeros pass where values are small",
    "ScalingIntelligence/KernelBench#38": "freed memory still holds the right answer",
    "ScalingIntelligence/KernelBench#82": "inputs changed before the reference saw them",
    "ScalingIntelligence/KernelBench#88": "weights differ",
    "ScalingIntelligence/KernelBench#146": "the comparison's memory blamed on the candidate",
    "ScalingIntelligence/KernelBench#164": "a crash spoils what follows",
    "ScalingIntelligence/KernelBench#155": "half precision sold as speed",
    "gpu-mode/reference-kernels#162": "timers, replays and lazy results",
    "gpu-mode/reference-kernels#142": "replay by address",
    "gpu-mode/reference-kernels#167": "replay by content",
    "gpu-mode/pygpubench#23": "the secret found in memory",
    "gpu-mode/pygpubench#7": "NaN equals anything",
    "gpu-mode/pygpubench#49": "cache lines that survive the flush",
    "pytorch/helion#2994": "work on a stream that is not timed",
    "triton-lang/triton#8948": "a time of zero",
    "flashinfer-ai/flashinfer#2145": "a profiler that sees nothing",
    "flashinfer-ai/flashinfer-bench#103": "a device left out silently",
    "sgl-project/sglang#35795": "an absolute bound at a large magnitude",
    "tenstorrent/tt-metal#54893": "a bound that hides three percent",
    "ROCm/FlyDSL#317": "a kernel of another shape",
    "ROCm/FlyDSL#265": "the second call without a cache",
    "ROCm/FlyDSL#453": "a stale artifact",
    "deepseek-ai/DeepGEMM#68": "the flush came too early",
    "pytorch/pytorch#45294": "writes into an allocator's slack",
    "alibaba/atrex-kernel-agent": "several seeds that were one",
    "SOL-ExecBench": "a crash counted as the rest's success",
}


def test_every_public_report_has_a_test_that_names_it() -> None:
    here = Path(__file__)
    files = (here, here.parents[1] / "performance" / "test_public_timing.py")
    functions = [
        node
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    named = " ".join(ast.get_docstring(function) or "" for function in functions)
    words = {word.strip(".,:;") for word in named.split()}
    assert [report for report in PUBLIC_REPORTS if report not in words] == []
