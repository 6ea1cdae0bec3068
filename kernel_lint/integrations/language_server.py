"""The language server: findings as one types, fixes, rule pages, and package and verify at ``class Model``.

Clients that pull diagnostics (``textDocument/diagnostic``) are not pushed the same ones; what verify found is
pushed to all.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from kernel_lint import __version__, registry
from kernel_lint.diagnostics import Applicability, Diagnostic
from kernel_lint.engine import FINAL_NAME
from kernel_lint.errors import KernelLintError
from kernel_lint.fixing import fix_module
from kernel_lint.integrations import lsp_verify
from kernel_lint.integrations.lsp_documents import Analysis, analyse, model_line
from kernel_lint.integrations.lsp_text import Lines, line_edits, overlaps
from kernel_lint.source.module import SourceError, SourceModule

# A text is linted when no key was pressed for a moment: long enough that a word typed quickly is linted once,
# and longer where a lint takes long, so that it seldom begins just before the next key.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
PAUSE_SHARE = 0.25
FIX_ALL = "source.fixAll.kernel-lint"
PACKAGE, VERIFY = "kernel-lint.package", "kernel-lint.verify"
_CODE = re.compile(r"\bKL\d{3}\b")


class KernelLintServer(LanguageServer):
    """The server's state: the last analysis of each open text, verify's messages, work in progress."""

    def __init__(self) -> None:
        super().__init__("kernel-lint", __version__)
        self.analyses: dict[str, tuple[int | None, Analysis]] = {}
        self.pending: dict[str, asyncio.Task[None]] = {}
        self.seconds: dict[str, float] = {}
        self.all_fixed: dict[str, tuple[Analysis, list[types.TextEdit]]] = {}
        self.verdicts: dict[str, list[types.Diagnostic]] = {}
        self.busy: set[str] = set()
        self.told: set[str] = set()

    @property
    def pulls(self) -> bool:
        """Whether the client asks for diagnostics by itself."""
        document = self.client_capabilities.text_document
        return document is not None and document.diagnostic is not None

    def lines(self, module: SourceModule) -> Lines:
        """Return positions in a module in the client's units."""
        encoding = self.workspace.position_encoding
        return Lines(module.lines, str(getattr(encoding, "value", encoding)) if encoding else None)

    def analysis(self, uri: str) -> Analysis:
        """Return the analysis of a text as it is now."""
        document = self.workspace.get_text_document(uri)
        known = self.analyses.get(uri)
        if known is not None and known[0] == document.version and document.version is not None:
            return known[1]
        started = time.thread_time()
        made = analyse(document.path or uri, document.source)
        self.seconds[uri] = time.thread_time() - started
        self.analyses[uri] = (document.version, made)
        if made.problem and made.problem not in self.told:
            self.told.add(made.problem)
            self.say(made.problem, types.MessageType.Warning)
        return made

    def findings(self, uri: str) -> list[types.Diagnostic]:
        """Return the linter's findings in a text."""
        made = self.analysis(uri)
        lines = self.lines(made.module)
        return [lines.diagnostic(d) for d in made.diagnostics]

    def fix_all(self, uri: str) -> list[types.TextEdit]:
        """Return the edits of all safe fixes of a text, found once for each version of it."""
        made = self.analysis(uri)
        known = self.all_fixed.get(uri)
        if known is not None and known[0] is made:
            return known[1]
        edits: list[types.TextEdit] = []
        if any(d.fix is not None and d.fix.applicability is Applicability.SAFE for d in made.diagnostics):
            fixed = fix_module(made.module, made.settings, unsafe=False, task=made.task)
            if fixed.text != made.module.text:
                edits = line_edits(made.module.text, fixed.text)
        self.all_fixed[uri] = (made, edits)
        return edits

    def pause(self, uri: str) -> float:
        """Return how long a text must stay unchanged before it is linted, in seconds."""
        return min(max(SHORTEST_PAUSE, PAUSE_SHARE * self.seconds.get(uri, 0.0)), LONGEST_PAUSE)

    def publish(self, uri: str) -> None:
        """Send what the client does not pull."""
        found = [] if self.pulls else self.findings(uri)
        self.send(uri, [*found, *self.verdicts.get(uri, [])])

    def send(self, uri: str, found: list[types.Diagnostic]) -> None:
        """Send diagnostics."""
        document = self.workspace.text_documents.get(uri)
        version = document.version if document is not None else None
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    def say(self, text: str, kind: types.MessageType = types.MessageType.Info) -> None:
        """Show a message to the person."""
        self.window_show_message(types.ShowMessageParams(kind, f"kernel-lint: {text}"))

    def schedule(self, uri: str) -> None:
        """Lint a text once it has not changed for a moment."""
        waiting = self.pending.pop(uri, None)
        if waiting is not None:
            waiting.cancel()
        self.pending[uri] = asyncio.get_running_loop().create_task(self._later(uri))

    async def _later(self, uri: str) -> None:
        await asyncio.sleep(self.pause(uri))
        self.pending.pop(uri, None)
        if uri in self.workspace.text_documents:
            self.publish(uri)


