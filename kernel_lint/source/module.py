"""One Python file: its bytes, text, lines, syntax tree and places, each worked out once."""

from __future__ import annotations

import ast
import codecs
import os
import stat
import warnings
from io import FileIO

from kernel_lint import TYPE_CHECKING
from kernel_lint.diagnostics import Span
from kernel_lint.files import kind_of
from kernel_lint.records import cached_property, dataclass

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from kernel_lint.frameworks import Framework
    from kernel_lint.source.flow import Flow
    from kernel_lint.source.launch_paths import LaunchPaths
    from kernel_lint.source.launches import Launches
    from kernel_lint.source.references import References
    from kernel_lint.source.scopes import ScopeTable
    from kernel_lint.source.survey import Survey
    from kernel_lint.source.tensors import Tensors
    from kernel_lint.source.values import Values

# A generated kernel is source text; the parser needs about 150 bytes of memory for each of it.
MAX_BYTES = 4_000_000
_OF_A_SHELL = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """Why a text is not Python: the parser's words, the place, and its usual cause."""

    message: str
    span: Span
    cause: str


class SourceError(Exception):
    """A file that cannot be read at all; ``message`` is one sentence, ``remedy`` another."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class SourceModule:
    """A Python file as text and as tree.

    Everything is computed on first use and kept. ``problem`` is set when the text is not
    Python; then ``tree`` is an empty module.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        self._launches: dict[str, Launches] = {}
        self._launch_paths: dict[str, LaunchPaths] = {}
        # What rules asked about other files, and the answers: then the text alone does not decide.
        self.neighbours: dict[str, str] = {}
        # What several rules work out alike, by what works it out.
        self.shared: dict[object, Any] = {}

    @classmethod
    def read(
        cls, path: Path | str, *, display: str | None = None, max_bytes: int = MAX_BYTES
    ) -> SourceModule:
        """Read a file; raises SourceError when that is impossible."""
        try:
            status = os.stat(path)
            if stat.S_ISDIR(status.st_mode):
                raise SourceError("is a directory", "name a Python file, or a directory that holds some")
            if not stat.S_ISREG(status.st_mode):
                return cls(display or str(path), _piped(str(path), max_bytes))
            size = status.st_size
            if size > max_bytes:
                raise _too_large(f"{size / 1e6:.1f} MB", max_bytes)
            # Without the buffer that open() would put around it.
            with FileIO(path) as stream:
                return cls(display or str(path), stream.read())
        except FileNotFoundError as error:
            if os.path.islink(path):
                raise SourceError("is a symbolic link to nothing", "mend or remove the link") from error
            raise SourceError("does not exist", "check the spelling and the working directory") from error
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise SourceError(f"cannot be read: {reason}", "check its permissions") from error

    @classmethod
    def from_text(cls, text: str, path: str = "<text>") -> SourceModule:
        """Make a module of a text that is in no file, in the encoding that the text declares."""
        data = text.encode("utf-8", "surrogatepass")
        try:
            encoding = declared(data)
            return cls(path, data if encoding == "utf-8" else text.encode(encoding))
        except (SyntaxError, UnicodeEncodeError):
            return cls(path, data)

    def neighbour(self, path: str) -> str:
        """Return what lies at an absolute path: "file", "directory" or ""; the question is remembered."""
        kind = self.neighbours.get(path)
        if kind is None:
            kind = self.neighbours[path] = kind_of(path)
        return kind

    @cached_property
    def _decoded(self) -> tuple[str, SyntaxProblem | None]:
        return decode(self.data)

    @property
    def encoding(self) -> str:
        """The encoding that the bytes are in."""
        if self.data.startswith(codecs.BOM_UTF8):
            return "utf-8"
        return declared(self.data)

    @property
    def text(self) -> str:
        """The decoded text, without a byte order mark, line ends as in the file."""
        return self._decoded[0]

    @cached_property
    def lines(self) -> list[str]:
        """The lines as Python counts them, without their ends."""
        return self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    @cached_property
    def _parsed(self) -> tuple[ast.Module, SyntaxProblem | None]:
        text, problem = self._decoded
        empty = ast.Module(body=[], type_ignores=[])
        if problem is not None:
            return empty, problem
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                warnings.simplefilter("ignore", DeprecationWarning)
                return ast.parse(text), None
        except SyntaxError as error:
            from kernel_lint.source.syntax import explain_syntax_error

            return empty, explain_syntax_error(error, self.lines)
        except (RecursionError, MemoryError):
            span = Span(1, 1, 1, 1)
            return empty, SyntaxProblem(
                "the expression is nested too deeply to parse", span, "generated text"
            )
        except ValueError as error:
            return empty, SyntaxProblem(str(error), Span(1, 1, 1, 1), "")

    @property
    def tree(self) -> ast.Module:
        """The syntax tree; empty when ``problem`` is set."""
        return self._parsed[0]

    @property
    def problem(self) -> SyntaxProblem | None:
        """Why the text is not Python, or None."""
        return self._parsed[1]

    @cached_property
    def scopes(self) -> ScopeTable:
        """Bindings, references, parents and nodes by type."""
        from kernel_lint.source.scopes import ScopeTable

        return ScopeTable(self.tree)

    @cached_property
    def values(self) -> Values:
        """What each expression may be."""
        from kernel_lint.source.embedded import embed
        from kernel_lint.source.values import Values

        values = Values(self.scopes)
        return Values(self.scopes) if embed(values) else values

    @cached_property
    def survey(self) -> Survey:
        """What the expressions refer to, call and run: one pass for all who ask."""
        from kernel_lint.source.survey import Survey

        return Survey(self.values)

    @cached_property
    def references(self) -> References:
        """Where dotted paths are formed."""
        from kernel_lint.source.references import References

        return References(self.survey)

    @cached_property
    def flow(self) -> Flow:
        """What ``Model.forward`` reaches, launches and returns."""
        from kernel_lint.source.flow import Flow

        return Flow(self.survey)

    @cached_property
    def tensors(self) -> Tensors:
        """Which host expressions may be tensors, and what storage they share."""
        from kernel_lint.source.tensors import Tensors

        return Tensors(self.flow)

    def launches(self, framework: Framework) -> Launches:
        """Where kernels are launched and what the launches write."""
        from kernel_lint.source.launches import Launches

        if framework.name not in self._launches:
            self._launches[framework.name] = Launches(self.tensors, framework)
        return self._launches[framework.name]

    def launch_paths(self, framework: Framework) -> LaunchPaths:
        """Which paths through host code launch a kernel."""
        from kernel_lint.source.launch_paths import LaunchPaths

        if framework.name not in self._launch_paths:
            self._launch_paths[framework.name] = LaunchPaths(self.launches(framework))
        return self._launch_paths[framework.name]

    def column(self, line: int, byte_offset: int) -> int:
        """Turn the parser's byte offset in a line into a column in characters, from 1."""
        if not 0 < line <= len(self.lines):
            return byte_offset + 1
        text = self.lines[line - 1]
        if text.isascii():
            return byte_offset + 1
        return len(text.encode("utf-8")[:byte_offset].decode("utf-8", "ignore")) + 1

    def span(self, node: ast.AST) -> Span:
        """Return the place of a node; of a module, its first character."""
        line = getattr(node, "lineno", 1)
        end_line = getattr(node, "end_lineno", None) or line
        start = self.column(line, getattr(node, "col_offset", 0))
        end = self.column(end_line, getattr(node, "end_col_offset", None) or start)
        return Span(line, start, end_line, end)

    @cached_property
    def string_spans(self) -> list[tuple[int, int, int, int]]:
        """``(line, byte column, end line, end byte column)`` of every string literal, in order."""
        from kernel_lint.source.comments import split_concatenation

        strings = []
        for node in (*self.scopes.texts, *self.scopes.of_type(ast.JoinedStr)):
            span = (node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)
            strings.extend(split_concatenation(self.lines, span))
        return sorted(strings)

    @cached_property
    def comments(self) -> list[tuple[int, int, str]]:
        """Every comment as ``(line, column from 1, text from the hash sign on)``."""
        from kernel_lint.source.comments import find_comments

        return find_comments(self)


