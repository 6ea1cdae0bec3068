"""How long after the last key the language server's findings arrive, on a file of about 1,000 lines.

Run ``python benchmarks/language_server.py [FILE] [--rounds 15]``; needs the ``lsp`` and ``dev`` extras. The
wait for a pause in typing is part of the time. Beside it stands the time of the lint alone, in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path

from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities, make_test_lsp_client
from tables import Table, write_tables

from kernel_lint import packager
from kernel_lint.integrations.language_server import PAUSE_SHARE, SHORTEST_PAUSE
from kernel_lint.integrations.lsp_documents import analyse

LINES = 1000
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


async def measure(text: str, rounds: int) -> tuple[list[float], list[float]]:
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
    for _ in range(rounds):
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the table there")
    arguments = parser.parse_args()
    text = arguments.file.read_text(encoding="utf-8") if arguments.file else sample()
    waits, lints = asyncio.run(measure(text, arguments.rounds))
    pause = max(SHORTEST_PAUSE, PAUSE_SHARE * statistics.median(lints))
    rows = [
        (name, statistics.median(times) * 1e3, max(times) * 1e3)
        for name, times in (("from the last key to the findings", waits), ("the lint alone", lints))
    ]
    note = (
        f"wall time, {text.count(chr(10)):,} lines, {len(waits)} rounds of {KEYS} keys; "
        f"of it about {pause * 1e3:.0f} ms wait for a pause in typing"
    )
    table = Table("How long after the last key", ("", "median ms", "worst ms"), tuple(rows), note)
    print(table.text())
    write_tables(arguments.json, [table])


if __name__ == "__main__":
    main()
