"""Every path in every rule's table is found, in one of many spellings."""

from __future__ import annotations

import pytest

from kernel_lint import engine
from kernel_lint.config import Settings
from kernel_lint.registry import all_rules
from kernel_lint.rule import Rule
from kernel_lint.rules._paths import ForbiddenPaths
from kernel_lint.source import SourceModule
from kernel_lint.source.names import canonical

# Reported where something below them is reached.
_OPEN = {"torch.ops", "torch.classes"}
TABLES = [rule for rule in all_rules() if issubclass(rule, ForbiddenPaths)]


def _spellings(path: str) -> list[str]:
    head, _, tail = path.rpartition(".")
    if head == "builtins":
        return [
            f"z = {tail}\n",
            f"import builtins as b\nz = b.{tail}\n",
            f"z = vars(__builtins__)['{tail}']\n",
        ]
    if not head:
        return [f"import {path}\n", f"import {path} as z\n", f"z = __import__('{path}')\n"]
    return [
        f"from {head} import {tail} as q\nz = q\n",
        f"import {head} as h\nz = h.{tail}\n",
        f"import {head} as h\nz = getattr(h, '{tail[:1]}' + '{tail[1:]}')\n",
        f"import importlib\nz = importlib.import_module('{head}').{tail}\n",
        f"import {head}\nT = {{'a': {head}}}\nz = T['a'].{tail}\n",
        f"class C:\n    import {head} as h\n\n    def f(self):\n        return self.h.{tail}\n",
        f"import sys\nz = sys.modules['{head}'].{tail}\n",
        f"import {head} as h\nz = h.__dict__['{tail}']\n",
        f"import {head} as h\ndef f(m=h):\n    return m.{tail}\n",
        f"import operator, {head} as h\nz = operator.attrgetter('{tail}')(h)\n",
        f"import {head} as h\nz = (lambda m: m.{tail})(h)\n",
    ]


@pytest.mark.parametrize("rule", TABLES, ids=lambda rule: rule.code)
def test_every_path_is_found(rule: type[ForbiddenPaths]) -> None:
    for index, path in enumerate(rule.FORBIDDEN):
        if "(" in path or path.startswith("__") or path in _OPEN or path in rule.ALLOWED:
            continue
        assert canonical(path) == path
        spellings = _spellings(path)
        text = spellings[index % len(spellings)]
        assert _found(rule, text), f"{path}: {text}"


def _found(rule: type[Rule], text: str) -> bool:
    return bool(engine.check_module(SourceModule.from_text(text, "kernel.py"), Settings(), rules=[rule]))
