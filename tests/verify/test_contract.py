from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from verify_tasks import ADD, ADD_ONE, HEADER, judge

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import Verdict
from kernel_lint.verify.contract import InvalidTaskError, load_task

_GOOD = {"s": {"init_kwargs": {}, "input_kwargs": {"rows": 1, "columns": 1}}}
_PLUS = HEADER + ADD.reference


def test_a_good_task_loads(tmp_path: Path) -> None:
    task = load_task(ADD.write(tmp_path))
    assert [shape.id for shape in task.shapes] == ["first", "second"]
    assert task.shapes[0].input_kwargs == {"rows": 5, "columns": 12}


@pytest.mark.parametrize("name", ["reference.py", "input.py", "shapes.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    (ADD.write(tmp_path) / name).unlink()
    with pytest.raises(InvalidTaskError, match="does not exist") as caught:
        load_task(tmp_path)
    assert caught.value.file == name


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"s": {"init_kwargs": {}}}, '"s".input_kwargs'),
        ({"s": {"input_kwargs": {}}}, '"s".init_kwargs'),
        ({"s": {"init_kwargs": [], "input_kwargs": {}}}, '"s".init_kwargs'),
        ({"s": {"init_kwargs": {}, "input_kwargs": {"a b": 1}}}, '"s".input_kwargs.a b'),
        ({"s": {**_GOOD["s"], "extra": 1}}, '"s".extra'),
        ({"s": {**_GOOD["s"], "tolerance": {"rtol": -1}}}, '"s".tolerance.rtol'),
        ({"s": 3}, '"s"'),
        ({}, ""),
        ([], ""),
    ],
)
def test_the_field_at_fault_is_named(tmp_path: Path, value: Any, field: str) -> None:
    (ADD.write(tmp_path) / "shapes.json").write_text(json.dumps(value))
    with pytest.raises(InvalidTaskError) as caught:
        load_task(tmp_path)
    assert (caught.value.file, caught.value.field) == ("shapes.json", field)


@pytest.mark.parametrize("text", ["{", b"\xff\xfe", '{"s": 1, "s": 2}', "", "nonsense"])
def test_what_is_not_json_is_one_sentence(tmp_path: Path, text: str | bytes) -> None:
    (ADD.write(tmp_path) / "shapes.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidTaskError) as caught:
        load_task(tmp_path)
    assert caught.value.file == "shapes.json"
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("file", "text", "word"),
    [
        ("reference.py", "x = (", "not valid Python"),
        ("reference.py", "x = 1", "no class Model"),
        ("input.py", "x = 1", "no function _make_inputs"),
        ("reference.py", "x = '\0'", "not valid Python"),
    ],
)
def test_task_files_are_read_without_running_them(tmp_path: Path, file: str, text: str, word: str) -> None:
    (ADD.write(tmp_path) / file).write_text(text)
    with pytest.raises(InvalidTaskError, match=word):
        load_task(tmp_path)


@pytest.mark.parametrize(
    ("reference", "inputs", "words"),
    [
        (None, "def _make_inputs(rows, columns):\n    raise ValueError('boom')\n", ("input.py", "boom")),
        (None, "def _make_inputs(rows, columns):\n    return [1]\n", ("input.py", "_make_inputs")),
        (None, "def _make_inputs(rows):\n    return {}\n", ("input.py", "columns")),
        (
            None,
            "raise ImportError('no such')\n\ndef _make_inputs(rows, columns): pass\n",
            ("input.py", "no such"),
        ),
        (
            None,
            "def _make_inputs(rows, columns):\n    return {'a': torch.ones(1), 'c': torch.ones(1)}\n",
            ("input.py", "'c'"),
        ),
        (
            "class Model(nn.Module):\n    def forward(self, a, b):\n        return 1 / 0\n",
            None,
            ("reference.py", "ZeroDivisionError"),
        ),
        ("class Model:\n    pass\n", None, ("reference.py", "Model")),
        (
            "class Model(nn.Module):\n    def __init__(self, size):\n        super().__init__()\n"
            "    def forward(self, a, b):\n        return a\n",
            None,
            ("reference.py", "size"),
        ),
    ],
)
def test_a_broken_task_is_never_the_candidates_fault(
    tmp_path: Path, reference: str | None, inputs: str | None, words: tuple[str, ...]
) -> None:
    import dataclasses

    text = dataclasses.replace(
        ADD_ONE, reference=reference or ADD_ONE.reference, inputs=inputs or ADD_ONE.inputs
    )
    report = judge(tmp_path, text, _PLUS)
    assert (report.verdict, report.reason, report.exit_code) == (Verdict.INVALID_TASK, Reason.INVALID_TASK, 2)
    assert all(word in report.headline for word in words), report.headline
    assert "\n" not in report.headline
