"""Places to run a sandboxed command: this machine, another one over ssh, a Ray cluster."""

from __future__ import annotations

from kernel_lint.errors import KernelLintError
from kernel_lint.tools.sandbox_spec import Executor


def choose(
    name: str,
    host: str | None = None,
    ssh_options: tuple[str, ...] = (),
    python: str = "python3",
    address: str | None = None,
    gpus: float = 0.0,
) -> Executor:
    """Return the executor of that name.

    Raises :class:`KernelLintError` when ssh is chosen without a host.
    """
    if name == "ssh":
        from kernel_lint.tools.executors.ssh import SshExecutor

        if host is None:
            raise KernelLintError(
                "--executor ssh has no machine to go to", "give it with --host user@machine"
            )
        return SshExecutor(host, ssh_options, python)
    if name == "ray":
        from kernel_lint.tools.executors.ray_jobs import RayExecutor

        return RayExecutor(address, gpus)
    from kernel_lint.tools.executors.local import LocalExecutor

    return LocalExecutor()
