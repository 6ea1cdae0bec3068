"""A hypothesis strategy for small programs of several modules that use few names often."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

NAMES = ("alpha", "beta", "size", "run", "Box", "str", "_hid")
MODULES = ("one", "two", "pack", "pack.three", "pack.four", "five")


@dataclass
class Program:
    """The files of a program, by path."""

    files: dict[str, str]

    def __str__(self) -> str:
        return "\n".join(f"--- {path}\n{text}" for path, text in self.files.items())


@dataclass
class _Known:
    """What a module under construction can use: expressions that give a number, a callable, or a class."""

    numbers: list[str] = field(default_factory=lambda: ["1"])
    functions: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    bound: dict[str, str] = field(default_factory=dict)

    def bind(self, name: str, kind: str) -> None:
        """Note that a name is bound, and forget what it was."""
        for pool in (self.numbers, self.functions, self.classes, self.lists):
            while name in pool:
                pool.remove(name)
        getattr(self, kind).append(name)
        self.bound[name] = kind


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw a program: helper modules that may import earlier ones (and lazily any), then ``main.py``."""
    count = draw(st.integers(1, 5))
    chosen = list(MODULES[:count])
    exported: dict[str, dict[str, str]] = {}
    files: dict[str, str] = {}
    order = draw(st.permutations(chosen))
    for index, module in enumerate(order):
        known = _Known()
        lines = _imports(draw, known, list(order[:index]), exported, module)
        for number in range(draw(st.integers(1, 5))):
            lines += _statement(draw, known, f"{module}{number}", list(order[:index]), exported)
        if draw(st.booleans()):
            lines.append(f"print({module!r}, {_number(draw, known)})")
        exported[module] = dict(known.bound)
        files[_path(module, chosen)] = "\n".join(lines) + "\n"
    if any(name.startswith("pack.") for name in chosen):
        files.setdefault("pack/__init__.py", "")
    known = _Known()
    # An import that fails as its module is only half done, and is caught, is beyond what is promised.
    guarded = any("except ImportError" in text for text in files.values())
    cycles = [] if guarded else _cycles(draw, list(order), exported, files, chosen)
    lines = _imports(draw, known, list(order), exported, "main") + cycles
    if count > 1 and draw(st.booleans()):
        lines += _modules_as_values(draw, list(order), exported)
    for number in range(draw(st.integers(1, 4))):
        lines += _statement(draw, known, f"main{number}", list(order), exported)
    lines += [f"print({_number(draw, known)})" for _ in range(3)]
    lines += [
        f"print({name}.__name__, {name}.__qualname__)"
        for name in known.classes + known.functions
        if "." not in name
    ]
    files["main.py"] = "\n".join(lines) + "\n"
    return Program(files)


def _cycles(
    draw: st.DrawFn,
    order: list[str],
    exported: dict[str, dict[str, str]],
    files: dict[str, str],
    chosen: list[str],
) -> list[str]:
    """Let an earlier module import a later one, in a function or at its end; return lines that use it."""
    if len(order) < 2 or not draw(st.booleans()):
        return []
    index = draw(st.integers(0, len(order) - 2))
    early, late = order[index], draw(st.sampled_from(order[index + 1 :]))
    numbers = [name for name, kind in exported[late].items() if kind == "numbers"]
    if not numbers:
        return []
    name = draw(st.sampled_from(numbers))
    path = _path(early, chosen)
    if draw(st.booleans()):
        files[path] += f"def late(x):\n    from {late} import {name} as got\n    return x + got\n"
    else:
        files[path] += f"def late(x):\n    return x + found.{name}\nimport {late} as found\n"
    return [f"import {early} as early_one", "print(early_one.late(1))"]


