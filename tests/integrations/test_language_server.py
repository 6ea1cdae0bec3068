"""The language server over its real channel, as three kinds of client see it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("pygls")
pytest_lsp = pytest.importorskip("pytest_lsp")

from lsprotocol import types  # noqa: E402
from pytest_lsp import ClientServerConfig, LanguageClient  # noqa: E402

SOURCE = 'é = "𐐀"; print("𐐀", é)\nimport sys\n'
# One server for all tests: starting it takes most of the time. Each test opens a text of its own.
pytestmark = pytest.mark.asyncio(loop_scope="module")
COMMAND = [sys.executable, "-m", "kernel_lint", "server"]
FIX_ALL = "source.fixAll.kernel-lint"
# Only so that a fault ends the test: how long a loaded machine takes says nothing.
SECONDS = 90


async def _start(client: LanguageClient, name: str) -> None:
    capabilities = pytest_lsp.client_capabilities(name)
    await client.initialize_session(types.InitializeParams(capabilities=capabilities, workspace_folders=[]))


@pytest_lsp.fixture(config=ClientServerConfig(server_command=COMMAND), scope="module", loop_scope="module")  # type: ignore[untyped-decorator]
async def client(lsp_client: LanguageClient) -> AsyncIterator[None]:
    """A client that is pushed diagnostics and counts UTF-16 units."""
    await _start(lsp_client, "visual_studio_code@1.65.2")
    yield
    await lsp_client.shutdown_session()


@pytest_lsp.fixture(config=ClientServerConfig(server_command=COMMAND), scope="module", loop_scope="module")  # type: ignore[untyped-decorator]
async def puller(lsp_client: LanguageClient) -> AsyncIterator[None]:
    """A client that pulls diagnostics."""
    capabilities = types.ClientCapabilities(
        text_document=types.TextDocumentClientCapabilities(diagnostic=types.DiagnosticClientCapabilities())
    )
    await lsp_client.initialize_session(types.InitializeParams(capabilities=capabilities))
    yield
    await lsp_client.shutdown_session()


@pytest.fixture
def uri(request: pytest.FixtureRequest) -> str:
    """The address of a final file that is not there, in a folder of this test."""
    return f"file:///nowhere/{request.node.name.partition('[')[0]}/generated_kernel.py"


def _open(client: LanguageClient, uri: str, text: str) -> None:
    item = types.TextDocumentItem(uri, "python", 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))


def _change(client: LanguageClient, uri: str, version: int, text: str) -> None:
    document = types.VersionedTextDocumentIdentifier(version, uri)
    change = types.TextDocumentContentChangeWholeDocument(text)
    client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))


async def _pushed(client: LanguageClient, uri: str) -> list[types.Diagnostic]:
    while True:
        arrival = client.wait_for_notification("textDocument/publishDiagnostics")
        params = await asyncio.wait_for(arrival, SECONDS)
        # Late words about another test's text are none of this one's.
        if params.uri == uri:
            return list(params.diagnostics)


def _only(found: list[types.Diagnostic], code: str) -> types.Diagnostic:
    (one,) = [d for d in found if d.code == code]
    return one


async def test_an_unsaved_buffer_is_linted_in_the_clients_units(client: LanguageClient, uri: str) -> None:
    _open(client, uri, SOURCE)
    found = _only(await _pushed(client, uri), "KL102")
    # A letter outside the basic plane is two units of UTF-16.
    assert found.range == types.Range(types.Position(0, 10), types.Position(0, 15))
    assert found.severity == types.DiagnosticSeverity.Error
    assert found.source == "kernel-lint"
    assert found.code_description is not None
    assert found.code_description.href.endswith("/rules/debug-output/")


async def test_findings_follow_the_text(client: LanguageClient, uri: str) -> None:
    _open(client, uri, SOURCE)
    assert any(d.code == "KL102" for d in await _pushed(client, uri))
    for version in range(2, 12):
        _change(client, uri, version, SOURCE + f"# {version}\n")
    _change(client, uri, 12, "x = 1\n")
    # A slow machine may lint a text in between; the last word is about the last text.
    while any(d.code == "KL102" for d in await _pushed(client, uri)):
        continue
    client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
    assert await _pushed(client, uri) == []


async def test_a_syntax_error_is_a_finding(client: LanguageClient, uri: str) -> None:
    _open(client, uri, "```python\nx = 1\n")
    assert any(d.code == "KL001" for d in await _pushed(client, uri))


async def _actions(
    client: LanguageClient, uri: str, line: int, only: list[types.CodeActionKind | str] | None
) -> list[types.CodeAction]:
    place = types.Range(types.Position(line, 0), types.Position(line, 0))
    context = types.CodeActionContext([], only)
    document = types.TextDocumentIdentifier(uri)
    found = await client.text_document_code_action_async(types.CodeActionParams(document, place, context))
    return [action for action in found or [] if isinstance(action, types.CodeAction)]


def _applied(text: str, action: types.CodeAction, uri: str) -> str:
    """Apply an action's edits to an ASCII text."""
    assert action.edit is not None
    assert action.edit.changes is not None
    lines = text.splitlines(keepends=True)

    def offset(position: types.Position) -> int:
        return sum(map(len, lines[: position.line])) + position.character

    edits = sorted(action.edit.changes[uri], key=lambda e: offset(e.range.start), reverse=True)
    for edit in edits:
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


FIXABLE = 'x = 1\nprint(x)\ny = 2\nprint("a")\r\nprint(f())\n'


