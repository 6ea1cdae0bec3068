"""Which candidates a command line names, and when two tasks are the same."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fleet_cases import ADD, OPTIONS, write_candidate, write_task

from kernel_lint.diagnostics import Reason
from kernel_lint.errors import KernelLintError
from kernel_lint.verify import VerifyOptions
from kernel_lint.verify.fleet.plan import Plan, Planner, find_candidates
from kernel_lint.verify.isolation import Limits


def names(folder: Path, *arguments: str) -> tuple[list[str], int]:
    candidates, twice = find_candidates([folder / argument for argument in arguments], folder / "task")
    return [str(c.path.relative_to(folder)) for c in candidates], twice


class TestCandidates:
    """Files, folders and patterns; what is missing, broken or named twice."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        write_candidate(tmp_path / "b")
        write_candidate(tmp_path / "a")
        (tmp_path / "loose.py").write_text(ADD)
        return tmp_path

    def test_files_folders_and_patterns(self, folder: Path) -> None:
        found, twice = names(folder, "loose.py", "b", "[ab]")
        assert found == ["loose.py", "b/generated_kernel.py", "a/generated_kernel.py"]
        assert twice == 1

    def test_a_pattern_goes_into_folders(self, folder: Path) -> None:
        found, _ = names(folder, "**/generated_kernel.py")
        assert found == ["a/generated_kernel.py", "b/generated_kernel.py"]

    def test_a_pattern_leaves_out_what_is_no_candidate(self, folder: Path) -> None:
        (folder / "notes.md").write_text("nothing")
        (folder / "b" / "log.txt").write_text("nothing")
        assert names(folder, "*")[0] == ["a/generated_kernel.py", "b/generated_kernel.py", "loose.py"]
        with pytest.raises(KernelLintError, match="a pattern that matches nothing"):
            names(folder, "*.md")

    def test_a_link_is_the_file_that_it_leads_to(self, folder: Path) -> None:
        (folder / "link").symlink_to(folder / "a")
        assert names(folder, "a", "link", "a/../a") == (["a/generated_kernel.py"], 2)

    def test_names_for_nothing_are_all_said_at_once(self, folder: Path) -> None:
        with pytest.raises(KernelLintError, match=r"no such candidate: .*/x, .*/y\* \(a pattern") as error:
            names(folder, "a", "x", "y*")
        assert "generated_kernel.py" in error.value.remedy

    def test_names_that_no_file_can_have_are_missing_too(self, folder: Path) -> None:
        (folder / "loop").symlink_to(folder / "loop")
        for name in ("loop", "x" * 300):
            with pytest.raises(KernelLintError, match="no such candidate"):
                names(folder, name)

    def test_only_the_first_few_of_many(self, folder: Path) -> None:
        with pytest.raises(KernelLintError, match=r"x4 and 4 more"):
            names(folder, *(f"x{i}" for i in range(9)))

    def test_no_name(self) -> None:
        with pytest.raises(KernelLintError, match="no candidate was named"):
            find_candidates([], None)

    def test_a_folder_without_a_file_is_a_candidate_that_failed(self, folder: Path) -> None:
        (folder / "c").mkdir()
        [_, candidate] = find_candidates([folder / "a", folder / "c"], None)[0]
        assert candidate.problem is not None
        assert candidate.problem.reason is Reason.IMPORT_ERROR
        assert candidate.problem.message == f"{folder}/c holds no generated_kernel.py"

    def test_a_folder_of_workspaces_says_how_to_name_them(self, folder: Path) -> None:
        [candidate] = find_candidates([folder], None)[0]
        assert candidate.problem is not None
        assert candidate.problem.message.endswith(f"its folders do: name '{folder}/*'")

    def test_what_cannot_be_read_is_the_machines_fault(self, folder: Path) -> None:
        (folder / "d" / "generated_kernel.py").mkdir(parents=True)
        [candidate] = find_candidates([folder / "d"], None)[0]
        assert candidate.problem is not None
        assert candidate.problem.reason is Reason.ENV_ERROR

    def test_each_has_its_own_task_unless_they_share_one(self, folder: Path) -> None:
        assert find_candidates([folder / "a"], None)[0][0].folder == folder / "a"
        assert find_candidates([folder / "a"], folder / "t")[0][0].folder == folder / "t"


