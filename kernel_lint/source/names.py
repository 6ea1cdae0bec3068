"""Dotted paths of objects outside the module, brought to one spelling."""

from __future__ import annotations

import builtins
from functools import lru_cache

# Names that every module has without binding them.
MODULE_DUNDERS = frozenset(
    """__name__ __file__ __doc__ __loader__ __spec__ __package__ __path__ __cached__ __dict__
    __annotations__""".split()
)
BUILTIN_NAMES = frozenset(dir(builtins)) | {"reveal_type", "__builtins__"}

# One object under several paths.
_SAME = {
    "io.open": "builtins.open",
    "_io.open": "builtins.open",
    "os.popen2": "os.popen",
    "importlib.__import__": "builtins.__import__",
    "builtins.__builtins__": "builtins",
    "torch.functional.F": "torch.nn.functional",
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.nn.modules.Module": "torch.nn.Module",
    "torch.nn.parameter.Parameter": "torch.nn.Parameter",
    "torch._tensor.Tensor": "torch.Tensor",
    "torch.autograd.function.Function": "torch.autograd.Function",
}
_SAME_MODULE = {
    "posix": "os",
    "nt": "os",
    "posixpath": "os.path",
    "ntpath": "os.path",
    "_io": "io",
    "_sys": "sys",
    "_os": "os",
    "_pickle": "pickle",
    "cPickle": "pickle",
    "_operator": "operator",
    "_functools": "functools",
    "importlib._bootstrap_external": "importlib.machinery",
    "importlib._bootstrap": "importlib",
    "_frozen_importlib": "importlib",
    "_frozen_importlib_external": "importlib.machinery",
    "torch.nn.modules.linear": "torch.nn",
    "torch.nn.modules.activation": "torch.nn",
    "torch.nn.modules.normalization": "torch.nn",
    "torch.nn.modules.container": "torch.nn",
}
# Standard modules that other modules import and so expose: torch.os is os.
_EXPOSED = frozenset(
    """sys os builtins importlib subprocess inspect ctypes gc threading marshal pickle""".split()
)
_OWN_SUBMODULES = frozenset({"flydsl"})


@lru_cache(maxsize=16384)
def canonical(path: str) -> str:
    """Return the one spelling of a dotted path that the rules' tables use."""
    same = _SAME.get(path)
    if same is not None:
        return same
    head, dot, tail = path.rpartition(".")
    if dot and "(" not in path:
        if tail in _EXPOSED and head.partition(".")[0] not in _OWN_SUBMODULES:
            return tail
        other = _SAME_MODULE.get(head)
        if other is not None:
            return f"{other}.{tail}"
    return _SAME_MODULE.get(path, path)


@lru_cache(maxsize=16384)
def join(base: str, name: str) -> str:
    """Return the path of attribute ``name`` of what ``base`` reaches."""
    return canonical(f"{base}.{name}")


def under(path: str, root: str) -> bool:
    """Tell whether ``path`` is ``root`` or reached through it."""
    return path == root or (path.startswith(root) and path[len(root)] in ".([")