def _modules_as_values(draw: st.DrawFn, order: list[str], exported: dict[str, dict[str, str]]) -> list[str]:
    """Put modules into a list, and read and set a variable of each by its name."""
    name = draw(st.sampled_from(NAMES[:4]))
    holders = [module for module in order if exported[module].get(name) == "numbers"]
    if not holders:
        return []
    lines = [f"import {module} as v_{module.replace('.', '_')}" for module in holders]
    listed = ", ".join(f"v_{module.replace('.', '_')}" for module in holders)
    lines.append(f"VALUES = [{listed}]")
    lines.append(f"print([getattr(value, '{name}') for value in VALUES])")
    if draw(st.booleans()):
        lines += [
            "for value in VALUES:",
            f"    value.{name} = 7",
            f"    setattr(value, '{name}', value.{name} + 1)",
        ]
    if draw(st.booleans()):
        lines.append(f"print([hasattr(value, 'absent_{name}') for value in VALUES], VALUES[0].{name})")
    return lines


def _path(module: str, chosen: list[str]) -> str:
    if module == "pack" and any(name.startswith("pack.") for name in MODULES):
        return "pack/__init__.py"
    return module.replace(".", "/") + ".py"


def _use(known: _Known, prefix: str, names: dict[str, str]) -> None:
    for name, kind in names.items():
        getattr(known, kind).append(f"{prefix}.{name}")


def _imports(
    draw: st.DrawFn, known: _Known, ready: list[str], exported: dict[str, dict[str, str]], me: str
) -> list[str]:
    lines = []
    for module in ready:
        names = exported[module]
        style = draw(
            st.sampled_from(("none", "plain", "alias", "from", "from as", "star", "relative", "guarded"))
        )
        if style == "plain":
            lines.append(f"import {module}")
            _use(known, module, names)
        elif style == "alias":
            alias = "m_" + module.replace(".", "_")
            lines.append(f"import {module} as {alias}")
            _use(known, alias, names)
        elif style == "star":
            lines.append(f"from {module} import *")
            for name, kind in names.items():
                if not name.startswith("_"):
                    known.bind(name, kind)
        elif style in ("from", "from as", "relative", "guarded") and names:
            name = draw(st.sampled_from(sorted(names)))
            local = draw(st.sampled_from(NAMES)) if style == "from as" else name
            source = module
            if style == "relative" and me.startswith("pack.") and module.startswith("pack."):
                source = module.replace("pack", "", 1)
            line = f"from {source} import {name}" + (f" as {local}" if local != name else "")
            if style == "guarded":
                lines += ["try:", f"    {line}", "except ImportError:", "    raise TypeError('never')"]
            else:
                lines.append(line)
            known.bind(local, names[name])
    return lines


def _number(draw: st.DrawFn, known: _Known, depth: int = 0) -> str:
    """Return an expression that gives a number."""
    options = ["name"]
    if depth < 2:
        options += ["sum", "fstring", "comprehension"]
        options += ["call"] * 2 if known.functions else []
        options += ["class"] if known.classes else []
        options += ["list"] if known.lists else []
    kind = draw(st.sampled_from(options))
    if kind == "sum":
        return f"({_number(draw, known, depth + 1)} + {_number(draw, known, depth + 1)})"
    if kind == "fstring":
        return 'len(f"{' + _number(draw, known, 2) + '}")'
    if kind == "comprehension":
        name = draw(st.sampled_from(NAMES[:4]))
        inner = draw(st.sampled_from([name, f"{name} + {_number(draw, known, 2)}"]))
        return (
            f"sum([{inner} for {name} in range(3)])"
            if "." not in inner
            else f"sum([{name} for {name} in range(3)])"
        )
    if kind == "call":
        return f"{draw(st.sampled_from(known.functions))}({_number(draw, known, depth + 1)})"
    if kind == "class":
        return f"{draw(st.sampled_from(known.classes))}().get()"
    if kind == "list":
        return f"len({draw(st.sampled_from(known.lists))})"
    return draw(st.sampled_from(known.numbers))


