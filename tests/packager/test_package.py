"""Packaging a workspace with a Model: what is kept, dropped, renamed, refused and written."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kernel_lint.commands.package import command
from kernel_lint.packager import PackageError, PackageResult, explain, package

WORKSPACE = {
    "kernel.py": '''"""The entry."""
from __future__ import annotations

import math
import os
from ops import build, table
from ops import tune as _tune  # unused

DEBUG = os.environ.get("DEBUG")  # read by nothing
WIDTH = 4  # elements


class Model:
    """Doc."""

    def forward(self, x):
        """Doc."""
        # a comment
        return build(x, WIDTH)


def test_model():
    assert Model().forward(1)


print("loaded", math.pi)
if __name__ == "__main__":
    test_model()
''',
    "ops/__init__.py": "from .build import build\nfrom .tables import table\nfrom .tuning import tune\n",
    "ops/build.py": "import math\n\nfrom . import tables\n\nWIDTH = 8\n\n\ndef build(x, width):\n"
    "    from .late import scale\n\n    return tables.table(x) * math.floor(width) * WIDTH * scale(x)\n",
    "ops/tables.py": "TABLE = {}\n\n\ndef register(fn):\n    TABLE[fn.__name__] = fn\n    return fn\n\n\n"
    "@register\ndef one(x):\n    return x\n\n\nTABLE['two'] = one\nOTHER = {}\nOTHER['k'] = 1\n\n\n"
    "def table(x):\n    return TABLE['one'](x)\n",
    "ops/tuning.py": "import argparse\n\n\ndef tune():\n    return argparse\n\n\nprint('tuning')\n",
    "ops/late.py": "def scale(x):\n    return 1\n\n\ndef never():\n    return 2\n",
}
EXPECTED = """import math

TABLE = {}


def register(fn):
    TABLE[fn.__name__] = fn
    return fn


@register
def one(x):
    return x


TABLE['two'] = one


def table(x):
    return TABLE['one'](x)


def scale(x):
    return 1


BUILD_WIDTH = 8


def build(x, width):
    return table(x) * math.floor(width) * BUILD_WIDTH * scale(x)


WIDTH = 4


class Model:
    def forward(self, x):
        return build(x, WIDTH)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    write(tmp_path, WORKSPACE)
    return tmp_path / "kernel.py"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def packaged(folder: Path, **files: str) -> PackageResult:
    write(folder, {name.replace("__", "/") + ".py": text for name, text in files.items()})
    return package(folder / "kernel.py")


def test_text(workspace: Path) -> None:
    assert package(workspace).text == EXPECTED


def test_report(workspace: Path) -> None:
    result = package(workspace)
    report = result.report
    assert report.renames == {"ops.build.WIDTH": "BUILD_WIDTH"}
    assert report.modules == ("kernel", "ops", "ops.build", "ops.tables", "ops.tuning", "ops.late")
    assert "ops.tables.TABLE" in report.kept
    assert "ops.late.never" in report.dropped
    assert {(Path(item.path).name, item.reason) for item in report.effects_dropped} == {
        ("kernel.py", "writes output"),
        ("tuning.py", "writes output"),
    }
    assert report.bytes_in == sum(len(text) for text in WORKSPACE.values())
    assert report.bytes_out == len(result.text)


def test_provenance_points_at_the_source(workspace: Path) -> None:
    result = package(workspace)
    lines = result.text.splitlines()
    for number, (path, line) in result.provenance.items():
        source = Path(path).read_text().splitlines()[line - 1]
        text = lines[number - 1]
        if text.strip() and "BUILD_WIDTH" not in text and "table(x)" not in text:
            assert text.split("#")[0].rstrip() == source.split("#")[0].rstrip()


def test_keep_comments(workspace: Path) -> None:
    text = package(workspace, keep_comments=True).text
    assert "WIDTH = 4  # elements" in text
    assert "        # a comment" in text


def test_explain(workspace: Path) -> None:
    why = explain(workspace, "TABLE")
    assert why.splitlines()[0] == "ops.tables.TABLE is in the result:"
    assert "Model" in why
    assert explain(workspace, "never") == "ops.late.never is not in the result: nothing reads it"
    with pytest.raises(PackageError, match="no module of the workspace has a name 'absent'"):
        explain(workspace, "absent")


def test_model_from_another_module(tmp_path: Path) -> None:
    text = packaged(tmp_path, kernel="from impl import Net as Model\n", impl="class Net:\n    pass\n").text
    assert text == "class Model:\n    pass\n"


def test_environment_before_an_import_stays_before_it(tmp_path: Path) -> None:
    entry = "import os\nos.environ['X_FLAG'] = '1'\nimport torch\nclass Model(torch.nn.Module):\n    pass\n"
    lines = packaged(tmp_path, kernel=entry).text.splitlines()
    assert lines.index("os.environ['X_FLAG'] = '1'") < lines.index("import torch")


def test_reexport_of_an_installed_name_becomes_a_direct_import(tmp_path: Path) -> None:
    text = packaged(
        tmp_path,
        kernel="from shim import js, dumps as d\nclass Model:\n    x = js.loads(d(1))\n",
        shim="import json as js\nfrom json import dumps as dumps\n",
    ).text
    assert text.startswith("import json as js\nfrom json import dumps\n")
    assert "x = js.loads(dumps(1))" in text


