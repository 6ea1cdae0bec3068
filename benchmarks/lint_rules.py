"""What is found, rule by rule, in a folder of cases; with peers beside us in the same run.

    python benchmarks/lint_rules.py CASES [--json FILE]

``CASES/bad/*.py`` begin with ``# expect: RULE-NAME`` and must be flagged by that rule;
``CASES/good/*.py`` begin with ``# ok: RULE-NAME`` and must give no error and no warning. A
peer finds a bad file when it reports anything there that it does not report on an empty
candidate; it cannot name our rules. Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from measure import beside

from kernel_lint import engine
from kernel_lint.config import Settings
from kernel_lint.diagnostics import Severity
from kernel_lint.rules._samples import candidate

PEERS = Path(__file__).with_name("peers")


def main() -> None:
    """Print the table; exit 1 when a case is missed or a good file flagged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bad, good = _files(options.cases / "bad"), _files(options.cases / "good")
    if not bad or not good:
        parser.error(f"{options.cases} holds no bad/*.py or no good/*.py")
    ours = {path: _names(path) for path in [*bad, *good]}
    peers = {
        name: found
        for name, found in ((n, _peer(n, [*bad, *good])) for n in ("ruff", "flake8", "pylint"))
        if found is not None
    }
    total, hit = Counter(bad.values()), Counter(rule for path, rule in bad.items() if rule in ours[path])
    print(f"{'rule':22} {'cases':>6} {'kernel-lint':>12}" + "".join(f"{name:>9}" for name in peers))
    for rule in sorted(total):
        cells = [sum(1 for path, r in bad.items() if r == rule and path in found) for found in peers.values()]
        print(f"{rule:22} {total[rule]:6} {hit[rule]:12}" + "".join(f"{cell:9}" for cell in cells))
    alarms = [path for path in good if ours[path]]
    cells = [sum(1 for path in bad if path in found) for found in peers.values()]
    print(
        f"{'all':22} {sum(total.values()):6} {sum(hit.values()):12}" + "".join(f"{cell:9}" for cell in cells)
    )
    cells = [sum(1 for path in good if path in found) for found in peers.values()]
    print(
        f"{'good files flagged':22} {len(good):6} {len(alarms):12}" + "".join(f"{cell:9}" for cell in cells)
    )
    missed = [path.name for path, rule in bad.items() if rule not in ours[path]]
    if options.json:
        data = {
            "total": total,
            "found": hit,
            "good": len(good),
            "false_alarms": len(alarms),
            "missed": missed,
        }
        options.json.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    if missed or alarms:
        sys.exit(f"missed: {', '.join(missed) or 'none'}; flagged although good: {[p.name for p in alarms]}")


def _files(folder: Path) -> dict[Path, str]:
    """Return the cases of a folder with the rule that the first line of each names."""
    files = {}
    for path in sorted(folder.glob("*.py")):
        first = path.read_bytes().split(b"\n", 1)[0].decode("utf-8", "replace")
        files[path] = first.partition(":")[2].strip()
    return files


def _names(path: Path) -> set[str]:
    """Return the names of the rules that flag a file at error or warning level."""
    found = engine.check_file(path, Settings())
    if isinstance(found, engine.FileError):
        raise SystemExit(str(found))
    return {d.name for d in found if d.severity is not Severity.INFO}


def _peer(name: str, files: list[Path]) -> set[Path] | None:
    """Return the files on which a peer reports more than on a clean candidate."""
    program = beside(name)
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        clean = Path(folder, "clean.py")
        clean.write_text("# clean\n" + candidate(), encoding="utf-8")
        usual = Counter(code for _, code in _reports(name, program, [clean]))
        seen: dict[Path, Counter[str]] = {}
        for path, code in _reports(name, program, files):
            seen.setdefault(path, Counter())[code] += 1
    return {path for path, codes in seen.items() if codes - usual}


def _reports(name: str, program: str, files: list[Path]) -> list[tuple[Path, str]]:
    """Run a peer and return (file, code) for each report."""
    options = {
        "ruff": [
            "check",
            "--no-cache",
            "--config",
            str(PEERS / "ruff-contract.toml"),
            "--output-format",
            "concise",
        ],
        "flake8": ["--isolated", "--select", "E9,F"],
        "pylint": [
            "--score",
            "n",
            "--disable",
            "C,R,import-error",
            "--msg-template",
            "{path}:{line}:{column}: {msg_id} x",
        ],
    }
    done = subprocess.run(
        [program, *options[name], *map(str, files)], capture_output=True, text=True, check=False
    )
    found = []
    for line in done.stdout.splitlines():
        path, _, rest = line.partition(":")
        words = rest.split()
        if path.endswith(".py") and len(words) > 1:
            found.append((Path(path).resolve(), words[1]))
    resolved = {path.resolve(): path for path in files}
    return [(resolved[path], code) for path, code in found if path in resolved]


if __name__ == "__main__":
    main()