def _statement(
    draw: st.DrawFn, known: _Known, tag: str, ready: list[str], exported: dict[str, dict[str, str]]
) -> list[str]:
    """Return the lines of one statement, noting what it binds."""
    name = draw(st.sampled_from(NAMES))
    kind = draw(
        st.sampled_from(
            (
                *("assign", "def", "class", "list", "if", "global", "closure", "decorated", "lazy", "loop"),
                *("attr", "augmented", "match", "handler", "walrus", "unbound"),
            )
        )
    )
    value = _number(draw, known)
    if kind == "assign":
        known.bind(name, "numbers")
        return [f"{name} = {value}"]
    if kind == "list":
        known.bind(name, "lists")
        return [
            f"{name} = [{value}]",
            f"{name}.append({value})" if name not in value else f"{name}.append(0)",
        ]
    if kind == "if":
        known.bind(name, "numbers")
        return [f"if {value} > 2:", f"    {name} = 5", "else:", f"    {name} = 6"]
    if kind == "loop":
        known.bind(name, "numbers")
        return [f"for {name} in range(2):", "    pass"]
    if kind == "attr":
        stores = [item for item in known.numbers if "." in item and not item.startswith("pack.")]
        if stores:
            return [f"{draw(st.sampled_from(stores))} = {value}"]
        return []
    if kind == "augmented":
        stores = [item for item in known.numbers if "." in item and not item.startswith("pack.")]
        return [f"{draw(st.sampled_from(stores))} += {value}"] if stores else []
    if kind in ("match", "handler", "walrus", "unbound"):
        known.bind(name, "numbers")
        return _binding_form(kind, name, value)
    if kind == "lazy":
        lines = _lazy(draw, name, ready, exported)
        if lines:
            known.bind(name, "functions")
        return lines
    return _definition(draw, known, kind, name, tag)


def _binding_form(kind: str, name: str, value: str) -> list[str]:
    """Return lines that bind a number to ``name`` in a rarer way."""
    if kind == "match":
        return [
            f"match [{value}, 2]:",
            f"    case [{name}, *rest_{name}]:",
            f"        {name} += len(rest_{name})",
        ]
    if kind == "handler":
        lines = ["try:", f"    raise ValueError({value})", f"except ValueError as {name}:"]
        return [*lines, f"    kept_{name} = len({name}.args)", f"{name} = kept_{name}"]
    if kind == "walrus":
        return [f"[({name} := {name}_item) for {name}_item in range({value}, {value} + 2)]"]
    # With the name of a builtin the value would mean that, once the name is deleted.
    return [f"{name} = 1", f"del {name}", f"{name} = {'2' if name in value else value}"]


def _lazy(draw: st.DrawFn, name: str, ready: list[str], exported: dict[str, dict[str, str]]) -> list[str]:
    sources = [(m, n) for m in ready for n, kind in exported[m].items() if kind == "numbers"]
    if not sources:
        return []
    module, item = draw(st.sampled_from(sources))
    if draw(st.booleans()):
        return [f"def {name}(x):", f"    from {module} import {item} as got", "    return x + got"]
    return [f"def {name}(x):", f"    import {module} as held", f"    return x + held.{item}"]


def _definition(draw: st.DrawFn, known: _Known, kind: str, name: str, tag: str) -> list[str]:
    other = draw(st.sampled_from(NAMES[:4]))
    # Bodies use what is bound by now and is not bound again under another kind: names only, to stay finite.
    body = draw(st.sampled_from([item for item in known.numbers if item != name and item != other] or ["1"]))
    default = draw(st.sampled_from(known.numbers))
    if kind == "class":
        base = draw(st.sampled_from([*known.classes, "object"]))
        known.bind(name, "classes")
        return [
            f"class {name}({base}):",
            f"    {other} = {default}",
            "    def get(self):",
            f"        return self.{other}",
        ]
    if kind == "global" and name in known.numbers:
        target = name
        setter = f"set_{tag.replace('.', '_')}"
        known.bind(setter, "functions")
        return [f"def {setter}(x):", f"    global {target}", f"    {target} = x", f"    return {target}"]
    known.bind(name, "functions")
    if kind == "closure":
        return [
            f"def {name}({other}, k={default}):",
            "    def inner():",
            f"        nonlocal {other}",
            f"        {other} += k",
            f"        return {other}",
            "    return inner()",
        ]
    if kind == "decorated":
        deco = f"deco_{tag.replace('.', '_')}"
        return [
            f"def {deco}(fn):",
            "    return fn",
            f"@{deco}",
            f"def {name}({other}):",
            f"    return {other} + 1",
        ]
    return [f"def {name}({other}=1, *, key={default}):", f"    return {other} + key + {body}"]
