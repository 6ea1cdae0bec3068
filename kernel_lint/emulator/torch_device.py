"""What a candidate asks torch about its GPU, answered on a machine without one.

Only questions are answered: streams are empty objects, synchronising does nothing. Tensors stay where the
candidate puts them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from kernel_lint.emulator.session import Session


class EmulatedStream:
    """A queue in which everything is finished already."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cpu")

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait_stream(self, stream: object) -> None:
        """Nothing to wait for."""

    def wait_event(self, event: object) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Whether all work is done: always."""
        return True

    def __enter__(self) -> EmulatedStream:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among call arguments, wrapped ones included."""
    for value in values:
        inner = getattr(value, "torch_tensor", None) if not isinstance(value, torch.Tensor) else value
        if inner is None:
            inner = getattr(value, "dltensor", None)
        if isinstance(inner, torch.Tensor):
            yield inner


def install(session: Session) -> None:
    """Answer ``torch.cuda`` questions until the session closes, where there is no GPU."""
    if session.options.device != "cpu" or torch.cuda.is_available():
        return
    from kernel_lint.emulator.hook import patch

    stream = EmulatedStream()
    patch(session, torch.cuda, "current_stream", lambda device=None: stream)
    patch(session, torch.cuda, "default_stream", lambda device=None: stream)
    patch(session, torch.cuda, "synchronize", lambda device=None: None)
    patch(session, torch.cuda, "current_device", lambda: 0)
    patch(session, torch.cuda, "Stream", EmulatedStream)
    patch(session, torch.cuda, "stream", lambda chosen: chosen or stream)
    registry = importlib.import_module("flydsl.compiler.jit_argument").JitArgumentRegistry.registry
    real = next((key for key in registry if getattr(key, "__name__", "") == "Stream"), None)
    if real is not None:
        registry[EmulatedStream] = registry[real]
        session.on_close(lambda: registry.pop(EmulatedStream, None))
