"""Write the plan as one module: imports on top, then the statements in the order in which they ran."""

from __future__ import annotations

import ast

from kernel_lint.packager.annotate import annotation_nodes
from kernel_lint.packager.graph import Program
from kernel_lint.packager.imports import Imports
from kernel_lint.packager.items import Assign, Item, Load, Loader, Namespace, Place, Prelude, Raise, Statement
from kernel_lint.packager.known import BUILTINS
from kernel_lint.packager.model import ENTRY, Ext, Mod, Sym, Unit
from kernel_lint.packager.namespaces import namespace_lines
from kernel_lint.packager.rename import Names
from kernel_lint.packager.rewrite import Rewriter
from kernel_lint.packager.shake import Kept
from kernel_lint.packager.statements import import_text

Line = tuple[str, tuple[str, int] | None]
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Emitter:
    """Turns items into lines, each with the file and line that it comes from."""

    def __init__(
        self, program: Program, kept: Kept, names: Names, rewriter: Rewriter, shown: tuple[bool, bool]
    ) -> None:
        self.program = program
        self.kept = kept
        self.names = names
        self.rewriter = rewriter
        self.shown = shown
        self.uses_module_type = False
        self.uses_cache = False
        self.imports = Imports(program, kept, names)
        self._bound: list[set[str]] = []

    def text(self, items: list[Item], placed: set[Ext], future: bool) -> list[Line]:
        """Return all lines of the result."""
        body = self.block(items, 0, top=True)
        wanted = [external for external in self.kept.externals if external not in placed]
        head = self.imports.block(wanted)
        head = _with_own_imports(head, self.uses_module_type, self.uses_cache)
        lines: list[Line] = []
        if future:
            lines.append(("from __future__ import annotations", None))
            lines.append(("", None))
        lines.extend((line, None) for line in head)
        if not head and future:
            lines.pop()
        if lines and body:
            lines.append(("", None))
            if body[0][0].startswith(("def ", "class ", "@", "async ")):
                lines.append(("", None))
        return lines + body

    def block(self, items: list[Item], indent: int, top: bool = False) -> list[Line]:
        """Return the lines of a sequence of items."""
        lines: list[Line] = []
        previous: Item | None = None
        ends = False
        for item in items:
            written, big = self._item(item, indent)
            if not written:
                continue
            if previous is not None:
                apart = ends or written[0][0].lstrip().startswith(("def ", "class ", "@", "async def "))
                lines.extend([("", None)] * ((2 if top else 1) if apart else self._gap(previous, item)))
            lines.extend(written)
            previous, ends = item, big
        return lines

    def _gap(self, before: Item, after: Item) -> int:
        first, second = before.unit, after.unit
        if isinstance(after, Namespace) or isinstance(before, Namespace):
            return int(not (isinstance(before, Namespace) and isinstance(after, Namespace)))
        if first is None or second is None:
            return 0
        if first.module is not second.module:
            return 1
        between = first.module.lines[first.node.end_lineno or 0 : second.line - 1]
        return int(any(not line.strip() for line in between))

    def _item(self, item: Item, indent: int) -> tuple[list[Line], bool]:
        """Return an item's lines and whether they end in a definition, which has blank lines after it."""
        if isinstance(item, Statement):
            return self._statement(item, indent)
        place = None if item.unit is None else (str(item.unit.module.path), item.unit.line)
        if isinstance(item, Loader):
            return self._loader(item, indent), True
        if isinstance(item, Namespace):
            lines, big = namespace_lines(self.program, self.names, item)
            if indent:  # one blank line is enough there
                lines = [line for index, line in enumerate(lines) if line or lines[index - 1]]
            self.uses_module_type = True
        else:
            lines, big = self._simple(item), False
        return [(" " * indent + line if line else "", place) for line in lines], big

    def _simple(self, item: Item) -> list[str]:
        if isinstance(item, Assign):
            self._bind(self.names.of(item.symbol))
            value = self.rewriter.text(item.target)
            name = self.names.of(item.symbol)
            return [] if name == value else [f"{name} = {value}"]
        if isinstance(item, Prelude):
            name = self.names.of(item.symbol)
            self._bind(name)
            return [] if name == item.symbol.name else [f"{name} = {item.symbol.name}"]
        if isinstance(item, Raise):
            return [f"raise {item.missing.error}({item.missing.message!r})"]
        if isinstance(item, Place):
            for external in item.externals:
                self._bind(self.names.of(external))
            return self.imports.block(item.externals)
        assert isinstance(item, Load)
        return [f"{self.names.loaders[item.module]}()"]

    def _bind(self, name: str) -> None:
        for bound in self._bound:
            bound.add(name)

    # -- statements ------------------------------------------------------------------------

    def _statement(self, item: Statement, indent: int) -> tuple[list[Line], bool]:
        unit = item.unit
        assert unit is not None
        for binding in unit.bindings:
            self._bind(self.names.flat.get(Sym(unit.module.name, binding.name), binding.name))
        for use in unit.uses if self._bound else ():
            target, depth = self.program.resolve_use(use)
            if depth and use.links[depth - 1].ctx != "load" and isinstance(target, Sym):
                self._bind(self.names.of(target))
        if unit.is_import:
            return [
                (" " * indent + line, _place(unit, unit.line)) for line in self._import_lines(unit)
            ], False
        if unit.blocks:
            return self._compound(item, unit, indent), False
        lines = self._shift(unit, self.rewriter.unit_lines(unit), indent - unit.node.col_offset)
        definition = isinstance(unit.node, _DEFINITIONS)
        for after in self._after(unit):
            if definition:
                lines.extend([("", None)] * (1 if indent else 2))
                definition = False
            lines.append((" " * indent + after, _place(unit, unit.node.lineno)))
        return lines, definition

    def _after(self, unit: Unit) -> list[str]:
        """Return the lines that bind a definition to its new name."""
        lines = []
        for binding in unit.bindings:
            symbol = Sym(unit.module.name, binding.name)
            if unit.module.name != ENTRY and binding.kind in ("def", "class"):
                if self.shown[0 if binding.kind == "class" else 1] and self._keeps_type(unit):
                    name = binding.name if symbol in self.names.bound_after else self.names.of(symbol)
                    lines.append(f'{name}.__module__ = "{unit.module.name}"')
            if symbol in self.names.bound_after and binding.kind in ("def", "class"):
                if self._bound:  # inside a loader, where it would be import_x.<locals>.name
                    lines.append(f'{binding.name}.__qualname__ = "{binding.name}"')
                if symbol not in self.kept.unread:
                    lines.append(f"{self.names.of(symbol)} = {binding.name}")
                if binding.name in BUILTINS and binding.name in self.names.restored:
                    lines.append(f"del {binding.name}")
        return lines

    def _keeps_type(self, unit: Unit) -> bool:
        """Whether a definition has no decorators but a library's, which return what they decorate."""
        for decorator in getattr(unit.node, "decorator_list", ()):
            function = decorator.func if isinstance(decorator, ast.Call) else decorator
            names = {inner.id for inner in ast.walk(function) if isinstance(inner, ast.Name)}
            if any(isinstance(self.program.resolve_name(unit.module.name, name), Sym) for name in names):
                return False
        return True

    def _import_lines(self, unit: Unit) -> list[str]:
        lines = []
        whole = unit.parent is not None and isinstance(unit.parent.node, ast.Try)
        for site in unit.imports:
            if self.program.is_local(site):
                continue
            symbol = Sym(unit.module.name, site.local_name)
            if symbol in self.kept.symbols or whole:
                lines.append(import_text(site, self.names.flat.get(symbol, site.local_name)))
        return lines

    def _compound(self, item: Statement, unit: Unit, indent: int) -> list[Line]:
        lines: list[Line] = []
        node = unit.node
        layout = self.rewriter.layout(unit.module)
        pad = " " * indent
        if isinstance(node, ast.If):
            start = layout.start(node)
            keyword = "elif" if layout.text.startswith("elif", start) else "if"
            lines.extend(self._header(unit, start + len(keyword), node.test, pad + "if"))
            lines.extend(self._suite(item, "body", indent))
            lines.extend(self._else(item, unit, indent))
            return lines
        assert isinstance(node, ast.Try)
        lines.append((pad + "try:", _place(unit, node.lineno)))
        lines.extend(self._suite(item, "body", indent))
        for index, handler in enumerate(node.handlers):
            start = layout.offset(handler.lineno, handler.col_offset)
            end = _colon(layout.text, layout.end(handler.type) if handler.type else start)
            header = self.rewriter.span_lines(unit, start, end)
            lines.extend(self._shift(unit, _drop_blank(header), 0, pad))
            lines.extend(self._suite(item, f"handler {index}", indent))
        for name, title in (("orelse", "else:"), ("finalbody", "finally:")):
            if item.blocks.get(name):
                lines.append((pad + title, _place(unit, node.lineno)))
                lines.extend(self._suite(item, name, indent))
        return lines

    def _header(self, unit: Unit, start: int, test: ast.expr, head: str) -> list[Line]:
        layout = self.rewriter.layout(unit.module)
        end = _colon(layout.text, layout.end(test))
        found = self.rewriter.span_lines(unit, start, end)
        lines = self._shift(unit, _drop_blank(found), 0, "")
        lines[0] = (head + lines[0][0], lines[0][1])
        return lines

    def _else(self, item: Statement, unit: Unit, indent: int) -> list[Line]:
        """Write ``elif`` and ``else`` after an ``if``."""
        rest = item.blocks.get("orelse") or []
        if not rest:
            return []
        layout = self.rewriter.layout(unit.module)
        only = rest[0]
        nested = only.unit if isinstance(only, Statement) else None
        if len(rest) == 1 and nested is not None and isinstance(nested.node, ast.If) and nested.blocks:
            start = layout.start(nested.node)
            if layout.text.startswith("elif", start):
                lines = self._compound(only, nested, indent)  # type: ignore[arg-type]
                lines[0] = (" " * indent + "el" + lines[0][0].lstrip(), lines[0][1])
                return lines
        return [(" " * indent + "else:", _place(unit, unit.line)), *self._suite(item, "orelse", indent)]

    def _suite(self, item: Statement, name: str, indent: int) -> list[Line]:
        lines = self.block(item.blocks.get(name) or [], indent + 4)
        return lines or [(" " * (indent + 4) + "pass", None)]

    def _shift(self, unit: Unit, lines: list[tuple[str, int]], delta: int, pad: str = "") -> list[Line]:
        """Indent anew, and squeeze blank lines, but inside strings."""
        layout = self.rewriter.layout(unit.module)
        path = str(unit.module.path)
        result: list[Line] = []
        for index, (text, origin) in enumerate(lines):
            inside = origin in layout.inside_string
            if not inside:
                text = text.rstrip()
                if not text and (
                    not result or not result[-1][0] or _no_blank_after(result[-1][0], lines, index)
                ):
                    continue
                if delta > 0 and text:
                    text = " " * delta + text
                elif delta < 0:
                    text = text[min(-delta, len(text) - len(text.lstrip())) :]
                text = pad + text if text else text
            result.append((text, (path, origin)))
        while result and not result[-1][0]:
            result.pop()  # what stood on the last line was removed
        return result

    def _loader(self, item: Loader, indent: int) -> list[Line]:
        """Write the function that runs a module's statements once."""
        self._bound.append(set())
        body = self.block(item.items, indent + 4)
        bound = sorted(
            self._bound.pop() | {self.names.of(Mod(i.module)) for i in item.items if isinstance(i, Namespace)}
        )
        name = self.names.loaders[item.module]
        pad = " " * indent
        lines: list[Line] = []
        if item.cyclic:
            flag = f"{name}_done"
            lines.append((f"{pad}{flag} = False", None))
            lines.extend([("", None), ("", None), (f"{pad}def {name}():", None)])
            lines.append((f"{pad}    global {', '.join([*bound, flag])}", None))
            lines.append((f"{pad}    if {flag}:", None))
            lines.append((f"{pad}        return", None))
            lines.append((f"{pad}    {flag} = True", None))
        else:
            self.uses_cache = True
            lines.append((f"{pad}@functools.lru_cache(maxsize=None)", None))
            lines.append((f"{pad}def {name}():", None))
            if bound:
                lines.append((f"{pad}    global {', '.join(bound)}", None))
        return [*lines, *(body or [(f"{pad}    pass", None)])]


