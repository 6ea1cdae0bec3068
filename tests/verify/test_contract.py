from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from verify_tasks import ADD, ADD_ONE, HEADER, OPTIONS, judge

from kernel_lint.diagnostics import Reason
from kernel_lint.verify import Verdict, VerifyOptions, verify
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
        ({"\ud800": _GOOD["s"]}, r"'\ud800'"),
        ({}, ""),
        ([], ""),
    ],
)
def test_the_field_at_fault_is_named(tmp_path: Path, value: Any, field: str) -> None:
    (ADD.write(tmp_path) / "shapes.json").write_text(json.dumps(value))
    with pytest.raises(InvalidTaskError) as caught:
        load_task(tmp_path)
    assert (caught.value.file, caught.value.field) == ("shapes.json", field)


@pytest.mark.parametrize(
    "text", ["{", b"\xff\xfe", '{"s": 1, "s": 2}', "", "nonsense", "[" * 99999, "[" + "9" * 5000 + "]"]
)
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


_FORWARD = "class Model(nn.Module):\n    def forward(self, a, b):\n        "


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        (
            "shapes.json",
            '{"s": {"init_kwargs": {}}}',
            'shapes.json: "s".input_kwargs: is missing; add "input_kwargs": {} to the entry',
        ),
        (
            "shapes.json",
            '{"s": {"init_kwargs": {}, ',
            "shapes.json: line 1 column 27: is not JSON (Expecting property name enclosed in double quotes)",
        ),
        ("input.py", "x = (", "input.py: line 1: is not valid Python ('(' was never closed)"),
        (
            "input.py",
            "def _make_inputs(rows, columns):\n    raise ValueError('boom\\nand more')\n",
            'input.py: _make_inputs for shape "only": raised ValueError: boom',
        ),
        (
            "input.py",
            "import torch\n\n\ndef _make_inputs(rows, columns):\n    return {'a': torch.ones(1), 'c': 1}\n",
            "input.py: _make_inputs: its keys ['a', 'c'] do not fit Model.forward(self, a, b) "
            "(missing a required argument: 'b')",
        ),
        (
            "input.py",
            "def _make_inputs(rows, columns):\n    return {'a': object(), 'b': 1}\n",
            "input.py: _make_inputs: its result cannot be used: the value at ['a'] is a object: neither a "
            "tensor nor plain data; return tensors, dicts, tuples, lists, None or Python numbers and strings",
        ),
        (
            "reference.py",
            HEADER + _FORWARD + "return 1 / 0\n",
            'reference.py: Model.forward for shape "only": raised ZeroDivisionError at line 6: division',
        ),
        (
            "reference.py",
            HEADER + _FORWARD + "import os; os._exit(3)\n",
            "reference.py: its process ended itself with exit status 3 (shape only)",
        ),
        (
            "reference.py",
            "import nosuchmodule\n\nclass Model: pass\n",
            "reference.py: import: raised ModuleNotFoundError at line 1: No module named 'nosuchmodule'",
        ),
    ],
)
def test_the_sentence_names_file_and_field_once(tmp_path: Path, file: str, text: str, sentence: str) -> None:
    ADD_ONE.write(tmp_path / "task")
    (tmp_path / "task" / file).write_text(text)
    (tmp_path / "generated_kernel.py").write_text(_PLUS)
    options = VerifyOptions(**{**OPTIONS, "state_dir": tmp_path / "state"})
    report = verify(tmp_path / "generated_kernel.py", tmp_path / "task", options)
    assert report.exit_code == 2
    assert report.headline.startswith(f"INVALID_TASK: {sentence}")
    assert "\n" not in report.headline
