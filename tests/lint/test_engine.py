"""Selection, suppression, order and parallel runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel_lint import engine, registry
from kernel_lint.config import Settings
from kernel_lint.errors import KernelLintError
from kernel_lint.source import SourceModule

DEVELOPMENT = Settings(select=("KL003", "KL102", "KL101"))


def _codes(source: str, settings: Settings = DEVELOPMENT, path: str = "ops.py") -> list[str]:
    return [d.code for d in engine.check_module(SourceModule.from_text(source, path), settings)]


def test_select_by_code_prefix_and_name() -> None:
    assert registry.expand(["KL102"]) == {"KL102"}
    assert registry.expand(["debug-output"]) == {"KL102"}
    assert {"KL101", "KL102"} <= registry.expand(["KL1"])
    assert registry.expand(["ALL"]) == {rule.code for rule in registry.all_rules()}
    with pytest.raises(KernelLintError, match="no rule is called 'debug-outptu'"):
        registry.expand(["debug-outptu"])


def test_ignore_beats_select_and_extend_select_beats_ignore() -> None:
    assert _codes("print(1)\n", replace(DEVELOPMENT, ignore=("KL1",))) == []
    assert _codes("print(1)\n", replace(DEVELOPMENT, ignore=("KL1",), extend_select=("KL102",))) == ["KL102"]


def test_a_suppression_silences_its_line_only() -> None:
    assert _codes("print(1)  # kernel-lint: allow KL102 shown to the user\n") == []
    assert _codes("# kernel-lint: allow KL102 shown to the user\nprint(1)\n") == []
    assert _codes("print(1)  # kernel-lint: allow KL102 shown\nprint(2)\n") == ["KL102"]
    assert _codes("x = 1  # kernel-lint: allow KL102 shown\nprint(2)\n") == ["KL003", "KL102"]


def test_a_suppression_names_codes_and_a_reason() -> None:
    assert _codes("print(1)  # kernel-lint: allow\n") == ["KL102", "KL003"]
    assert _codes("print(1)  # kernel-lint: allow KL102\n") == ["KL102", "KL003"]
    assert _codes("print(1)  # noqa\n") == ["KL102"]


def test_suppressions_do_not_count_in_a_final_file() -> None:
    source = "print(1)  # kernel-lint: allow KL102 shown\n"
    assert _codes(source, path="generated_kernel.py") == ["KL102", "KL003"]
    assert _codes(source, replace(DEVELOPMENT, final=True)) == ["KL102", "KL003"]


def test_many_files_in_parallel_give_what_one_by_one_gives(tmp_path: Path) -> None:
    for number in range(engine.PARALLEL_FROM + 6):
        (tmp_path / f"m{number}.py").write_text(f"x = {number}\n" * number + "print(1)\n")
    (tmp_path / "broken.py").write_text("x = (\n")
    settings = Settings(select=("KL001", "KL102"))
    together = engine.check_paths([tmp_path], replace(settings, jobs=2))
    alone = engine.check_paths([tmp_path], replace(settings, jobs=1))
    assert together == alone
    assert together.files == engine.PARALLEL_FROM + 7
    assert list(together.diagnostics) == sorted(together.diagnostics, key=lambda d: d.sort_key)


def test_a_rule_that_raises_is_an_error_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = registry.find_rule("KL102")
    check = rule.check

    def failing(self: object, context: Any) -> Any:
        if context.module.path.endswith("a.py"):
            raise ValueError("boom")
        return check(self, context)  # type: ignore[arg-type]

    monkeypatch.setattr(rule, "check", failing)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("print(1)\n")
    result = engine.check_paths([tmp_path], DEVELOPMENT)
    assert result.exit_code == 2
    assert "rule KL102 failed with ValueError: boom" in str(result.errors[0])
    assert [Path(d.path).name for d in result.diagnostics] == ["b.py"]


def test_a_file_named_twice_is_checked_once(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("print(1)\n")
    assert engine.check_paths([path, tmp_path, path], DEVELOPMENT).files == 1


@pytest.mark.parametrize(
    ("source", "path", "expected"),
    [
        ("x = 1\n", "ops.py", False),
        ("x = 1\n", "generated_kernel.py", True),
        ("class Model:\n    pass\n", "kernel.py", True),
        ("import torch.nn as nn\nclass Net(nn.Module):\n    pass\n", "kernel.py", True),
        ("class Model:\n    pass\n", "reference.py", False),
    ],
)
def test_what_counts_as_a_candidate(source: str, path: str, expected: bool) -> None:
    module = SourceModule.from_text(source, path)
    framework = engine.FRAMEWORKS["flydsl"]
    final = engine.is_final(Settings(), path)
    assert engine.is_candidate(module, framework, final) is expected
