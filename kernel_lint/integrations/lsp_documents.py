"""What the language server knows of each open text: its module, its settings, its findings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernel_lint import config, engine
from kernel_lint.config import Settings
from kernel_lint.diagnostics import Diagnostic
from kernel_lint.errors import KernelLintError
from kernel_lint.source.module import SourceModule
from kernel_lint.task import TaskFiles, read_task


@dataclass(frozen=True, slots=True)
class Analysis:
    """One version of a text, linted. ``problem`` says what is wrong with the configuration, or is empty."""

    module: SourceModule
    settings: Settings
    task: TaskFiles | None
    diagnostics: tuple[Diagnostic, ...]
    problem: str = ""


def analyse(path: str, text: str) -> Analysis:
    """Lint a text as the file ``path``, whether or not it is saved.

    The nearest pyproject.toml counts, so that each folder of an editor has its own settings. A broken one
    is reported as a problem and the defaults are used: an editor must go on.
    """
    problem = ""
    try:
        settings = config.load(Path(path))
        task = read_task(Path(settings.reference)) if settings.reference else None
    except KernelLintError as error:
        problem, settings, task = str(error), Settings(), None
    module = SourceModule.from_text(text, path)
    if len(module.data) > settings.max_file_size:
        return Analysis(module, settings, task, (), f"{path} is larger than max-file-size")
    try:
        found = engine.check_module(module, settings, task=task)
    except KernelLintError as error:
        # A rule named in the configuration that does not exist.
        problem, settings = str(error), Settings()
        found = engine.check_module(module, settings, task=task)
    except RecursionError:
        return Analysis(module, settings, task, (), f"{path} is nested too deeply to analyse")
    return Analysis(module, settings, task, tuple(found), problem)


def model_line(module: SourceModule) -> int | None:
    """Return the line of ``class Model`` at module level, or None."""
    from kernel_lint.task import find_class

    model = find_class(module.tree, "Model")
    return model.lineno if model is not None else None
