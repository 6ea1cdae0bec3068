"""The edits that turn a kept statement's own text into the text of the result."""

from __future__ import annotations

import ast
import bisect
import itertools
import re
from collections import defaultdict

from kernel_lint import TYPE_CHECKING
from kernel_lint.packager.annotate import annotation_nodes, evaluates
from kernel_lint.packager.errors import PackageError
from kernel_lint.packager.graph import Program
from kernel_lint.packager.known import OUTPUT_BUILTINS
from kernel_lint.packager.layout import Edit, Layout, apply_edits
from kernel_lint.packager.load import type_only
from kernel_lint.packager.model import (
    Const,
    Dynamic,
    Ext,
    ImportSite,
    Missing,
    Mod,
    Module,
    Scope,
    Sym,
    Target,
    Unit,
    Use,
)
from kernel_lint.packager.rename import Names, uses_in
from kernel_lint.packager.shake import Kept, globals_names, reads_globals
from kernel_lint.packager.statements import blocks, import_text, is_text
from kernel_lint.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(slots=True)
class Options:
    """What is decided for the whole result."""

    keep_comments: bool = False
    keep_docstrings: bool = False
    quote_annotations: bool = False  # of modules that have the annotations future
    drop_prints: bool = False


class _Marks:
    def __init__(self) -> None:
        self.edits: list[Edit] = []
        self.removed: dict[int, str] = {}  # statement id -> replacement lines ("" for none)
        self.globals: defaultdict[int, set[str]] = defaultdict(set)