class TestKeys:
    """What decides an outcome is in the key; what does not is not."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        write_task(tmp_path / "task")
        write_candidate(tmp_path / "a")
        return tmp_path

    @staticmethod
    def plan(folder: Path, seed_given: bool = False, name: str = "a", **changes: Any) -> Plan:
        planner = Planner(VerifyOptions(**{**OPTIONS, **changes}), seed_given, True)
        return planner.plan(find_candidates([folder / name], folder / "task")[0][0])

    @staticmethod
    def keys(plan: Plan) -> tuple[str, ...]:
        assert plan.file is not None
        return tuple(task.key for task in (plan.file, *plan.shapes))

    def test_a_file_and_two_shapes_are_three_tasks(self, folder: Path) -> None:
        plan = self.plan(folder)
        assert len(set(self.keys(plan))) == 3
        assert [(t.shape, t.before, t.options.shapes) for t in plan.shapes] == [
            ("first", None, ("first",)),
            ("second", "first", ("second",)),
        ]
        assert plan.file is not None
        assert plan.file.options.shapes == ("first", "second")

    @pytest.mark.parametrize(
        "changes",
        [
            {"backend": "emulate"},
            {"targets": ("gfx942",)},
            {"tolerance": "contract"},
            {"seeds": 3},
            {"variants": True},
            {"timeout": 7.0},
            {"import_timeout": 7.0},
            {"task_timeout": 7.0},
            {"require_launch": True},
            {"torch_share": 0.5},
            {"nondeterministic": True},
            {"isolate": False},
            {"limits": Limits(processes=9)},
            {"threads": 2},
            {"backend_options": {"timing": "off"}},
            {"framework": "cutedsl"},
        ],
    )
    def test_other_options_are_other_tasks(self, folder: Path, changes: dict[str, Any]) -> None:
        assert not set(self.keys(self.plan(folder))) & set(self.keys(self.plan(folder, **changes)))

    @pytest.mark.parametrize(
        "changes", [{"resume": True}, {"state_dir": Path("x")}, {"keep": Path("x")}, {"progress": print}]
    )
    def test_where_things_go_does_not_matter(self, folder: Path, changes: dict[str, Any]) -> None:
        assert self.keys(self.plan(folder)) == self.keys(self.plan(folder, **changes))

    @pytest.mark.parametrize("package", ["torch", "flydsl"])
    def test_another_version_is_another_task(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, package: str
    ) -> None:
        before, known = self.keys(self.plan(folder)), importlib.metadata.version
        monkeypatch.setattr(importlib.metadata, "version", lambda n: "0.1" if n == package else known(n))
        assert not set(before) & set(self.keys(self.plan(folder)))

    def test_a_secret_seed_is_as_good_as_another(self, folder: Path) -> None:
        assert self.keys(self.plan(folder, seed=1)) == self.keys(self.plan(folder, seed=2))
        assert self.keys(self.plan(folder, True, seed=1)) != self.keys(self.plan(folder, True, seed=2))
        assert self.keys(self.plan(folder, True, seed=1)) != self.keys(self.plan(folder, seed=1))

    def test_where_a_candidate_lies_does_not_matter(self, folder: Path) -> None:
        write_candidate(folder / "b")
        assert self.keys(self.plan(folder)) == self.keys(self.plan(folder, name="b"))

    @pytest.mark.parametrize("file", ["reference.py", "input.py", "shapes.json", "../a/generated_kernel.py"])
    def test_any_change_of_a_file_matters(self, folder: Path, file: str) -> None:
        before = self.keys(self.plan(folder))
        path = folder / "task" / file
        path.write_text(path.read_text() + " \n")
        assert not set(before) & set(self.keys(self.plan(folder)))

    def test_the_linters_settings_matter_for_the_file_only(self, folder: Path) -> None:
        before = self.keys(self.plan(folder, lint=True))
        (folder / "pyproject.toml").write_text("[tool.kernel-lint]\nignore = ['KL002']\n")
        after = self.keys(self.plan(folder, lint=True))
        assert [a == b for a, b in zip(before, after, strict=True)] == [False, True, True]

    def test_broken_settings_of_the_linter_are_told_later(self, folder: Path) -> None:
        (folder / "pyproject.toml").write_text("[tool.kernel-lint]\nnonsense = 1\n")
        assert self.plan(folder, lint=True).problem is None

    def test_each_candidate_keeps_its_evidence_apart(self, folder: Path) -> None:
        write_candidate(folder / "b")
        plans = [self.plan(folder, name=name, keep=folder / "kept") for name in ("a", "b")]
        first, second = (plan.shapes[0].options.keep for plan in plans)
        assert first is not None
        assert second is not None
        assert first.parent == second.parent == folder / "kept"
        assert first.name.startswith(f"{folder.name}-a-generated_kernel-")
        assert first != second
        assert self.keys(plans[0]) == self.keys(self.plan(folder))

    def test_a_shape_that_is_not_there(self, folder: Path) -> None:
        with pytest.raises(KernelLintError, match=r"shapes.json has no shape 'third'"):
            self.plan(folder, shapes=("third",))

    def test_chosen_shapes_follow_each_other(self, folder: Path) -> None:
        write_task(folder / "task", shapes={"a": 1, "b": 2, "c": 3})
        plan = self.plan(folder, shapes=("a", "c"))
        assert [(task.shape, task.before) for task in plan.shapes] == [("a", None), ("c", "a")]

    def test_a_broken_task_is_a_problem_of_its_candidates(self, folder: Path) -> None:
        (folder / "task" / "shapes.json").write_text("{}")
        plan = self.plan(folder)
        assert plan.file is None
        assert plan.problem is not None
        assert plan.problem.reason is Reason.INVALID_TASK
        assert plan.problem.message.startswith("shapes.json: has no shapes, so nothing could be verified")

    def test_a_task_names_itself(self, folder: Path) -> None:
        plan = self.plan(folder)
        assert plan.file is not None
        assert replace(plan.file, path=Path("x.py")).name == "x.py file"
        assert plan.shapes[0].name == f"{folder}/a/generated_kernel.py first"
