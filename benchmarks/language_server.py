"""How long after the last key the language server's findings arrive, on a file of about 1,000 lines.

Run ``python benchmarks/language_server.py [FILE]``; needs the ``lsp`` and ``dev`` extras. The wait for a
pause in typing is part of the time. Beside it stands the time of the lint alone, in the same run.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from pathlib import Path

from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities, make_test_lsp_client

from kernel_lint import packager
from kernel_lint.integrations.language_server import PAUSE_SHARE, SHORTEST_PAUSE
from kernel_lint.integrations.lsp_documents import analyse

LINES = 1000
ROUNDS = 15
KEYS = 5
KEY_SECONDS = 0.015
URI = "file:///nowhere/generated_kernel.py"


def sample() -> str:
    """Return the packaged softmax example, its helpers repeated until there are about 1,000 lines."""
    text = packager.package(Path(__file__).parents[1] / "examples" / "softmax" / "kernel.py").text
    head, mark, model = text.partition("class Model")
    body = head
    number = 0
    while body.count("\n") + model.count("\n") < LINES:
        number += 1
        body += (
            head.partition("\n\n\n")[2]
            .replace("def ", f"def copy{number}_")
            .replace("class ", f"class C{number}")
        )
    return body + mark + model


async def measure(text: str) -> tuple[list[float], list[float]]:
    """Return seconds from the last key to the findings, and of the lint alone."""
    client: LanguageClient = make_test_lsp_client()
    await client.start_io(sys.executable, "-m", "kernel_lint", "server")
    capabilities = client_capabilities("visual_studio_code@1.65.2")
    await client.initialize_session(types.InitializeParams(capabilities=capabilities))
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(URI, "python", 1, text))
    )
    await client.wait_for_notification("textDocument/publishDiagnostics")
    waits, lints = [], []
    version = 1
    for _ in range(ROUNDS):
        for _ in range(KEYS):
            version += 1
            changed = text + f"print({version})\n" * version
            change = types.TextDocumentContentChangeWholeDocument(changed)
            document = types.VersionedTextDocumentIdentifier(version, URI)
            client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
            pressed = time.perf_counter()
            await asyncio.sleep(KEY_SECONDS)
        # The findings of this very version: one for each line that it has more than the sample.
        while sum(d.code == "KL102" for d in client.diagnostics[URI]) != version:
            await client.wait_for_notification("textDocument/publishDiagnostics")
        waits.append(time.perf_counter() - pressed)
        started = time.perf_counter()
        analyse("/nowhere/generated_kernel.py", changed)
        lints.append(time.perf_counter() - started)
    await client.shutdown_session()
    await client.stop()  # type: ignore[no-untyped-call]
    return waits, lints


def main() -> None:
    """Print medians and the worst."""
    text = Path(sys.argv[1]).read_text(encoding="utf-8") if len(sys.argv) > 1 else sample()
    waits, lints = asyncio.run(measure(text))
    print(f"{text.count(chr(10))} lines, {len(waits)} rounds of {KEYS} keys")
    for name, times in (("lint alone", lints), ("last key to findings", waits)):
        print(f"{name:22}median {statistics.median(times) * 1e3:6.1f} ms, worst {max(times) * 1e3:6.1f} ms")
    pause = max(SHORTEST_PAUSE, PAUSE_SHARE * statistics.median(lints))
    print(f"of which waited for a pause in typing: about {pause * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
