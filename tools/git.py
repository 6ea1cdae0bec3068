"""The few git commands that a workspace needs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from kernel_lint.errors import KernelLintError

IDENTITY = ("-c", "user.name=kernel-lint", "-c", "user.email=kernel-lint@localhost")
"""Who commits where git has no identity configured."""


def run(workspace: Path, *arguments: str) -> str:
    """Run git in a workspace and return its output, stripped.

    Raises :class:`KernelLintError` when git is missing or fails.
    """
    if shutil.which("git") is None:
        raise KernelLintError("there is no git on PATH", "install git")
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = (done.stderr or done.stdout).strip()
        raise KernelLintError(
            f"git {arguments[0]} failed in {workspace}: {why}", "put the repository right, then repeat"
        )
    return done.stdout.strip()


def is_root(folder: Path) -> bool:
    """Whether a folder is the top of a repository of its own."""
    return (folder / ".git").exists()


def head(workspace: Path) -> str | None:
    """Return the full hash of HEAD, or None before the first commit."""
    try:
        return run(workspace, "rev-parse", "--verify", "--quiet", "HEAD")
    except KernelLintError:
        return None


def find_commit(workspace: Path, subject: str) -> str | None:
    """Return the hash of the newest commit on HEAD with exactly that subject, or None."""
    if head(workspace) is None:
        return None
    log = run(workspace, "log", "--format=%H %s")
    for line in log.splitlines():
        commit, _, text = line.partition(" ")
        if text == subject:
            return commit
    return None


def commit(workspace: Path, message: str, paths: list[str]) -> str:
    """Commit exactly these paths and return the hash.

    Raises :class:`KernelLintError` when there is nothing to commit or git refuses.
    """
    run(workspace, "add", "--", *paths)
    identity = () if _has_identity(workspace) else IDENTITY
    run(workspace, *identity, "commit", "-q", "-m", message, "--", *paths)
    found = head(workspace)
    assert found is not None
    return found


def _has_identity(workspace: Path) -> bool:
    try:
        run(workspace, "config", "user.email")
        run(workspace, "config", "user.name")
    except KernelLintError:
        return False
    return True
