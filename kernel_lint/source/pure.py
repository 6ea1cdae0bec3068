"""What folding may carry out: functions and methods without effects, whose results are bounded."""

from __future__ import annotations

import codecs
import importlib
import operator
from collections.abc import Callable

from kernel_lint import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

MAX_LENGTH = 200_000


_TEXT_METHODS = frozenset(
    """join replace format format_map lower upper strip lstrip rstrip title capitalize swapcase
    casefold encode decode split rsplit splitlines partition rpartition removeprefix removesuffix
    translate zfill center ljust rjust expandtabs hex startswith endswith find rfind index count
    isidentifier""".split()
)


METHODS: dict[type, frozenset[str]] = {
    str: _TEXT_METHODS,
    bytes: _TEXT_METHODS,
    list: frozenset({"copy", "index", "count"}),
    tuple: frozenset({"index", "count"}),
    dict: frozenset({"get", "keys", "values", "items", "copy"}),
    int: frozenset({"bit_length", "to_bytes", "conjugate"}),
    float: frozenset({"is_integer", "hex"}),
}


def _late(path: str) -> Callable[..., Any]:
    """Return a function of the standard library whose module is loaded when it is called."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)(*arguments, **keywords)

    return call


def _decompress(data: bytes) -> bytes:
    import zlib

    return zlib.decompressobj().decompress(data, MAX_LENGTH)


_DECODERS = """
    binascii.unhexlify binascii.a2b_hex binascii.a2b_base64 binascii.hexlify
    html.unescape urllib.parse.unquote
    base64.b64decode base64.b32decode base64.b16decode base64.b85decode base64.a85decode
    base64.urlsafe_b64decode base64.standard_b64decode base64.b64encode base64.decodebytes
""".split()


# Pure functions by dotted path. Nothing here can call back into code.
PURE: dict[str, Callable[..., Any]] = {
    **{
        f"builtins.{f.__name__}": f
        for f in (abs, ascii, bin, bool, bytes, bytearray, chr, dict, divmod, float, format, frozenset)
    },
    **{f"builtins.{f.__name__}": f for f in (hex, int, len, list, max, min, oct, ord, repr, round)},
    **{f"builtins.{f.__name__}": f for f in (set, sorted, str, sum, tuple)},
    "builtins.range": range,
    "builtins.reversed": reversed,
    "builtins.zip": zip,
    "builtins.enumerate": enumerate,
    "builtins.bytes.fromhex": bytes.fromhex,
    "builtins.bytearray.fromhex": bytearray.fromhex,
    "builtins.str.join": str.join,
    "builtins.str.format": str.format,
    "builtins.str.replace": str.replace,
    "builtins.str.lower": str.lower,
    "builtins.str.upper": str.upper,
    "builtins.str.strip": str.strip,
    "builtins.str.maketrans": str.maketrans,
    "builtins.bytes.decode": bytes.decode,
    "builtins.int.from_bytes": int.from_bytes,
    "operator.add": operator.add,
    "operator.concat": operator.concat,
    "operator.mod": operator.mod,
    "codecs.decode": codecs.decode,
    "codecs.encode": codecs.encode,
    "zlib.decompress": _decompress,
    **{path: _late(path) for path in _DECODERS},
}


SAFE_CODECS = frozenset(
    {
        "rot13",
        "rot_13",
        "hex",
        "hex_codec",
        "base64",
        "base64_codec",
        "utf-8",
        "utf8",
        "ascii",
        "latin-1",
        "latin1",
    }
)
