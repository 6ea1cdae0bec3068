"""What calls into the standard library and known packages do when a module is imported.

The tables say what the libraries' own documentation says; a name that is in none of them is
unknown, never assumed harmless.
"""

from __future__ import annotations

import builtins

_IMPURE_BUILTINS = frozenset(
    "breakpoint compile copyright credits delattr eval exec exit help input license open print quit "
    "setattr __import__ next".split()
)
OUTPUT_BUILTINS = frozenset(["print", "pprint", "breakpoint"])
BUILTINS = frozenset(dir(builtins)) | {"__file__", "__builtins__", "__spec__", "__loader__", "__path__"}
PURE_BUILTINS = frozenset(dir(builtins)) - _IMPURE_BUILTINS

# Methods of built-in types that change nothing.
PURE_METHODS = frozenset(
    "copy format join split rsplit splitlines strip lstrip rstrip lower upper title capitalize startswith "
    "endswith replace encode decode items keys values get index count find rfind isdigit isidentifier "
    "islower isupper bit_length to_bytes from_bytes hex union intersection difference "
    "symmetric_difference issubset issuperset partition rpartition zfill ljust rjust center casefold "
    "translate maketrans fromkeys removeprefix removesuffix as_posix with_suffix with_name joinpath "
    "relative_to is_integer numerator denominator most_common resolve absolute exists is_dir is_file".split()
)

# Methods of built-in types that change the object and nothing else.
MUTATING_METHODS = frozenset(
    "append extend insert remove pop popitem clear sort reverse add discard update setdefault appendleft "
    "popleft difference_update intersection_update symmetric_difference_update move_to_end subtract".split()
)

_PURE_MODULES = (
    "abc base64 binascii cmath collections contextlib contextvars copy ctypes dataclasses datetime "
    "decimal difflib enum fractions functools hashlib inspect itertools json keyword math numbers "
    "operator os.path pathlib platform re statistics string struct textwrap threading types typing "
    "typing_extensions uuid weakref flydsl"
).split()
_PURE_NAMES = frozenset(
    "os.getenv os.environ.get os.cpu_count os.fspath sys.getsizeof sys.intern sys.getrecursionlimit "
    "logging.getLogger time.time time.perf_counter torch.device torch.dtype torch.finfo torch.iinfo "
    "torch.no_grad torch.inference_mode torch.Size torch.tensor torch.zeros torch.ones torch.empty "
    "torch.cuda.is_available torch.cuda.current_device torch.cuda.get_device_properties "
    "torch.cuda.device_count".split()
)
_OUTPUT = ("pprint", "logging", "warnings", "sys.stdout", "sys.stderr", "traceback", "pdb", "faulthandler")


def external_kind(dotted: str) -> str:
    """Say what calling ``dotted`` does: "pure", "output", "changes" (the library's state) or "unknown"."""
    if dotted in _PURE_NAMES:
        return "pure"
    if _within(dotted, _PURE_MODULES):
        return "pure"
    if _within(dotted, _OUTPUT):
        return "output"
    if dotted.startswith(("os.environ.", "os.putenv")):
        return "changes"
    return "unknown"


def _within(dotted: str, modules: tuple[str, ...] | list[str]) -> bool:
    return any(dotted == module or dotted.startswith(module + ".") for module in modules)
