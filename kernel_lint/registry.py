"""All rules, found by walking the ``rules`` package, and how selectors name them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from functools import lru_cache

from kernel_lint.errors import KernelLintError
from kernel_lint.rule import Rule


@lru_cache(maxsize=1)
def all_rules() -> tuple[type[Rule], ...]:
    """Import every module of the rules package and return its rules, by code.

    A module holds one rule; modules whose name starts with an underscore hold none.
    """
    folder = os.path.join(os.path.dirname(__file__), "rules")
    found: dict[str, type[Rule]] = {}
    for file in sorted(os.listdir(folder)):
        stem, extension = os.path.splitext(file)
        if stem.startswith("_") or extension != ".py":
            continue
        module = importlib.import_module(f"kernel_lint.rules.{stem}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__:
                if value.code in found:
                    raise RuntimeError(
                        f"{value.code} is defined twice: {found[value.code].__module__}, {stem}"
                    )
                found[value.code] = value
    return tuple(found[code] for code in sorted(found))


def find_rule(selector: str) -> type[Rule]:
    """Return the rule of a code or a name; raises KernelLintError with a suggestion."""
    for rule in all_rules():
        if selector.upper() == rule.code or selector.lower() == rule.name:
            return rule
    raise unknown_selector(selector)


def unknown_selector(selector: str) -> KernelLintError:
    """Return the error for a selector that names no rule."""
    import difflib

    known = [name for rule in all_rules() for name in (rule.code, rule.name)]
    near = difflib.get_close_matches(selector, known, 1)
    remedy = f"did you mean {near[0]}?" if near else "`kernel-lint rule --all` lists the rules"
    return KernelLintError(f"no rule is called '{selector}'", remedy)


def expand(selectors: Iterable[str]) -> frozenset[str]:
    """Return the codes that selectors name: ALL, a code, a prefix of codes, or a name."""
    codes: set[str] = set()
    for selector in selectors:
        if selector.upper() == "ALL":
            codes.update(rule.code for rule in all_rules())
            continue
        upper = selector.upper()
        prefixed = {
            rule.code for rule in all_rules() if upper.startswith("KL") and rule.code.startswith(upper)
        }
        named = {rule.code for rule in all_rules() if rule.name == selector.lower()}
        if not prefixed and not named:
            raise unknown_selector(selector)
        codes |= prefixed | named
    return frozenset(codes)
