"""The block of imports at the top: sorted as isort and ruff sort them by default."""

from __future__ import annotations

import sys
from collections import defaultdict

from kernel_lint.packager.graph import Program
from kernel_lint.packager.load import type_only
from kernel_lint.packager.model import ENTRY, Ext
from kernel_lint.packager.rename import Names
from kernel_lint.packager.shake import Kept
from kernel_lint.packager.workspace import prefixes

LINE_LENGTH = 110


class Imports:
    """Writes blocks of imports."""

    def __init__(self, program: Program, kept: Kept, names: Names) -> None:
        self.program = program
        self.kept = kept
        self.names = names
        self._wanted: dict[str, set[str]] | None = None

    def block(self, wanted: list[Ext]) -> list[str]:
        """Return the import lines for ``wanted``, standard library first, each group sorted."""
        plain: set[tuple[str, str | None]] = set()
        members: defaultdict[str, set[tuple[str, str | None]]] = defaultdict(set)
        for external in wanted:
            flat = self.names.of(external)
            if external.attr is not None:
                members[external.module].add((external.attr, None if flat == external.attr else flat))
            elif external.alias == external.module and "." not in external.module and flat == external.alias:
                plain.update((name, None) for name in self._dotted(external.module))
            else:
                plain.add((external.module, flat))
        lines: list[str] = []
        for section in (True, False):
            chosen = sorted(
                (item for item in plain if _standard(item[0]) is section),
                key=lambda item: (item[0], item[1] or ""),
            )
            block = [f"import {name} as {alias}" if alias else f"import {name}" for name, alias in chosen]
            for module in sorted(name for name in members if _standard(name) is section):
                block.extend(_from_lines(module, members[module]))
            if block and lines:
                lines.append("")
            lines.extend(block)
        return lines

    def _dotted(self, top: str) -> set[str]:
        """Return the ``import a.b.c`` statements that the reads of ``a...`` need, ``a`` itself if none."""
        if self._wanted is None:
            chains = [key[1] for key in self.kept.reasons if isinstance(key, tuple) and key[0] == "chain"]
            read = {prefix for chain in dict.fromkeys(chains) for prefix in prefixes(chain)}
            self._wanted = {}
            for name in read & self._imported():
                self._wanted.setdefault(name.partition(".")[0], set()).add(name)
        return self._wanted.get(top) or {top}

    def _imported(self) -> set[str]:
        """Return the dotted modules that the kept modules import as they are."""
        found = set()
        for name in self.kept.modules:
            for site in self.program.modules[name].sites:
                dotted = site.alias.name
                if "." not in dotted or site.alias.asname or site.module != dotted:
                    continue
                if not (site.deferred or site.unit.conditional or type_only(site)):
                    found.add(dotted)
        return found


def _from_lines(module: str, members: set[tuple[str, str | None]]) -> list[str]:
    unaliased = sorted((name for name, alias in members if alias is None), key=_member_key)
    blocks = [
        (_member_key(name), f"from {module} import {name} as {alias}") for name, alias in members if alias
    ]
    if unaliased:
        line = f"from {module} import {', '.join(unaliased)}"
        if len(line) > LINE_LENGTH:
            line = f"from {module} import (\n" + "".join(f"    {name},\n" for name in unaliased) + ")"
        blocks.append((_member_key(unaliased[0]), line))
    return [line for _, block in sorted(blocks) for line in block.split("\n")]


def _member_key(name: str) -> tuple[int, str]:
    if name.isupper() and len(name) > 1:
        return (0, name)
    return (1, name) if name[:1].isupper() else (2, name)


def _standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def unused_but_needed(program: Program, kept: Kept) -> None:
    """Keep, for a script, third-party imports that nothing reads: importing them may have effects."""
    for name in kept.modules:
        module = program.modules[name]
        for site in module.sites:
            if (
                site.deferred
                or site.unit.conditional
                or type_only(site)
                or program.is_local(site)
                or site.star
            ):
                continue
            target = program.site_target(site)
            if isinstance(target, Ext) and not _standard(target.module):
                kept.externals.setdefault(target)
                kept.reasons.setdefault(
                    target, ("entry" if name == ENTRY else name, "its import may have effects")
                )
