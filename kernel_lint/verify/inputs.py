"""Inputs that a candidate cannot know beforehand: secret seeds, and variants of what they give.

A run has one secret, an integer; the seed of draw ``i`` of shape ``s`` follows from it, so the
one printed number replays everything and none of the numbers to come follows from those seen.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from kernel_lint.diagnostics import Reason
from kernel_lint.errors import KernelLintError
from kernel_lint.verify.inputs_seeds import SeedCalls, random_state, watched_seeds
from kernel_lint.verify.trees import Leaf, flatten
from kernel_lint.verify.trees_io import memory_of, pieces

MIN_DRAWS = 5
# Draws may coincide by chance where there are few possible inputs; this many tries per draw.
TRIES = 4

Factory = Callable[..., Any]


class InputError(KernelLintError):
    """The task's ``_make_inputs`` cannot be used; the candidate has no part in it."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One set of inputs, the seed that gave it and the BLAKE2b digest of its values."""

    seed: int
    digest: str
    inputs: Any = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Draws:
    """The draws for one shape. ``reason`` is HARNESS_ERROR when seeds do not reach the inputs."""

    draws: tuple[Draw, ...]
    notes: tuple[str, ...] = ()
    reason: Reason | None = None


def new_secret() -> int:
    """A fresh secret for a run, 63 random bits from the operating system."""
    return secrets.randbits(63)


def derive_seed(secret: int, shape: str, draw: int) -> int:
    """The 32-bit seed (numpy takes no more) of one draw; one-way in the secret (BLAKE2b, RFC 7693)."""
    text = f"kernel-lint inputs\0{shape}\0{draw}".encode()
    key = secret.to_bytes(16, "little", signed=True)
    return int.from_bytes(hashlib.blake2b(text, key=key, digest_size=4).digest(), "little")


def seed_everything(seed: int) -> None:
    """Seed torch (every device), numpy's global generator and ``random``."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        # For each kind of device that is absent, torch.manual_seed formats the stack: a millisecond.
        torch.default_generator.manual_seed(seed)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed everything for a block of code and put the generators back afterwards."""
    before = random_state()
    try:
        seed_everything(seed)
        yield
    finally:
        before.restore()


