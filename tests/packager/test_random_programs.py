"""Random programs of several modules print the same before and after packaging."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from generator import Program, programs
from hypothesis import HealthCheck, assume, given, settings

from kernel_lint.packager import package


def run_in(folder: Path, files: dict[str, str], main: str) -> str:
    """Run ``main`` in this process with only ``folder`` before the standard library; return its output."""
    output = io.StringIO()
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    main_module = ModuleType("__main__")
    saved, sys.modules["__main__"] = sys.modules["__main__"], main_module
    try:
        with contextlib.redirect_stdout(output):
            try:
                exec(compile(main, "main.py", "exec", dont_inherit=True), main_module.__dict__)  # noqa: S102
            except Exception as error:
                print(type(error).__name__)  # noqa: T201 - part of the program's output
    finally:
        sys.modules["__main__"] = saved
        sys.path.remove(str(folder))
        sys.path_importer_cache.clear()
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in {path.partition("/")[0].removesuffix(".py") for path in files}:
                del sys.modules[name]
    return output.getvalue()


def as_model(program: Program) -> Program:
    """Return a program whose entry has a Model that gives what the entry printed at its end."""
    lines = program.files["main.py"].rstrip("\n").split("\n")
    shown: list[str] = []
    while lines and lines[-1].startswith("print("):
        shown.insert(0, lines.pop().removeprefix("print"))
    body = ["class Model:", "    def forward(self):", f"        return [{', '.join(shown)}]"]
    return Program({**program.files, "main.py": "\n".join([*lines, *body]) + "\n"})


def check(program: Program, tail: str) -> None:
    """Compare what the program and its packaged form print: all of it, or only what ``tail`` does."""

    def shown(output: str) -> str:
        return output.rstrip("\n").rpartition("\n")[2] if tail else output

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in program.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        expected = run_in(folder, program.files, program.files["main.py"] + tail)
        # A statement that only fails is no effect that the packager keeps; programs are those that work.
        assume("Error" not in expected)
        result = package(folder / "main.py")
        empty = folder / "empty"
        empty.mkdir()
        got = run_in(empty, program.files, result.text + tail)
        assert shown(got) == shown(expected), (
            f"{program}\n--- packaged\n{result.text}\n--- expected\n{expected}\n--- got\n{got}"
        )
        single = empty / "generated_kernel.py"
        single.write_text(result.text)
        again = package(single).text
        assert again == result.text, f"{program}\n--- packaged\n{result.text}\n--- packaged twice\n{again}"


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs())
def test_same_output(program: Program) -> None:
    check(program, "")


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs())
def test_same_model(program: Program) -> None:
    check(as_model(program), "\nprint(Model().forward())\n")
