"""A process that judges one task after another: started by :mod:`kernel_lint.verify.fleet.local`.

Tasks arrive on the first descriptor as pickles, answers leave on the second as lines of text. The
zygote of the judge stays for the next task, so torch is imported once for each worker. The end of the
driver, whatever its cause, closes the first descriptor: then the worker ends at once, and its zygote
and the candidate with it.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from typing import Any, BinaryIO, NoReturn

READY = "ready"


def main() -> NoReturn:
    """Serve until the driver ends."""
    requests, replies = (int(text) for text in sys.argv[1:3])
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    source = os.fdopen(requests, "rb")
    threading.Thread(target=_receive, args=(source, tasks), daemon=True).start()
    # Imported before the first task, so that a broken installation shows as a worker that never was ready.
    import kernel_lint.verify.fleet.execute

    assert kernel_lint.verify.fleet.execute
    with os.fdopen(replies, "w", encoding="utf-8") as answers:
        answers.write(READY + "\n")
        answers.flush()
        while True:
            work, task = tasks.get()
            answers.write(work(task) + "\n")
            answers.flush()


def _receive(source: BinaryIO, tasks: queue.SimpleQueue[Any]) -> None:
    """Read tasks; at the end of them, or when the driver is gone, end the whole process."""
    try:
        while True:
            tasks.put(pickle.load(source))
    except (EOFError, OSError, pickle.UnpicklingError):
        pass
    finally:
        from kernel_lint.verify.session import close_zygotes
        from kernel_lint.verify.workplace import make_no_more_folders, remove_own_folders

        try:
            make_no_more_folders()
            close_zygotes()
            remove_own_folders()
        finally:
            os._exit(0)