class Rewriter:
    """Computes edits unit by unit."""

    def __init__(self, program: Program, kept: Kept, names: Names, options: Options) -> None:
        self.program = program
        self.kept = kept
        self.names = names
        self.options = options
        self.layouts: dict[str, Layout] = {}
        self.problems: list[PackageError] = []
        self.dropped: list[tuple[Unit, int]] = []
        self._uses = uses_in(kept)

    def layout(self, module: Module) -> Layout:
        """Return the layout of a module."""
        if module.name not in self.layouts:
            self.layouts[module.name] = Layout(module)
        return self.layouts[module.name]

    # -- text of targets ---------------------------------------------------------------

    def text(self, target: Target) -> str:
        """Return the expression that stands for a target."""
        if isinstance(target, (Sym, Ext, Mod)):
            return self.names.of(target)
        if isinstance(target, Const):
            return target.text
        if isinstance(target, Dynamic):
            return f"{self.names.of(Sym(target.module, '__getattr__'))}({target.name!r})"
        raise AssertionError(target)

    # -- one unit ------------------------------------------------------------------------

    def unit_lines(self, unit: Unit) -> list[tuple[str, int]]:
        """Return the rewritten lines of a whole unit, with the lines that they come from."""
        layout = self.layout(unit.module)
        start, end = layout.start(unit.node), layout.end(unit.node)
        first = layout.line_of(start)
        begin = layout.starts[first - 1]
        prefix = ""
        if layout.text[begin:start].strip():
            prefix = " " * unit.node.col_offset
            begin = start
        elif self.options.keep_comments:
            begin, first = self._leading_comments(layout, begin, first)
        if self.options.keep_comments:
            whole = layout.alone(start, end)
            end = whole[1] - 1 if whole and whole[1] > end else end
        lines = apply_edits(layout.text, begin, end, self._unit_edits(unit), first)
        lines[0] = (prefix + lines[0][0], lines[0][1])
        return lines

    def span_lines(self, unit: Unit, start: int, end: int) -> list[tuple[str, int]]:
        """Return rewritten text between two offsets: the header of a compound statement."""
        layout = self.layout(unit.module)
        edits = [edit for edit in self._unit_edits(unit) if start <= edit.start and edit.end <= end]
        return apply_edits(layout.text, start, end, edits, layout.line_of(start))

    def _leading_comments(self, layout: Layout, begin: int, first: int) -> tuple[int, int]:
        while first > 1 and layout.lines[first - 2].lstrip().startswith("#"):
            first -= 1
            begin = layout.starts[first - 1]
        return begin, first

    def _unit_edits(self, unit: Unit) -> list[Edit]:
        layout = self.layout(unit.module)
        marks = _Marks()
        strings: dict[int, tuple[ast.expr, list[tuple[Use, str]]]] = {}
        for use in self._uses.get(id(unit), ()):
            self._use(use, layout, marks, strings)
        for node, replacements in strings.values():
            marks.edits.extend(self._string(unit, layout, node, replacements))
        for binding in unit.bindings:
            marks.edits.extend(self._binding(unit, binding.name, binding.node, binding.deferred, layout))
        if not unit.is_import:
            self._imports(unit, layout, marks)
        if not unit.blocks:
            self._statements(unit, layout, marks)
            self._global_lines(unit, layout, marks)
        marks.edits.extend(self._comments(layout, unit))
        if self.options.quote_annotations and unit.module.future_annotations:
            marks.edits = self._quote(unit, layout, marks.edits)
        return marks.edits

    def _use(
        self,
        use: Use,
        layout: Layout,
        marks: _Marks,
        strings: dict[int, tuple[ast.expr, list[tuple[Use, str]]]],
    ) -> None:
        target, depth = self.program.resolve_use(use)
        if target is None and reads_globals(use):
            assert use.call is not None
            marks.edits.append(Edit(layout.start(use.call), layout.end(use.call), self._globals_text(use)))
        if target is None or isinstance(target, Missing) or id(use) in self.names.builtin_reads:
            return
        new = self.text(target)
        loads = [
            self.names.loaders[m] for m in self.program.import_call_modules(use) if m in self.names.loaders
        ]
        if loads and use.deferred:
            new = f"({' or '.join(f'{load}()' for load in loads)} or {new})"
        node = use.links[depth - 1].node if depth else use.node
        if depth and use.links[depth - 1].ctx != "load":
            self._declare(use, new, marks)
        if use.string is not None:
            strings.setdefault(id(use.string), (use.string, []))[1].append((use, new))
            return
        if layout.source(node) != new:
            marks.edits.append(Edit(layout.offset(node.lineno, node.col_offset), layout.end(node), new))

    def _globals_text(self, use: Use) -> str:
        module = use.unit.module.name
        pairs = [
            f"{name!r}: {self.text(target)}"
            for name in globals_names(self.program, use)
            if (target := self.program.attribute(module, name)) is not None
        ]
        display = "{" + ", ".join(pair.replace("'", '"', 2) for pair in pairs) + "}"
        return f"sorted({display})" if use.name == "dir" else display

    def _declare(self, use: Use, name: str, marks: _Marks) -> None:
        scope: Scope | None = use.scope
        while scope is not None and scope.kind == "comprehension":
            scope = scope.parent
        if scope is not None and scope.kind != "module" and scope.owner is not None:
            marks.globals[id(scope.owner)].add(name)

    def _string(
        self, unit: Unit, layout: Layout, node: ast.expr, replacements: list[tuple[Use, str]]
    ) -> Iterator[Edit]:
        mapping: dict[str, str] = {}
        for use, new in replacements:
            depth = self.program.resolve_use(use)[1]
            old = ".".join([use.text, *(link.name for link in use.links[:depth])])
            if isinstance(use.node, ast.Call) or mapping.setdefault(old, new) != new:
                self._refuse(
                    unit, node, f"{old!r} means two things in one string", "take it out of the string"
                )
        changed = {old: new for old, new in mapping.items() if old != new}
        if changed:
            from kernel_lint.packager.strings import rewrite_string

            text = rewrite_string(layout.source(node), changed, isinstance(node, ast.Constant))
            yield Edit(layout.offset(node.lineno, node.col_offset), layout.end(node), text)

    def _refuse(self, unit: Unit, node: ast.AST, message: str, remedy: str) -> None:
        line = getattr(node, "lineno", unit.line)
        self.problems.append(PackageError(message, remedy, unit.module.path, line))

    # -- names that bindings spell ---------------------------------------------------------

    def _binding(
        self, unit: Unit, name: str, node: ast.AST, deferred: bool, layout: Layout
    ) -> Iterator[Edit]:
        symbol = Sym(unit.module.name, name)
        new = self.names.flat.get(symbol, name)
        if new == name or isinstance(node, ast.Name):
            return
        if isinstance(node, _DEFINITIONS):
            if symbol in self.names.bound_after:
                return
            start = layout.offset(node.lineno, node.col_offset)
            match = re.compile(r"(?:async\s+)?(?:def|class)\s+(?:\\\n\s*)?(\w+)").match(layout.text, start)
            assert match is not None
            yield Edit(match.start(1), match.end(1), new)
        elif isinstance(node, ast.ExceptHandler):
            start = layout.end(node.type) if node.type else layout.offset(node.lineno, node.col_offset)
            match = re.compile(rf"[\s)\\]*as\s+({re.escape(name)})\b").match(layout.text, start)
            assert match is not None
            yield Edit(match.start(1), match.end(1), new)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar, ast.MatchMapping)):
            end = layout.end(node)
            at = layout.text.rindex(name, 0, end)
            yield Edit(at, at + len(name), new)

    # -- imports inside functions -----------------------------------------------------------

    def _imports(self, unit: Unit, layout: Layout, marks: _Marks) -> None:
        statements: dict[int, list[ImportSite]] = {}
        for site in unit.imports:
            statements.setdefault(id(site.node), []).append(site)
        for sites in statements.values():
            node = sites[0].node
            if type_only(sites[0]):
                continue
            lines = self._import_lines(sites, unit)
            if lines is not None:
                marks.removed[id(node)] = "\n".join(lines)

    def _import_lines(self, sites: list[ImportSite], unit: Unit) -> list[str] | None:
        """Return what replaces an import inside a function, None where it stays."""
        lines: list[str] = []
        changed = False
        external: list[str] = []
        for site in sites:
            target = self.program.site_target(site)
            name = self._bound_name(site)
            if not self.program.is_local(site):
                external.append(import_text(site, name))
                changed |= name != site.local_name
                continue
            changed = True
            loads = [other for other in self.program.executed(site) if other in self.names.loaders]
            lines.extend(f"{self.names.loaders[other]}()" for other in loads)
            if isinstance(target, Missing):
                lines.append(f"raise {target.error}({target.message!r})")
            elif not site.star and self.program.needs_binding(site):
                lines.append(f"{name} = {self.text(target)}")
        return [*external, *lines] if changed else None

    def _bound_name(self, site: ImportSite) -> str:
        if site.scope.kind == "module" or site.local_name in site.scope.globals:
            return self.names.flat.get(Sym(site.unit.module.name, site.local_name), site.local_name)
        return site.local_name

    # -- statements that go ------------------------------------------------------------------

    def _statements(self, unit: Unit, layout: Layout, marks: _Marks) -> None:
        """Remove docstrings, and rewrite imports and ``global`` lines, in every block of the unit."""
        for body in blocks(unit.node):
            self._block(unit, body, layout, marks)

    def _block(self, unit: Unit, body: list[ast.stmt], layout: Layout, marks: _Marks) -> None:
        gone: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, ast.Expr):
                if is_text(statement) and not self.options.keep_docstrings:
                    gone.append(statement)
                elif self.options.drop_prints and self._prints(unit, statement):
                    self.dropped.append((unit, statement.lineno))
                    gone.append(statement)
            elif isinstance(statement, ast.Global):
                self._global(unit, statement, layout, marks)
            elif id(statement) in marks.removed:
                replacement = marks.removed[id(statement)]
                if replacement:
                    indent = "\n" + " " * statement.col_offset
                    text = replacement.replace("\n", indent)
                    if layout.alone(layout.start(statement), layout.end(statement)) is None:
                        text = replacement.replace("\n", "; ")
                    marks.edits.append(Edit(layout.start(statement), layout.end(statement), text))
                else:
                    gone.append(statement)
        for index, statement in enumerate(gone):
            start, end = layout.start(statement), layout.end(statement)
            whole = layout.alone(start, end)
            if (index == 0 and len(gone) == len(body)) or whole is None:
                marks.edits.append(Edit(start, end, "pass"))
            else:
                marks.edits.append(Edit(*whole, ""))

    def _prints(self, unit: Unit, statement: ast.stmt) -> bool:
        """Whether a statement prints, and evaluates nothing that could have another effect."""
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            return False
        call = statement.value
        if getattr(call.func, "id", "") not in OUTPUT_BUILTINS:
            return False
        known = any(use.node is call.func and use.is_global for use in self._uses.get(id(unit), ()))
        if not known or self.program.resolve_name(unit.module.name, call.func.id) is not None:  # type: ignore[attr-defined]
            return False
        inner = (node for part in [*call.args, *call.keywords] for node in ast.walk(part))
        return not any(isinstance(node, (ast.Call, ast.NamedExpr, ast.Await, ast.Yield)) for node in inner)

    def _global(self, unit: Unit, node: ast.Global, layout: Layout, marks: _Marks) -> None:
        new = [self.names.flat.get(Sym(unit.module.name, name), name) for name in node.names]
        if new != node.names:
            marks.edits.append(
                Edit(layout.start(node), layout.end(node), "global " + ", ".join(dict.fromkeys(new)))
            )

    def _global_lines(self, unit: Unit, layout: Layout, marks: _Marks) -> None:
        if not marks.globals:
            return
        for owner in ast.walk(unit.node):
            names = marks.globals.get(id(owner))
            if not names or not isinstance(owner, _DEFINITIONS):
                continue
            first = next(item for item in owner.body if not is_text(item) or item is owner.body[-1])
            start = layout.start(first)
            line = "global " + ", ".join(sorted(names))
            alone = not layout.text[layout.starts[layout.line_of(start) - 1] : start].strip()
            separator = "\n" + " " * first.col_offset if alone else "; "
            marks.edits = [_after(edit, start, line + separator) for edit in marks.edits]
            if not any(edit.start == start for edit in marks.edits):
                marks.edits.append(Edit(start, start, line + separator))

    def _comments(self, layout: Layout, unit: Unit) -> Iterator[Edit]:
        comments = layout.read(unit)
        if self.options.keep_comments:
            return
        begin, finish = layout.start(unit.node), layout.end(unit.node)
        at = bisect.bisect_left(comments, (begin, begin))
        for start, end in itertools.takewhile(lambda item: item[0] < finish, comments[at:]):
            whole = layout.alone(start, end)
            if whole is not None and layout.text[whole[0] : start].strip() == "":
                yield Edit(*whole, "")
            else:
                while start > 0 and layout.text[start - 1] in " \t":
                    start -= 1
                yield Edit(start, end, "")

    # -- annotations ---------------------------------------------------------------------------

    def _quote(self, unit: Unit, layout: Layout, edits: list[Edit]) -> list[Edit]:
        for node, plain in annotation_nodes(unit.node):
            if plain and self.program.has_model and evaluates(node):
                continue  # nobody reads it, and it means the same when it is evaluated
            start, end = layout.offset(node.lineno, node.col_offset), layout.end(node)
            inside = [edit for edit in edits if start <= edit.start and edit.end <= end]
            lines = apply_edits(layout.text, start, end, inside, 1)
            source = "\n".join(line for line, _ in lines)
            value = ast.unparse(ast.parse(f"({source})", mode="eval"))
            quoted = repr(value) if '"' in value else f'"{value}"'
            edits = [edit for edit in edits if edit not in inside] + [Edit(start, end, quoted)]
        return edits


def _after(edit: Edit, start: int, text: str) -> Edit:
    return Edit(edit.start, edit.end, text + edit.text) if edit.start == start and edit.end > start else edit
