"""Each program prints the same as one file, from an empty folder, or is refused with reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import files, names, run, run_original, write

from kernel_lint.packager import PackageError, package


@pytest.mark.parametrize("name", names())
def test_program(name: str, tmp_path: Path) -> None:
    found = files(name)
    refused = found.pop("refused", None)
    source = tmp_path / "source"
    write(found, source)
    if refused is not None:
        with pytest.raises(PackageError) as caught:
            package(source / "main.py")
        for words in refused.strip().splitlines():
            assert words in str(caught.value)
        assert all(problem.remedy and problem.line for problem in caught.value.problems)
        return
    assert run_original(source) == found["expected.txt"], "the program itself does not print this"
    target = tmp_path / "alone" / "generated_kernel.py"
    target.parent.mkdir()
    result = package(source / "main.py")
    target.write_text(result.text)
    output, errors, code = run(target)
    assert output == found["expected.txt"], f"{errors}\n{result.text}"
    assert code == 0
    assert package(target).text == result.text, "packaging again changes it"
