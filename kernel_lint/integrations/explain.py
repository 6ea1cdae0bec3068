"""What an agent has to know: the contract, the rules, how it is judged, and what is missing now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernel_lint import gate, registry
from kernel_lint.engine import FINAL_NAME
from kernel_lint.integrations.clauses import CLAUSES, EVALUATION
from kernel_lint.integrations.stop_hook import is_workspace

SCHEMA_VERSION = 1
COMMANDS = {
    "kernel-lint finalize DIR --backend BACKEND": "package, lint, verify; writes the file when all pass",
    "kernel-lint FILE --fix": "lint, and apply the safe fixes",
    "kernel-lint rule CODE": "a rule's page: why, what is allowed, how to fix it",
    "kernel-lint verify FILE --backend BACKEND": "run it against the reference",
    "kernel-lint gate DIR": "what still stands in the way",
    "kernel-lint doctor": "what this machine can verify with",
}


def explain(folder: Path) -> dict[str, Any]:
    """Return everything as plain JSON values; ``now`` is None where no kernel is made in ``folder``."""
    verdict = gate.judge(gate.GateOptions(folder / FINAL_NAME)) if is_workspace(folder) else None
    return {
        "schema_version": SCHEMA_VERSION,
        "output": FINAL_NAME,
        "contract": CLAUSES,
        "evaluation": EVALUATION,
        "rules": [
            {
                "code": rule.code,
                "name": rule.name,
                "severity": rule.severity.value,
                "clauses": list(rule.clauses),
                "summary": rule.summary(),
            }
            for rule in registry.all_rules()
        ],
        "commands": COMMANDS,
        "backend": gate.best_backend(),
        "now": verdict.to_json() if verdict is not None else None,
    }


def to_text(data: dict[str, Any]) -> str:
    """Return the same as compact text, what is missing first."""
    lines = [f"# {data['output']}: what is missing now"]
    now = data["now"]
    if now is None:
        lines.append("No kernel is made in this folder: no result, no kernel.py, no task.")
    else:
        missing = [check for check in now["checks"] if check["status"] == "missing"]
        lines += [f"- {c['name']}: {c['message']}\n  do: {c['remedy']}" for c in missing]
        lines += ["Nothing: it may be handed in."] if not missing else []
    lines += ["", "# Contract", *(f"{id_} {text}" for id_, text in data["contract"].items())]
    lines += ["", "# How it is judged", data["evaluation"]]
    lines += ["", f"# Commands (best backend here: {data['backend'] or 'none'})"]
    lines += [f"{command}: {text}" for command, text in data["commands"].items()]
    lines += ["", "# Rules"]
    lines += [f"{r['code']} {r['name']} ({', '.join(r['clauses'])}): {r['summary']}" for r in data["rules"]]
    return "\n".join(lines) + "\n"
