"""The error that a person can act on."""

from __future__ import annotations


class KernelLintError(Exception):
    """Something that the user can put right; the command line prints it and exits 2.

    ``message`` is one sentence that says what is wrong and where; ``remedy`` says how
    to fix it.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  remedy: {self.remedy}" if self.remedy else self.message


class KernelFaultError(KernelLintError):
    """What a kernel asks for can be had on no GPU of its target: the kernel's fault, not the tool's."""
