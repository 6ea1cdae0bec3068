"""Stand-ins for a GPU where there is none, so that unmodified candidates run on the CPU.

A candidate asks torch for its current stream and may name the device ``cuda``. On a
machine without a GPU both fail before any kernel is compiled. The backends that need no GPU
(``compile``, ``emulate``, ``torch``) install these stand-ins in the candidate's and the
reference's process; where a GPU is present nothing is replaced.
"""

from __future__ import annotations

import functools
from typing import Any


class StreamStandIn:
    """What ``torch.cuda.current_stream()`` returns: the null stream of the HIP runtime."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    device_type = 1

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        """Accept what ``torch.cuda.Stream`` accepts; there is only one stream."""

    def synchronize(self) -> None:
        """Return at once: every launch has finished."""

    def query(self) -> bool:
        """Return True: every launch has finished."""
        return True

    def wait_stream(self, stream: object) -> None:
        """Return at once: every launch has finished."""

    def wait_event(self, event: object) -> None:
        """Return at once: every launch has finished."""

    def __enter__(self) -> StreamStandIn:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class DevicePropertiesStandIn:
    """The few properties that launchers read; figures of the MI300X data sheet (gfx942)."""

    def __init__(self, target: str) -> None:
        self.name = f"no GPU ({target})"
        self.gcnArchName = target
        self.multi_processor_count = 256 if target.startswith("gfx950") else 304
        self.warp_size = 64 if target.startswith("gfx9") else 32
        self.total_memory = 192 * 2**30
        self.major, self.minor = (9, 5) if target.startswith("gfx950") else (9, 4)


def gpu_present() -> bool:
    """Return whether torch sees a GPU."""
    import torch

    return bool(torch.cuda.is_available())


def install_cuda_standins(target: str) -> None:
    """Replace the parts of ``torch.cuda`` that need a GPU, when there is none.

    ``torch.cuda.is_available`` keeps telling the truth.
    """
    import torch

    if gpu_present():
        return
    stream = StreamStandIn()
    properties = DevicePropertiesStandIn(target)
    replacements: dict[str, Any] = {
        "current_stream": lambda *_a, **_k: stream,
        "default_stream": lambda *_a, **_k: stream,
        "Stream": StreamStandIn,
        "stream": lambda given=None: given or stream,
        "synchronize": lambda *_a, **_k: None,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "set_device": lambda *_a, **_k: None,
        "get_device_properties": lambda *_a, **_k: properties,
        "get_device_name": lambda *_a, **_k: properties.name,
        "get_device_capability": lambda *_a, **_k: (properties.major, properties.minor),
        "is_current_stream_capturing": lambda: False,
        "device": _DeviceStandIn,
    }
    for name, replacement in replacements.items():
        setattr(torch.cuda, name, replacement)


class _DeviceStandIn:
    """``with torch.cuda.device(x):`` without a device."""

    def __init__(self, _device: object = None) -> None:
        self.idx = 0

    def __enter__(self) -> _DeviceStandIn:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


def device_redirect() -> Any:
    """Return a context manager in which the device ``cuda`` means ``cpu``.

    A :class:`torch.overrides.TorchFunctionMode`: factories, ``.to``, ``.cuda`` and
    ``torch.device`` arguments are rewritten before they reach torch.
    """
    return _redirect_class()()


@functools.cache
def _redirect_class() -> type:
    from torch.overrides import TorchFunctionMode

    class DeviceRedirect(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            kwargs = kwargs or {}
            if getattr(function, "__name__", "") == "cuda" and args:
                return args[0]
            if "device" in kwargs:
                kwargs = {**kwargs, "device": _to_cpu(kwargs["device"])}
            return function(*(args if not args else (args[0], *map(_to_cpu, args[1:]))), **kwargs)

    return DeviceRedirect


def _to_cpu(value: Any) -> Any:
    import torch

    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return value
