"""A module used as a value, written as an explicit module object."""

from __future__ import annotations

from kernel_lint.packager.graph import Program
from kernel_lint.packager.items import Namespace
from kernel_lint.packager.model import Const, Dynamic, Ext, Missing, Mod, Sym, Target
from kernel_lint.packager.rename import Names

WIDTH = 110


def namespace_lines(program: Program, names: Names, item: Namespace) -> tuple[list[str], bool]:
    """Return the lines that make the module object, and whether a class is among them."""
    flat = names.of(Mod(item.module))
    values = []
    for name in item.names:
        target = program.attribute(item.module, name)
        text = _text(names, target)
        if text is not None:
            values.append((name, text, isinstance(target, Sym)))
    if item.live:
        return _live(program, names, item, flat, values), False
    lines = [f'{flat} = ModuleType("{item.module}")']
    pairs = [f"{name}={text}" for name, text, _ in values]
    line = f"{flat}.__dict__.update({', '.join(pairs)})"
    if len(line) > WIDTH:
        lines += [f"{flat}.__dict__.update(", *(f"    {pair}," for pair in pairs), ")"]
    elif pairs:
        lines.append(line)
    parent, _, last = item.module.rpartition(".")
    if parent and Mod(parent) in names.flat:
        lines.append(f"{names.of(Mod(parent))}.{last} = {flat}")
    return lines, False


def _live(
    program: Program, names: Names, item: Namespace, flat: str, values: list[tuple[str, str, bool]]
) -> list[str]:
    """Return a class of properties that read and write the variables, and its one instance."""
    known = {name for name, _, _ in values}
    late = [Sym(item.module, name) for name in sorted(program.rebound_in(item.module)) if name not in known]
    values = values + [(s.name, names.flat[s], True) for s in late if s in names.flat]
    owner = f"_{flat.strip('_').title().replace('_', '')}Module"
    lines = [f"class {owner}(ModuleType):"]
    for name, text, variable in values:
        if name == "__getattr__":
            continue
        if lines[-1].startswith("  "):
            lines.append("")
        me = "self" if text != "self" else "this"
        new = "value" if text != "value" else "new"
        lines += ["    @property", f"    def {name}({me}):"]
        if variable and (item.cyclic or name not in program.definite(item.module)):
            lines += ["        try:", f"            return {text}", "        except NameError:"]
            lines += [f'            raise AttributeError("{name}") from None']
        else:
            lines.append(f"        return {text}")
        if variable:
            lines += ["", f"    @{name}.setter", f"    def {name}({me}, {new}):"]
            lines += [f"        global {text}", f"        {text} = {new}"]
    if not values:
        lines.append("    pass")
    lines += ["", "", f'{flat} = {owner}("{item.module}")']
    if "__getattr__" in known:
        lines.append(f"{flat}.__dict__['__getattr__'] = {names.of(Sym(item.module, '__getattr__'))}")
    return lines


def _text(names: Names, target: Target | None) -> str | None:
    if isinstance(target, (Sym, Ext, Mod)):
        return names.flat.get(target)
    if isinstance(target, Const):
        return target.text
    if isinstance(target, Dynamic):
        return f"{names.of(Sym(target.module, '__getattr__'))}({target.name!r})"
    assert target is None or isinstance(target, Missing)
    return None
