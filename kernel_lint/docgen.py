"""Documentation made from the code: rule pages, their index, the table of glue and compute.

``python -m kernel_lint.docgen`` writes the files under ``docs/``; a test fails when they are
not current.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from kernel_lint import registry
from kernel_lint.rule import Rule
from kernel_lint.source import torch_names

ROOT = Path(__file__).parent.parent
_NOTE = "<!-- Made by python -m kernel_lint.docgen; change the source, not this file. -->"


def page(rule: type[Rule]) -> str:
    """Return a rule's page as Markdown, with its heading."""
    head = f"Severity: {rule.severity.value}. Contract: {', '.join(rule.clauses)}."
    return f"# {rule.code} {rule.name}\n\n{head}\n\n{rule.documentation()}"


def generate() -> dict[str, str]:
    """Return the text of every generated file by its path below the repository's root."""
    files = {f"docs/rules/{rule.name}.md": f"{_NOTE}\n\n{page(rule)}\n" for rule in registry.all_rules()}
    files["docs/rules/index.md"] = _index()
    files["docs/glue-and-compute.md"] = _glue()
    return files


def _index() -> str:
    rows = [
        f"| [{r.code}]({r.name}.md) | {r.name} | {r.severity.value} "
        f"| {', '.join(r.clauses)} | {r.summary()} |"
        for r in registry.all_rules()
    ]
    table = "| code | name | severity | clauses | what it does |\n| --- | --- | --- | --- | --- |\n"
    return f"{_NOTE}\n\n# Rules\n\n{table}" + "\n".join(rows) + "\n"


def _glue() -> str:
    sections = [
        ("Allocation", torch_names.ALLOCATION),
        ("Views", torch_names.VIEWS),
        ("Copies and data movement", torch_names.MOVEMENT),
        ("Metadata and set-up", torch_names.METADATA),
    ]
    parts = [
        _NOTE,
        "# Glue and compute",
        "On the path from `Model.forward`, PyTorch may do what the contract's clause P2 calls set-up and "
        "glue. KL203 takes these names of functions and methods for glue:",
    ]
    parts += [f"## {title}\n\n{_words(names)}" for title, names in sections]
    namespaces = ", ".join(f"`{name}`" for name in torch_names.COMPUTE_NAMESPACES)
    holders = ", ".join(f"`{name}`" for name in sorted(torch_names.HOLDERS))
    parts.append(
        "## Compute\n\nEvery other function under `torch` that is called with tensors, all of "
        f"{namespaces}, calls of `torch.nn` layers (but of {holders}), operators on tensors, and `sum`, "
        "`abs`, `pow`, `max`, `min`, `divmod`, `round` of tensors. Integer arithmetic on sizes is glue."
    )
    parts.append(
        "## Moving the line\n\n```toml\n[tool.kernel-lint]\nglue = ['torch.cumsum', 'round']\n"
        "compute = ['cat']\n```\n\nA full path means that function; a bare name means every function and "
        "method of that name."
    )
    return "\n\n".join(parts) + "\n"


def _words(names: frozenset[str]) -> str:
    public = sorted(name for name in names if not name.startswith("_"))
    return textwrap.fill(", ".join(f"`{name}`" for name in public), 110)


def write(root: Path = ROOT) -> list[str]:
    """Write the files that are not current, remove pages of rules that are gone; return their paths."""
    changed = []
    wanted = generate()
    for stale in (root / "docs" / "rules").glob("*.md"):
        if f"docs/rules/{stale.name}" not in wanted:
            stale.unlink()
    for name, text in wanted.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(name)
    return changed


if __name__ == "__main__":
    write()