async def test_a_quick_fix(client: LanguageClient, uri: str) -> None:
    _open(client, uri, FIXABLE)
    (action,) = await _actions(client, uri, 1, [types.CodeActionKind.QuickFix])
    assert action.title == "KL102: remove the output"
    assert action.is_preferred
    assert _applied(FIXABLE, action, uri) == 'x = 1\ny = 2\nprint("a")\r\nprint(f())\n'
    (unsafe,) = await _actions(client, uri, 4, [types.CodeActionKind.QuickFix])
    assert unsafe.title.endswith("(unsafe)")
    assert not unsafe.is_preferred
    assert await _actions(client, uri, 0, [types.CodeActionKind.QuickFix]) == []


@pytest.mark.parametrize(
    "only", [[FIX_ALL], [types.CodeActionKind.SourceFixAll], [types.CodeActionKind.Source]]
)
async def test_fix_all_takes_the_safe_ones(
    client: LanguageClient, uri: str, only: list[types.CodeActionKind | str]
) -> None:
    _open(client, uri, FIXABLE)
    (action,) = await _actions(client, uri, 0, only)
    assert action.kind == FIX_ALL
    assert _applied(FIXABLE, action, uri) == "x = 1\ny = 2\nprint(f())\n"
    assert await _actions(client, uri, 0, [types.CodeActionKind.Refactor]) == []


async def test_hover_shows_the_rules_page(client: LanguageClient, uri: str) -> None:
    text = "print(1)\nx = 1  # kernel-lint: allow KL203 because\n"
    _open(client, uri, text)

    async def at(line: int, character: int) -> str | None:
        document = types.TextDocumentIdentifier(uri)
        params = types.HoverParams(document, types.Position(line, character))
        found = await client.text_document_hover_async(params)
        if found is None:
            return None
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value

    assert (await at(0, 2) or "").startswith("# KL102 debug-output")
    assert "# KL203 torch-compute" in (await at(1, text.splitlines()[1].index("KL203") + 2) or "")
    assert await at(1, 0) is None


async def test_each_folder_has_its_settings(client: LanguageClient, tmp_path: Path) -> None:
    uris = []
    for name, ignored in (("one", "KL102"), ("two", "KL101")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "pyproject.toml").write_text(
            f'[tool.kernel-lint]\nselect = ["KL1"]\nignore = ["{ignored}"]\n'
        )
        uris.append((folder / "generated_kernel.py").as_uri())
    text = 'if __name__ == "__main__":\n    print(1)\n'
    codes = []
    for uri in uris:
        _open(client, uri, text)
        codes.append([d.code for d in await _pushed(client, uri)])
    assert codes == [["KL101"], ["KL102"]]


async def test_a_broken_configuration_is_said_and_the_defaults_hold(
    client: LanguageClient, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.kernel-lint]\nignor = []\n")
    uri = (tmp_path / "generated_kernel.py").as_uri()
    _open(client, uri, "print(1)\n")
    assert any(d.code == "KL102" for d in await _pushed(client, uri))
    assert ["unknown key 'ignor'" in m.message for m in client.messages] == [True]


async def test_code_lens_and_package(client: LanguageClient, tmp_path: Path) -> None:
    entry = tmp_path / "kernel.py"
    entry.write_text(
        "import torch.nn as nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    _open(client, entry.as_uri(), entry.read_text())
    document = types.TextDocumentIdentifier(entry.as_uri())
    lenses = await client.text_document_code_lens_async(types.CodeLensParams(document)) or []
    assert [lens.command.title for lens in lenses if lens.command] == ["package", "verify"]
    assert {lens.range.start.line for lens in lenses} == {3}
    command = lenses[0].command
    assert command is not None
    made = await client.workspace_execute_command_async(
        types.ExecuteCommandParams(command.command, command.arguments)
    )
    assert made == str(tmp_path / "generated_kernel.py")
    assert "class Model" in Path(made).read_text()
    uri = Path(made).as_uri()
    _open(client, uri, Path(made).read_text())
    lenses = (
        await client.text_document_code_lens_async(types.CodeLensParams(types.TextDocumentIdentifier(uri)))
        or []
    )
    assert [lens.command.title for lens in lenses if lens.command] == ["verify"]


async def test_verify_of_a_broken_task_is_told(client: LanguageClient, tmp_path: Path) -> None:
    pytest.importorskip("flydsl")
    entry = tmp_path / "generated_kernel.py"
    entry.write_text("x = 1\n\n\nclass Model:\n    pass\n")
    _open(client, entry.as_uri(), entry.read_text())
    params = types.ExecuteCommandParams("kernel-lint.verify", [entry.as_uri()])
    assert await client.workspace_execute_command_async(params) is False
    (found,) = [d for d in client.diagnostics[entry.as_uri()] if d.source == "kernel-lint verify"]
    assert "INVALID_TASK" in found.message
    assert found.range.start.line == 3
    _change(client, entry.as_uri(), 2, "x = 1\n")
    assert [d for d in await _pushed(client, entry.as_uri()) if d.source == "kernel-lint verify"] == []


async def test_a_client_that_pulls_is_not_pushed_the_same(puller: LanguageClient, uri: str) -> None:
    _open(puller, uri, SOURCE)
    params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
    report = await puller.text_document_diagnostic_async(params)
    assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
    _only(list(report.items), "KL102")
    _change(puller, uri, 2, "x = 1\n")
    report = await puller.text_document_diagnostic_async(params)
    assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
    assert not any(d.code == "KL102" for d in report.items)
    assert not any(puller.diagnostics.values())