def _piped(path: str, max_bytes: int) -> bytes:
    """Return what a shell's pipe has (``<(command)``, ``/dev/stdin``); others may never end."""
    if path == os.devnull:
        return b""
    if not path.startswith(_OF_A_SHELL) or not stat.S_ISFIFO(os.stat(path).st_mode):
        raise SourceError(
            "is a pipe, a socket or a device, not a file",
            "name a file, or pass the text on standard input: kernel-lint - --stdin-filename NAME",
        )
    with open(path, "rb") as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise _too_large(f"over {max_bytes / 1e6:.1f} MB", max_bytes)
    return data


def _too_large(size: str, max_bytes: int) -> SourceError:
    return SourceError(
        f"has {size}, more than the limit of {max_bytes / 1e6:.1f} MB",
        "take generated data out of the file, or raise max-file-size",
    )


def decode(data: bytes) -> tuple[str, SyntaxProblem | None]:
    """Decode source bytes as Python does (BOM, coding cookie), or say what stands in the way."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "", SyntaxProblem("the file is UTF-16", Span(1, 1, 1, 1), "save it as UTF-8")
    nul = data.find(b"\0")
    if nul >= 0:
        span = _place(data, nul)
        message = "the file holds a NUL byte: it is binary, not source text"
        return "", SyntaxProblem(
            message, span, "a compiled or damaged file: put the source text in its place"
        )
    body = data[3:] if data.startswith(codecs.BOM_UTF8) else data
    try:
        encoding = "utf-8" if body is not data else declared(data)
    except SyntaxError as error:
        return "", SyntaxProblem(str(error), Span(1, 1, 1, 1), "name an encoding that Python knows")
    try:
        return body.decode(encoding), None
    except UnicodeDecodeError as error:
        byte = body[error.start]
        message = f"byte 0x{byte:02x} is not valid {encoding.upper()}"
        return "", SyntaxProblem(message, _place(body, error.start), "save the file as UTF-8")


def declared(data: bytes) -> str:
    """Return the encoding that a coding cookie names, else UTF-8; raises SyntaxError."""
    if b"coding" not in data[:400]:
        return "utf-8"
    from kernel_lint.source.syntax import declared_encoding

    return declared_encoding(data)


def _place(data: bytes, offset: int) -> Span:
    line = data.count(b"\n", 0, offset) + 1
    column = offset - (data.rfind(b"\n", 0, offset) + 1) + 1
    return Span(line, column, line, column + 1)
