"""Plots of the benchmarks' results; the only place that imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from growth import Growth
from measure import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_growth(growths: Sequence[Growth], path: Path) -> None:
    """Draw CPU time and memory over size on logarithmic axes, one panel for each thing that grows."""
    figure, axes = _panels(len(growths))
    for axis, growth in zip(axes, growths, strict=False):
        net = [max(s.cpu - growth.fixed.cpu, 1e-4) for s in growth.samples]
        axis.loglog(growth.sizes, net, "o-", color="tab:blue", label="CPU s")
        linear = [net[-1] * size / growth.sizes[-1] for size in growth.sizes]
        axis.loglog(growth.sizes, linear, ":", color="tab:gray", label="linear")
        axis.set(xlabel=growth.unit, ylabel="CPU s beyond the start", title=growth.title)
        memory = axis.twinx()
        memory.semilogx(
            growth.sizes, [s.peak for s in growth.samples], "s--", color="tab:orange", label="MiB"
        )
        memory.set(ylabel="MiB", ylim=(0, None))
        lines = [*axis.get_lines(), *memory.get_lines()]
        axis.legend(lines, [str(line.get_label()) for line in lines], fontsize="small")
    figure.savefig(path, dpi=110)


def plot_comparison(title: str, rows: Sequence[Measured], path: Path) -> None:
    """Draw the CPU time of commands side by side on a logarithmic axis."""
    figure, axes = _panels(1)
    names = [row.name for row in rows][::-1]
    colors = ["tab:red" if name.startswith("kernel-lint") else "tab:gray" for name in names]
    bars = axes[0].barh(names, [row.cpu * 1e3 for row in rows][::-1], color=colors)
    axes[0].bar_label(bars, fmt="%.0f", padding=3)
    axes[0].set(xscale="log", xlabel="CPU ms", title=title)
    axes[0].margins(x=0.15)
    axes[0].xaxis.set_major_formatter("{x:g}")
    axes[0].xaxis.set_minor_formatter("")
    figure.savefig(path, dpi=110)


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot

    columns = min(count, 2)
    rows = -(-count // columns)
    figure, axes = matplotlib.pyplot.subplots(
        rows, columns, figsize=(6.4 * columns, 4.2 * rows), squeeze=False, layout="constrained"
    )
    return figure, list(axes.flat)
