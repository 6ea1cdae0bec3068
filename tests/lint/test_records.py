"""Records against the standard library's dataclasses."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lint import records

KINDS: list[dict[str, bool]] = [
    {"frozen": True},
    {"frozen": True, "order": True},
    {},
    {"unsafe_hash": True},
    {"eq": False},
]
Maker = Callable[..., Any]


def _pair(dataclass: Maker, field: Maker, **kind: bool) -> tuple[Any, Any]:
    @dataclass(slots=True, **kind)
    class Base:
        """Two numbers."""

        kind: ClassVar[str] = "base"
        x: int
        y: int = 2

        def total(self) -> int:
            return self.x + self.y

    @dataclass(slots=True, **kind)
    class Derived(Base):
        y: int = 5
        names: tuple[str, ...] = ()
        more: dict[str, int] = field(default_factory=dict, compare=False)
        secret: int = field(default=0, repr=False)
        fixed: int = field(default=4, init=False)
        sizes: list[int] = field(default_factory=list, init=False)

        @property
        def first(self) -> str:
            return self.names[0]

    return Base, Derived


@pytest.fixture(params=KINDS, ids=lambda kind: "+".join(kind) or "plain")
def pairs(request: pytest.FixtureRequest) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    ours = _pair(records.dataclass, records.field, **request.param)
    return ours, _pair(dataclasses.dataclass, dataclasses.field, **request.param)


def _outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error)


def test_objects_look_the_same(pairs: Any) -> None:
    (_, ours), (_, theirs) = pairs
    for arguments, keywords in (((1,), {}), ((1, 3, ("a",)), {"more": {"k": 1}}), ((), {}), ((1,), {"z": 1})):
        first, second = (_outcome(partial(c, *arguments, **keywords)) for c in (ours, theirs))
        if isinstance(first, type):
            assert first is second
            continue
        assert repr(first) == repr(second)
        assert dataclasses.asdict(first) == dataclasses.asdict(second)
        assert first.total() == second.total()
        assert _outcome(lambda f=first: f.first) == _outcome(lambda s=second: s.first)
        changed = repr(dataclasses.replace(second, x=7))
        assert repr(dataclasses.replace(first, x=7)) == repr(records.replace(first, x=7)) == changed
        assert repr(copy.copy(first)) == repr(first)
    names = [[item.name for item in dataclasses.fields(c)] for c in (ours, theirs)]
    assert names[0] == names[1] == [item.name for item in records.fields(ours)]
    assert ours.__match_args__ == theirs.__match_args__
    assert not hasattr(ours(1), "__dict__")
    assert ours.kind == "base"


@given(st.data())
def test_objects_compare_the_same(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    (ours_base, ours), (theirs_base, theirs) = (
        _pair(m.dataclass, m.field, **kind) for m in (records, dataclasses)
    )
    numbers = st.integers(0, 2)
    draw = st.tuples(st.booleans(), numbers, numbers)
    rows = [data.draw(draw), data.draw(draw)]
    a, b = (ours(x, y, more={"n": y}) if derived else ours_base(x, y) for derived, x, y in rows)
    c, d = (theirs(x, y, more={"n": y}) if derived else theirs_base(x, y) for derived, x, y in rows)
    assert (a == b) == (c == d)
    for name in ("__lt__", "__le__", "__gt__", "__ge__"):
        assert _outcome(lambda n=name: getattr(a, n)(b)) == _outcome(lambda n=name: getattr(c, n)(d))
    hashed = [_outcome(lambda i=item: hash(i)) is TypeError for item in (a, c)]
    assert hashed[0] == hashed[1]
    if a == b and not hashed[0]:
        assert hash(a) == hash(b)


def test_frozen_ones_refuse_changes() -> None:
    base, _ = _pair(records.dataclass, records.field, frozen=True)
    record = base(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.x = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        del record.x
    assert record.x == 1


def test_what_is_not_made_here_is_refused() -> None:
    with pytest.raises(TypeError, match="slots"):
        records.dataclass(slots=False)
    with pytest.raises(ValueError, match="default_factory"):

        @records.dataclass(slots=True)
        class Wrong:
            items: list[int] = []  # noqa: RUF012


@records.dataclass(frozen=True, slots=True)
class Checked:
    """At module level, where pickle finds it."""

    x: int
    made: list[int] = records.field(default_factory=list)

    def __post_init__(self) -> None:
        self.made.append(self.x)


def test_post_init_and_factories() -> None:
    assert Checked(3).made == [3]
    assert Checked(4).made == [4]


def test_pickles() -> None:
    from kernel_lint.diagnostics import Diagnostic, Severity, Span

    found = Diagnostic("KL101", "main-block", Severity.ERROR, "m", "a.py", Span(1, 2, 3, 4))
    assert pickle.loads(pickle.dumps(found)) == found
    assert copy.deepcopy(found) == found


@pytest.mark.parametrize("made", [0, 10], ids=["first", "later"])
@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [((), {}), ((1, 2, (), {}, 0, 9), {}), ((1,), {"x": 2}), ((1,), {"nope": 2}), ((1,), {"fixed": 2})],
    ids=["missing", "too many", "doubled", "unknown", "not to be given"],
)
def test_arguments_that_do_not_fit_are_refused_of_the_first_object_as_of_later_ones(
    made: int, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    for module in (records, dataclasses):
        _, derived = _pair(module.dataclass, module.field)
        objects = [derived(1, names=("a",)) for _ in range(made)]
        assert all(item == derived(1, 5, ("a",)) for item in objects)
        with pytest.raises(TypeError):
            derived(*arguments, **keywords)
        assert repr(derived(3)) == repr(derived(x=3, y=5))
