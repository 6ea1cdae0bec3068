"""Plots of the benchmarks' results; the only place that imports matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from growth import Growth
from measure import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OURS, _THEIRS, _PYTHON = "tab:red", "tab:gray", "lightgray"


def plot_growth(growths: Sequence[Growth], path: Path) -> None:
    """Draw CPU time and memory over size on logarithmic axes: one row of panels for each thing that grows.

    Solid lines are what was measured; dashed is what lies beyond an empty input, and dotted what would be
    in proportion to the largest size.
    """
    figure, axes = _panels(len(growths), 2)
    for row, growth in zip(axes, growths, strict=True):
        _panel(row[0], growth, [s.cpu for s in growth.samples], growth.beyond(), "CPU time (s)")
        _panel(row[1], growth, [s.peak for s in growth.samples], growth.memory_beyond(), "memory (MiB)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=90)


def _panel(
    axis: Axes, growth: Growth, whole: Sequence[float], net: Sequence[float | None], label: str
) -> None:
    sizes = growth.sizes
    axis.loglog(sizes, whole, "o-", color=_OURS, label="measured")
    seen = [(size, value) for size, value in zip(sizes, net, strict=True) if value]
    xs, ys = [size for size, _ in seen], [value for _, value in seen]
    axis.loglog(xs, ys, "s--", color="tab:blue", markersize=4, label="beyond an empty input")
    anchor = seen[-1] if seen and seen[-1][0] == sizes[-1] else None
    line = [] if anchor is None else [anchor[1] * size / anchor[0] for size in sizes]
    axis.loglog(
        sizes if line else [], line, ":", color="black", linewidth=1, label="in proportion to the size"
    )
    axis.set(xlabel=growth.unit, ylabel=label, title=growth.title)
    lowest = min(min(whole), min(ys, default=min(whole)))
    axis.set_ylim(lowest / 3, max(whole) * 3)
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=20)
    axis.minorticks_off()
    axis.yaxis.set_major_formatter(_plain)
    axis.grid(alpha=0.3)


def _plain(value: float, _position: object) -> str:
    return f"{value:,.6g}"


def plot_comparisons(compared: Sequence[tuple[str, Sequence[Measured]]], path: Path) -> None:
    """Draw the CPU time of commands side by side on logarithmic axes: a panel for each comparison."""
    figure, axes = _panels(len(compared), 1, height=lambda n: 0.7 + 0.36 * len(compared[n][1]))
    for row, (title, rows) in zip(axes, compared, strict=True):
        axis, ordered = row[0], list(rows)[::-1]
        bars = axis.barh([r.name for r in ordered], [r.cpu * 1e3 for r in ordered])
        for bar, measured in zip(bars, ordered, strict=True):
            bar.set_color(_color(measured.name))
        axis.bar_label(bars, [f"{r.cpu * 1e3:,.0f} ms" for r in ordered], padding=3)
        axis.set(xscale="log", xlabel="CPU time (ms), logarithmic", title=title)
        axis.set_xlim(left=min(r.cpu for r in rows) * 1e3 / 3, right=max(r.cpu for r in rows) * 1e3 * 6)
        axis.xaxis.set_major_formatter(_plain)
        axis.minorticks_off()
    figure.savefig(path, dpi=90)


def _color(name: str) -> str:
    if name.startswith("kernel-lint"):
        return _OURS
    return _PYTHON if name.startswith("python -c") else _THEIRS


def _panels(
    rows: int, columns: int, height: Callable[[int], float] = lambda _: 3.2
) -> tuple[Figure, list[list[Axes]]]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    heights = [height(row) for row in range(rows)]
    figure, axes = matplotlib.pyplot.subplots(
        rows,
        columns,
        figsize=(5.6 * columns + 2 * (columns == 1), sum(heights) + 0.4),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    return figure, [list(row) for row in axes]