def test_inline_takes_in_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    write(site, {"vendored/__init__.py": "", "vendored/ops.py": "def f():\n    return 1\n"})
    monkeypatch.syspath_prepend(str(site))
    folder = tmp_path / "work"
    write(folder, {"kernel.py": "from vendored.ops import f\nclass Model:\n    x = f()\n"})
    assert "from vendored.ops import f" in package(folder / "kernel.py").text
    assert "def f():" in package(folder / "kernel.py", inline=["vendored"]).text


def test_inlining_stops_at_compiled_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    files = {"vendored/__init__.py": "from vendored.lib.core.ops import f\n", "vendored/lib/core.so": ""}
    write(site, files)
    folder = tmp_path / "work"
    write(folder, {"kernel.py": "from vendored import f\nclass Model:\n    g = f\n"})
    monkeypatch.syspath_prepend(str(site))
    with pytest.raises(PackageError, match=r"No module named 'vendored\.lib'"):
        package(folder / "kernel.py", inline=["vendored"])


def test_a_long_text_is_no_file(tmp_path: Path) -> None:
    entry = f"import re\nclass Model:\n    pattern = re.compile('{'x.' * 3000}')\n"
    assert packaged(tmp_path, kernel=entry).text == entry.replace("re\n", "re\n\n\n", 1)


def test_prints_inside_kept_functions_go_and_are_reported(tmp_path: Path) -> None:
    entry = "class Model:\n    def f(self, x):\n        print('f', x)\n        if x:\n            print(x)\n"
    entry += "        print(self.g())\n        return x\n\n    def g(self):\n        print('only')\n"
    result = packaged(tmp_path, kernel=entry)
    body = "    def f(self, x):\n        if x:\n            pass\n        print(self.g())\n        return x\n"
    assert result.text == f"class Model:\n{body}\n    def g(self):\n        pass\n"
    assert [item.line for item in result.report.effects_dropped] == [3, 5, 10]


def test_all_problems_are_shown_at_once(tmp_path: Path) -> None:
    entry = "import importlib\nfrom a import path\nclass Model:\n    def f(self, n):\n"
    entry += "        return importlib.import_module(n), path()\n"
    with pytest.raises(PackageError) as caught:
        packaged(tmp_path, kernel=entry, a="def path():\n    return __file__\n")
    assert [problem.line for problem in caught.value.problems] == [2, 5]
    assert all(problem.remedy for problem in caught.value.problems)


def test_a_chain_of_imports_is_followed_and_one_without_end_is_refused(tmp_path: Path) -> None:
    files = {f"m{n}": f"from m{n + 1} import f\n" for n in range(100)}
    text = packaged(
        tmp_path, kernel="from m0 import f\nclass Model:\n    f = f\n", m100="f = 1\n", **files
    ).text
    assert text == "f = 1\n\n\nclass Model:\n    f = f\n"
    deep = "class Model:\n    f = " + " + ".join(["x"] * 2 * sys.getrecursionlimit()) + "\n"
    with pytest.raises(PackageError, match=r"too deeply|recursion depth"):
        packaged(tmp_path, kernel="x = 1\n" + deep)


def test_nothing_is_left_to_the_collector(workspace: Path) -> None:
    package(workspace)
    gc.collect()
    gc.disable()
    try:
        package(workspace)
        assert gc.collect() < 50, "syntax trees hang in a cycle: the collector takes as long as packaging"
    finally:
        gc.enable()


def test_syntax_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"a\.py:1: not valid Python"):
        packaged(tmp_path, kernel="from a import x\nclass Model:\n    y = x\n", a="x = = 1\n")


class TestCommand:
    def run(self, *words: str | Path) -> tuple[int, str]:
        outcome = CliRunner().invoke(command, [str(word) for word in words], standalone_mode=False)
        if outcome.exception is not None:
            raise outcome.exception
        return outcome.return_value, outcome.output

    def test_writes_file_and_map(self, workspace: Path, tmp_path: Path) -> None:
        out, places = tmp_path / "generated_kernel.py", tmp_path / "map.json"
        code, _ = self.run(workspace, "-o", out, "--map", places)
        assert code == 0
        assert out.read_text() == EXPECTED
        assert json.loads(places.read_text())["lines"]["3"] == [str(tmp_path / "ops/tables.py"), 1]

    def test_json(self, workspace: Path, tmp_path: Path) -> None:
        _, output = self.run(workspace, "-o", tmp_path / "o.py", "--output-format", "json")
        assert json.loads(output)["renames"] == {"ops.build.WIDTH": "BUILD_WIDTH"}

    def test_existing_file_survives_a_refusal(self, tmp_path: Path) -> None:
        write(tmp_path, {"kernel.py": "from a import nope\nclass Model:\n    x = nope\n", "a.py": ""})
        out = tmp_path / "generated_kernel.py"
        out.write_text("precious")
        with pytest.raises(PackageError):
            self.run(tmp_path / "kernel.py", "-o", out)
        assert out.read_text() == "precious"
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "a.py",
            "generated_kernel.py",
            "kernel.py",
        ]

    def test_never_writes_over_the_entry(self, workspace: Path) -> None:
        before = workspace.read_text()
        with pytest.raises(Exception, match="is the entry itself"):
            self.run(workspace, "-o", workspace)
        assert workspace.read_text() == before


def test_an_entry_of_which_nothing_would_be_left_is_refused(tmp_path: Path) -> None:
    for text in ("LIMIT = 3\n\n\ndef helper():\n    return LIMIT\n", "", "# nothing\n"):
        entry = tmp_path / "limits.py"
        entry.write_text(text)

        with pytest.raises(PackageError, match="defines no class Model") as caught:
            package(entry)

        assert caught.value.remedy == "name the file that defines Model"