def has_annotations(unit: Unit) -> bool:
    """Whether a unit has annotations whose evaluation the future import changes."""
    return any(True for _ in annotation_nodes(unit.node))


def _with_own_imports(head: list[str], module_type: bool, cache: bool) -> list[str]:
    extra = (["from types import ModuleType"] if module_type else []) + (
        ["import functools"] if cache else []
    )
    missing = [line for line in extra if line not in head]
    if not missing:
        return head
    # Standard library, so the first section; sorted with what is there.
    if head and "" in head:
        first, rest = head[: head.index("")], head[head.index("") :]
    elif head and head[0].split()[1].partition(".")[0] not in __import__("sys").stdlib_module_names:
        first, rest = [], ["", *head]
    else:
        first, rest = head, []
    if any(line.startswith(("    ", ")")) for line in first):
        return [*missing, *head]
    first = sorted([*first, *missing], key=lambda line: (line.startswith("from"), line))
    return first + rest


def _place(unit: Unit, line: int) -> tuple[str, int]:
    return (str(unit.module.path), line)


def _colon(text: str, offset: int) -> int:
    """Return the offset after the colon that ends a header, from the end of its last expression."""
    return text.index(":", offset) + 1


def _drop_blank(lines: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return [line for line in lines if line[0].strip()]


def _no_blank_after(opener: str, lines: list[tuple[str, int]], index: int) -> bool:
    """Whether a blank line goes: it opens a block, and no definition in an ``if`` or loop follows."""
    if not opener.endswith(":"):
        return False
    if opener.lstrip().startswith(("def ", "class ", "async def ")):
        return True
    rest = next((text for text, _ in lines[index:] if text.strip()), "")
    return not rest.lstrip().startswith(("def ", "class ", "async def ", "@"))