server = KernelLintServer()


# -- texts -----------------------------------------------------------------------------


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
def did_open(ls: KernelLintServer, params: types.DidOpenTextDocumentParams) -> None:
    """Lint a text that was opened."""
    ls.publish(params.text_document.uri)


@server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
async def did_change(ls: KernelLintServer, params: types.DidChangeTextDocumentParams) -> None:
    """Lint a changed text soon; what verify said of it no longer holds."""
    uri = params.text_document.uri
    if ls.verdicts.pop(uri, None) is not None and ls.pulls:
        ls.send(uri, [])
    if not ls.pulls:
        ls.schedule(uri)


@server.feature(types.TEXT_DOCUMENT_DID_SAVE)
def did_save(ls: KernelLintServer, params: types.DidSaveTextDocumentParams) -> None:
    """Lint a saved text anew: its neighbours or settings may have changed with it."""
    uri = params.text_document.uri
    ls.analyses.pop(uri, None)
    ls.publish(uri)


@server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
def did_close(ls: KernelLintServer, params: types.DidCloseTextDocumentParams) -> None:
    """Forget a text; what verify found in the file stays."""
    uri = params.text_document.uri
    ls.analyses.pop(uri, None)
    ls.seconds.pop(uri, None)
    ls.all_fixed.pop(uri, None)
    waiting = ls.pending.pop(uri, None)
    if waiting is not None:
        waiting.cancel()
    ls.send(uri, ls.verdicts.get(uri, []))


@server.feature(
    types.TEXT_DOCUMENT_DIAGNOSTIC,
    types.DiagnosticOptions(
        identifier="kernel-lint", inter_file_dependencies=False, workspace_diagnostics=False
    ),
)
def pull(
    ls: KernelLintServer, params: types.DocumentDiagnosticParams
) -> types.RelatedFullDocumentDiagnosticReport:
    """Answer with the findings of a text as it is now."""
    return types.RelatedFullDocumentDiagnosticReport(items=ls.findings(params.text_document.uri))


# -- fixes -----------------------------------------------------------------------------