def digest(value: Any) -> str:
    """BLAKE2b of a nested value: structure, dtypes, shapes and the bytes of every tensor, strides apart.

    Read in pieces, so memory stays bounded on any device.
    """
    state = hashlib.blake2b(digest_size=16)
    for leaf in flatten(value):
        state.update(f"{leaf.path}\0".encode("utf-8", "surrogatepass"))
        if isinstance(leaf.value, torch.Tensor):
            tensor = leaf.value.detach()
            state.update(f"{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
            for piece in pieces(tensor):
                state.update(memory_of(piece))
        else:
            state.update(f"{leaf.value!r}\0".encode("utf-8", "surrogatepass"))
    return state.hexdigest()


def make_inputs(
    factory: Factory, kwargs: Mapping[str, Any], seed: int, *, mix: bool = False
) -> tuple[Any, SeedCalls]:
    """Call ``_make_inputs`` under ``seed``; returns the inputs and what it did with random generators.

    With ``mix``, seeds that the factory sets itself are combined with ``seed``. Raises
    :class:`InputError` when it raises or returns anything but a dict with text keys.
    """
    with seeded(seed), watched_seeds(seed if mix else None) as calls:
        try:
            inputs = factory(**kwargs)
        except Exception as error:
            raise InputError(
                f"_make_inputs raised {type(error).__name__}: {error}",
                "mend input.py, or input_kwargs of this shape in shapes.json",
            ) from error
        calls.note_consumption()
    if not isinstance(inputs, Mapping) or not all(isinstance(key, str) for key in inputs):
        raise InputError(
            f"_make_inputs returned a {type(inputs).__name__}, not a dict of named inputs", "mend input.py"
        )
    for leaf in flatten(inputs):
        _check_plain(leaf)
    return dict(inputs), calls


def _check_plain(leaf: Leaf) -> None:
    value = leaf.value
    if not isinstance(value, torch.Tensor):
        return
    kind = "quantized" if value.is_quantized else str(value.layout).removeprefix("torch.")
    if value.device.type == "meta" or kind != "strided":
        what = "a tensor on the device meta" if value.device.type == "meta" else f"a {kind} tensor"
        raise InputError(
            f"_make_inputs returned {what} at {leaf.path}, which has no plain values", "mend input.py"
        )


def draw_inputs(
    factory: Factory, kwargs: Mapping[str, Any], secret: int, shape: str, count: int = MIN_DRAWS
) -> Draws:
    """Draw ``count`` sets of inputs with distinct digests, as far as the factory allows.

    A factory that seeds itself would give the same inputs for ever ("several seeds" that are
    one): its seeds are then mixed with ours. If random numbers are drawn and the inputs still
    do not change, the draws prove nothing: HARNESS_ERROR. A factory that draws no random
    numbers has one set of inputs by design, and a note says so. Raises :class:`InputError`.
    """
    draws, calls = _collect(factory, kwargs, secret, shape, count, mix=False)
    notes = []
    if len(draws) == 1 < count and calls.seeded:
        draws, calls = _collect(factory, kwargs, secret, shape, count, mix=True)
        notes.append(
            f"_make_inputs seeds itself ({', '.join(sorted(calls.names))}); its seeds were mixed with ours"
        )
    if len(draws) == 1 < count:
        if calls.random:
            message = (
                "every seed gives the same inputs although _make_inputs draws random numbers: "
                "it resets its generator in a way that seeds do not reach"
            )
            return Draws(draws, (*notes, message), Reason.HARNESS_ERROR)
        notes.append("_make_inputs draws no random numbers: one set of inputs is all there is")
    elif len(draws) < count:
        notes.append(f"only {len(draws)} distinct sets of inputs in {count * TRIES} draws")
    return Draws(draws, tuple(notes))


def _collect(
    factory: Factory, kwargs: Mapping[str, Any], secret: int, shape: str, count: int, *, mix: bool
) -> tuple[tuple[Draw, ...], SeedCalls]:
    found: dict[str, Draw] = {}
    total = SeedCalls()
    for attempt in range(count * TRIES):
        seed = derive_seed(secret, shape, attempt)
        inputs, calls = make_inputs(factory, kwargs, seed, mix=mix)
        total.merge(calls)
        key = digest(inputs)
        found.setdefault(key, Draw(seed, key, inputs))
        # Two equal draws in a row without one that differs: more of them would not help.
        if len(found) == count or (len(found) == 1 and attempt >= count - 1):
            break
    return tuple(found.values()), total


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Rebuild a nested value with every tensor replaced by ``change(tensor)``."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_tensors(item, change) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [map_tensors(item, change) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def widened(value: Any) -> Any:
    """Every float tensor as float64 and every complex one as complex128: inputs of the exact run."""

    def widen(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex():
            return tensor.to(torch.complex128)
        return tensor.to(torch.float64) if tensor.is_floating_point() else tensor

    return map_tensors(value, widen)


def perturbed(value: Any, seed: int, relative: float = 2.0**-24) -> Any:
    """:func:`widened`, with each float element multiplied by ``1 + relative * u``, u uniform in [-1, 1].

    The default is half a unit in the last place of float32, the rounding that any arithmetic
    inside may commit: what this changes in the outputs of the float64 run shows how well
    conditioned they are. Zeros stay zeros.
    """
    generators: dict[torch.device, torch.Generator] = {}

    def perturb(tensor: torch.Tensor) -> torch.Tensor:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        device = tensor.device
        if device not in generators:
            generators[device] = torch.Generator(device).manual_seed(seed)
        # Where the tensor is, in float32, and in place: for 64 million elements passes and memory add up.
        noise = torch.rand(tensor.shape, generator=generators[device], dtype=torch.float32, device=device)
        wide: torch.Tensor = widened(tensor)
        wide = wide.clone() if wide is tensor else wide
        return wide.addcmul_(wide, noise.mul_(2 * relative).sub_(relative))

    return map_tensors(value, perturb)
