"""The process that runs test cases: one JSON request a line over a socket, one reply a line.

It is started once and reused, so that a case's time limit counts the case and not the imports. When a
case runs past its limit the parent ends this process and everything below it, and starts another.
"""

from __future__ import annotations

import json
import socket
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel_lint.verify import VerifyOptions

WARM_SECONDS = 300.0


def main(path: str) -> int:
    """Serve requests on the Unix socket at ``path`` until the other side closes it."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(path)
        with channel.makefile("rw", encoding="utf-8") as stream:
            _preload()
            _send(stream, {"ready": True})
            for line in stream:
                _send(stream, _answer(json.loads(line)))
    return 0


def _preload() -> None:
    import kernel_lint.verify.judge
    import kernel_lint.verify.shape_run  # noqa: F401


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; what goes wrong on our side is told, not raised."""
    from kernel_lint.verify import VerifyOptions, verify

    settings = request["options"]
    for name in ("targets", "shapes"):
        settings[name] = tuple(settings[name])
    options, task = VerifyOptions(**settings), Path(request["task"])
    try:
        if request.get("warm"):
            return _warm(task, options)
        return {"report": verify(Path(request["candidate"]), task, options).to_json()}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}


def _warm(task: Path, options: VerifyOptions) -> dict[str, Any]:
    """Have the engine import what its workers need, by starting one that does nothing."""
    from kernel_lint.verify.backends import load_backend
    from kernel_lint.verify.contract import load_task
    from kernel_lint.verify.workplace import Workplace

    backend = load_backend(options.backend)
    target = (options.targets or backend.default_targets())[0]
    with Workplace(load_task(task), b"", options, backend) as place, place.start_reference(target) as session:
        return {"ready": session.ask("prepare", WARM_SECONDS).ok}


def _send(stream: Any, message: dict[str, Any]) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
