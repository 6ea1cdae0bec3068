"""Checking many files by several processes, which share the work out among themselves.

Where processes can be forked, they start with the rules loaded and nothing to hand over but what they
found, in the form that the cache keeps; :mod:`concurrent.futures` would cost more than linting four
files before the first is looked at. Elsewhere it does the work.
"""

from __future__ import annotations

import marshal
import os
import signal
import sys

from kernel_lint.encoding import decode, encode
from kernel_lint.records import TYPE_CHECKING, dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kernel_lint.diagnostics import Diagnostic

# Chunks are handed out by their number in one byte.
_MAX_CHUNKS = 255
# Files that take long shall not all wait in the last chunk.
_CHUNKS_EACH = 16


@dataclass(frozen=True, slots=True)
class FileError:
    """A file that could not be checked; ``message`` completes the sentence "PATH ..."."""

    path: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return (
            f"{self.path} {self.message}\n  remedy: {self.remedy}"
            if self.remedy
            else f"{self.path} {self.message}"
        )


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of one file; ``neighbours`` is what rules asked about other files, and the answers."""

    outcome: list[Diagnostic] | FileError
    neighbours: dict[str, str] = field(default_factory=dict)


def check_all(
    check: Callable[[str], Checked], paths: Sequence[str], jobs: int, start: Callable[[], None]
) -> list[Checked]:
    """Return ``check(path)`` for every path, in order; each process calls ``start`` first.

    A file whose process was killed gives a :class:`FileError`. Raises what ``check`` raises.
    """
    if not _can_fork():
        from concurrent.futures import ProcessPoolExecutor

        with ProcessPoolExecutor(jobs, initializer=start) as pool:
            return list(pool.map(check, paths, chunksize=max(1, len(paths) // (jobs * 4))))
    # What the first file makes the linter load is loaded once.
    done = {0: check(paths[0])}
    chunks = _chunks(len(paths), min(_MAX_CHUNKS, jobs * _CHUNKS_EACH))
    take, give = os.pipe()
    os.write(give, bytes(range(len(chunks))))
    os.close(give)
    workers: list[_Worker] = []
    try:
        for _ in range(jobs - 1):
            workers.append(_Worker(lambda: _share(check, paths, chunks, take), start))
        done.update(_share(check, paths, chunks, take))
        ends = [worker.results(done) for worker in workers]
    finally:
        os.close(take)
        for worker in workers:
            worker.stop()
    how = next((end for end in ends if end), "")
    remedy = "run it again with --jobs 1; when memory was short, check fewer files at a time"
    lost = f"could not be checked: the process that checked it {how}"
    return [done.get(index) or Checked(FileError(path, lost, remedy), {}) for index, path in enumerate(paths)]


def _can_fork() -> bool:
    """Forking is safe on Linux, in a process without threads."""
    threading = sys.modules.get("threading")
    return sys.platform == "linux" and (threading is None or threading.active_count() == 1)


def _chunks(count: int, wanted: int) -> list[range]:
    """Split the positions behind the first into at most ``wanted`` runs, all but the last equally long."""
    step = max(1, -(-(count - 1) // wanted))
    return [range(begin, min(begin + step, count)) for begin in range(1, count, step)]


def _share(
    check: Callable[[str], Checked], paths: Sequence[str], chunks: Sequence[range], take: int
) -> Iterator[tuple[int, Checked]]:
    """Take chunks while there are any, and yield what came of their files."""
    while number := os.read(take, 1):
        for index in chunks[number[0]]:
            yield index, check(paths[index])


class _Worker:
    """A forked process that sends what it found, or the exception that stopped it, when it is done."""

    def __init__(self, work: Callable[[], Iterator[tuple[int, Checked]]], start: Callable[[], None]) -> None:
        self._pipe, inlet = os.pipe()
        # What stands in buffers would be written by both.
        sys.stdout.flush()
        sys.stderr.flush()
        self._process = os.fork()
        if self._process == 0:
            os._exit(_serve(work, start, inlet))
        os.close(inlet)

    def results(self, done: dict[int, Checked]) -> str:
        """Add the results to ``done``; return how the process ended when it did not end well, or ""."""
        with open(self._pipe, "rb", closefd=False) as stream:
            data = stream.read()
        _, status = os.waitpid(self._process, 0)
        self._process = 0
        code = os.waitstatus_to_exitcode(status)
        if code < 0 or not data:
            return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        if code:
            import pickle

            # Written by a process of ours, like what marshal reads below.
            raise pickle.loads(data)
        for index, outcome, neighbours in marshal.loads(data):
            found = [decode(item) for item in outcome] if isinstance(outcome, list) else FileError(*outcome)
            done[index] = Checked(found, neighbours)
        return ""

    def stop(self) -> None:
        """End the process when it still runs, and forget it."""
        os.close(self._pipe)
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)


def _serve(work: Callable[[], Iterator[tuple[int, Checked]]], start: Callable[[], None], inlet: int) -> int:
    """Do a worker's part in the forked process and return its exit code."""
    code = 0
    try:
        start()
        data = marshal.dumps([_plain(index, checked) for index, checked in work()])
    except KeyboardInterrupt:
        # The process that forked this one was interrupted too, and says so.
        return 130
    except BaseException as error:
        import pickle

        code, data = 1, pickle.dumps(error)
    with open(inlet, "wb") as stream:
        stream.write(data)
    return code


def _plain(index: int, checked: Checked) -> tuple[object, ...]:
    """Return a result as values that :mod:`marshal` writes."""
    outcome = checked.outcome
    if isinstance(outcome, FileError):
        return index, (outcome.path, outcome.message, outcome.remedy), checked.neighbours
    return index, [encode(d) for d in outcome], checked.neighbours
