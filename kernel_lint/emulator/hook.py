"""The hook into FlyDSL: lowering stops before control flow is flattened, and a launch runs here.

Three places, the same in the releases of :data:`KNOWN`:

* ``flydsl.compiler.backends.rocm.RocmBackend.pipeline_fragments`` lists the passes; it is cut before the
first
  ``gpu.module(...)`` fragment, whose passes flatten control flow (FlyDSL's documented extension point for
  backends, ``docs/`` "Adding a backend"; the official ``register_backend`` reaches the same method);
* ``flydsl.compiler.jit_function.CompiledArtifact`` holds what was compiled; its ``_get_func_exe`` gives
the host
  function as a callable of the packed argument array (``_pack_ciface``: one address of storage for each
  slot);
* ``_is_compile_placeholder``/``_has_live_device_argument`` decide whether a tensor can be launched on
(0.4.2 on).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from typing import Any

from kernel_lint.emulator import torch_device
from kernel_lint.emulator.options import EmulatorOptions
from kernel_lint.emulator.session import Session
from kernel_lint.errors import KernelLintError

KNOWN = ("0.3.2", "0.4.1", "0.4.2", "0.5.0")


def flydsl_version() -> str:
    """The installed FlyDSL release.

    Raises :class:`KernelLintError` when FlyDSL is not installed.
    """
    try:
        return importlib.metadata.version("flydsl")
    except importlib.metadata.PackageNotFoundError:
        raise KernelLintError("FlyDSL is not installed", "pip install 'kernel-lint[verify]'") from None


def check_version(version: str) -> None:
    """Raise :class:`KernelLintError` for a release whose internals have not been checked."""
    if version not in KNOWN:
        raise KernelLintError(
            f"the emulator has not been checked with flydsl {version}; it knows {', '.join(KNOWN)}",
            "install one of those, or set KERNEL_LINT_EMULATOR_ANY_FLYDSL=1 to try; "
            "a hook that does not fit says so",
        )


def install(options: EmulatorOptions) -> Session:
    """Make FlyDSL emulate every launch in this process until the session is closed."""
    version = flydsl_version()
    if os.environ.get("KERNEL_LINT_EMULATOR_ANY_FLYDSL") != "1":
        check_version(version)
    session = Session(options)
    try:
        hook_session(session, version)
    except BaseException:
        session.close()
        raise
    return session


def hook_session(session: Session, version: str) -> None:
    """Put the hooks in place for a session, which may run programs elsewhere than in the emulator."""
    _environment(session)
    _pipeline(session)
    _artifact(session, version)
    torch_device.install(session)


def _environment(session: Session) -> None:
    settings = {
        "ARCH": session.options.target,
        "FLYDSL_GPU_ARCH": session.options.target,
        # A cached artifact of a real run holds a binary and no IR.
        "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
        # Up to 0.4 locations are dropped before lowering unless debug information is on.
        "FLYDSL_DEBUG_ENABLE_DEBUG_INFO": "1",
    }
    for name, value in settings.items():
        before = os.environ.get(name)
        os.environ[name] = value
        session.on_close(lambda n=name, b=before: _restore_environment(n, b))  # type: ignore[misc]


def _restore_environment(name: str, before: str | None) -> None:
    if before is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = before


def patch(session: Session, owner: Any, name: str, value: Any) -> Any:
    """Replace an attribute until the session closes; returns what was there.

    Raises :class:`KernelLintError` when there is no such attribute: this FlyDSL is not built as expected.
    """
    missing = object()
    before = vars(owner).get(name, missing) if isinstance(owner, type) else getattr(owner, name, missing)
    if before is missing:
        where = getattr(owner, "__qualname__", getattr(owner, "__name__", owner))
        raise KernelLintError(
            f"this FlyDSL has no {where}.{name}, where the emulator hooks in",
            f"use one of the releases {', '.join(KNOWN)}",
        )
    setattr(owner, name, value)
    session.on_close(lambda: setattr(owner, name, before))
    return before


def _pipeline(session: Session) -> None:
    rocm = importlib.import_module("flydsl.compiler.backends.rocm")
    backend = rocm.RocmBackend
    original = vars(backend)["pipeline_fragments"]

    def pipeline_fragments(self: Any, *, compile_hints: dict[str, Any]) -> list[str]:
        fragments: list[str] = original(self, compile_hints=compile_hints)
        cut = next((i for i, f in enumerate(fragments) if f.startswith("gpu.module(")), None)
        if cut is None or not any(f.startswith("convert-fly-to-rocdl") for f in fragments[:cut]):
            raise KernelLintError(
                "FlyDSL's pass pipeline is not the one that the emulator cuts",
                f"use one of the releases {', '.join(KNOWN)}",
            )
        return fragments[:cut]

    patch(session, backend, "pipeline_fragments", pipeline_fragments)


def _artifact(session: Session, version: str) -> None:
    jit = importlib.import_module("flydsl.compiler.jit_function")
    base = jit.CompiledArtifact

    class EmulatedArtifact(base):  # type: ignore[misc, valid-type]
        """A compiled artifact that runs in the emulator."""

        def __init__(self, compiled_module: Any, func_name: str, *args: Any, **kwargs: Any) -> None:
            super().__init__(compiled_module, func_name, *args, **kwargs)
            self._program = session.program(compiled_module, func_name)

        def _get_func_exe(self) -> Any:
            return self._program

    patch(session, jit, "CompiledArtifact", EmulatedArtifact)
    if hasattr(jit, "_is_compile_placeholder"):
        placeholder = jit._is_compile_placeholder
        _patch_liveness(session, jit, placeholder)
    call_state = jit.CallState

    class EmulatedCallState(call_state):  # type: ignore[misc, valid-type]
        """Tells the session about the tensors of a call before it runs."""

        __slots__ = ()

        def __call__(self, args_tuple: Any) -> Any:
            session.memory.add(list(torch_device.tensors_in(args_tuple)))
            return super().__call__(args_tuple)

    patch(session, jit, "CallState", EmulatedCallState)


def _patch_liveness(session: Session, jit: Any, placeholder: Any) -> None:
    import torch

    def tensor_of(value: Any) -> Any:
        inner = getattr(value, "torch_tensor", value)
        return inner if isinstance(inner, torch.Tensor) else None

    def is_placeholder(value: Any, **kwargs: Any) -> bool:
        if tensor_of(value) is not None or hasattr(value, "dladaptor"):
            return False
        return bool(placeholder(value, **kwargs))

    patch(session, jit, "_is_compile_placeholder", is_placeholder)
    if hasattr(jit, "_has_live_device_argument"):
        live = jit._has_live_device_argument
        patch(
            session,
            jit,
            "_has_live_device_argument",
            lambda value: tensor_of(value) is not None or bool(live(value)),
        )