@server.feature(
    types.TEXT_DOCUMENT_CODE_ACTION,
    types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL]),
)
def code_actions(ls: KernelLintServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """Offer the fixes of the findings in a range, and all safe fixes at once."""
    uri = params.text_document.uri
    made = ls.analysis(uri)
    lines = ls.lines(made.module)
    actions = []
    if _wanted(params.context, types.CodeActionKind.QuickFix.value):
        for d in made.diagnostics:
            if d.fix is not None and overlaps(lines.range(d.span), params.range):
                actions.append(_quick_fix(uri, d, lines))
    if _wanted(params.context, FIX_ALL):
        edits = ls.fix_all(uri)
        if edits:
            title = "kernel-lint: fix all that is safe to fix"
            actions.append(types.CodeAction(title, FIX_ALL, edit=types.WorkspaceEdit({uri: edits})))
    return actions


def _wanted(context: types.CodeActionContext, kind: str) -> bool:
    """Tell whether a kind is asked for: itself, a kind above it, or nothing in particular."""
    asked = [getattr(item, "value", item) for item in context.only or []]
    return not asked or any(kind == item or kind.startswith(f"{item}.") for item in asked)


def _quick_fix(uri: str, d: Diagnostic, lines: Lines) -> types.CodeAction:
    assert d.fix is not None
    safe = d.fix.applicability is Applicability.SAFE
    return types.CodeAction(
        f"{d.code}: {d.fix.message}" + ("" if safe else " (unsafe)"),
        types.CodeActionKind.QuickFix,
        diagnostics=[lines.diagnostic(d)],
        is_preferred=safe,
        edit=types.WorkspaceEdit({uri: [lines.edit(edit) for edit in d.fix.edits]}),
    )


# -- pages -----------------------------------------------------------------------------


@server.feature(types.TEXT_DOCUMENT_HOVER)
def hover(ls: KernelLintServer, params: types.HoverParams) -> types.Hover | None:
    """Show the pages of the rules whose findings, or whose codes, are under the cursor."""
    from kernel_lint.docgen import page

    made = ls.analysis(params.text_document.uri)
    lines = ls.lines(made.module)
    here = params.position
    codes = [d.code for d in made.diagnostics if _inside(lines.range(d.span), here)]
    if here.line < len(made.module.lines):
        for match in _CODE.finditer(made.module.lines[here.line]):
            start, end = (lines.position(here.line + 1, n + 1).character for n in match.span())
            if start <= here.character <= end:
                codes.append(match[0])
    known = {rule.code: rule for rule in registry.all_rules()}
    pages = [page(known[code]) for code in dict.fromkeys(codes) if code in known]
    if not pages:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n---\n\n".join(pages)))


def _inside(place: types.Range, position: types.Position) -> bool:
    return (
        (place.start.line, place.start.character)
        <= (position.line, position.character)
        <= (place.end.line, place.end.character)
    )


# -- package and verify ----------------------------------------------------------------


@server.feature(types.TEXT_DOCUMENT_CODE_LENS)
def code_lens(ls: KernelLintServer, params: types.CodeLensParams) -> list[types.CodeLens]:
    """Offer package and verify above ``class Model`` of a file on disk."""
    uri = params.text_document.uri
    module = ls.analysis(uri).module
    line = model_line(module)
    path = uris.to_fs_path(uri)
    if line is None or path is None or not Path(path).is_file():
        return []
    place = ls.lines(module).line_range(line)
    commands = [types.Command("verify", VERIFY, arguments=[uri])]
    if Path(path).name != FINAL_NAME:
        commands.insert(0, types.Command("package", PACKAGE, arguments=[uri]))
    return [types.CodeLens(place, command) for command in commands]


@server.command(PACKAGE)
async def package(ls: KernelLintServer, uri: str) -> str | None:
    """Write generated_kernel.py beside an entry; return its path."""
    from kernel_lint import packager
    from kernel_lint.files import replace_file
    from kernel_lint.gate_record import remember_packaging

    entry = Path(uris.to_fs_path(uri) or uri)
    output = entry.with_name(FINAL_NAME)
    try:
        made = await asyncio.to_thread(packager.package, entry)
        replace_file(output, made.text)
    except KernelLintError as error:
        ls.say(str(error), types.MessageType.Error)
        return None
    except OSError as error:
        ls.say(f"{output} cannot be written: {error.strerror}", types.MessageType.Error)
        return None
    remember_packaging(output, entry, (), ())
    ls.say(f"{output} is written")
    return str(output)


@server.command(VERIFY)
async def verify(ls: KernelLintServer, uri: str) -> bool | None:
    """Verify a candidate or a workspace, and show what was found at its lines; return whether it passed."""
    if uri in ls.busy:
        ls.say("verify is still running")
        return None
    ls.busy.add(uri)
    path = Path(uris.to_fs_path(uri) or uri)
    ls.say(f"verifying {path.name}: the file as it is saved")
    try:
        outcome = await lsp_verify.run(path)
    except KernelLintError as error:
        ls.say(str(error), types.MessageType.Error)
        return None
    finally:
        ls.busy.discard(uri)
    _show(ls, uri, path.parent, outcome)
    ls.say(outcome.headline, types.MessageType.Info if outcome.passed else types.MessageType.Error)
    return outcome.passed


def _show(ls: KernelLintServer, uri: str, folder: Path, outcome: lsp_verify.Outcome) -> None:
    """Replace what an earlier run said of this workspace."""
    stale = [u for u in ls.verdicts if u == uri or Path(uris.to_fs_path(u) or u).is_relative_to(folder)]
    for known in stale:
        del ls.verdicts[known]
    for message in outcome.messages:
        target = uris.from_fs_path(str(message.path.absolute())) or uri
        target = uri if uris.to_fs_path(uri) == uris.to_fs_path(target) else target
        ls.verdicts.setdefault(target, []).append(_as_diagnostic(ls, target, message))
    for target in dict.fromkeys([*stale, *ls.verdicts, uri]):
        if target in ls.workspace.text_documents:
            ls.publish(target)
        else:
            ls.send(target, ls.verdicts.get(target, []))


def _as_diagnostic(ls: KernelLintServer, uri: str, message: lsp_verify.Located) -> types.Diagnostic:
    try:
        document = ls.workspace.text_documents.get(uri)
        if document is not None:
            module = SourceModule.from_text(document.source, str(message.path))
        else:
            module = SourceModule.read(message.path)
        place = ls.lines(module).line_range(message.line)
    except SourceError:
        place = types.Range(types.Position(message.line - 1, 0), types.Position(message.line - 1, 0))
    severity = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning}.get(
        message.severity.value, types.DiagnosticSeverity.Information
    )
    return types.Diagnostic(place, message.message, severity, source="kernel-lint verify")
