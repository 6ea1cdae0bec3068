"""The pictures of the HTML report, as SVG that takes its ink from the page, so that dark pages work too."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernel_lint.errors import KernelLintError

# Ink in the drawing that becomes the page's text colour.
_INK = "#010203"
_REMEDY = "pip install 'kernel-lint[report]'"
_COLOURS = {"candidate": "#d9480f", "reference": "#1c7ed6", "compiled": "#2b8a3e"}
_MARKERS = {"candidate": "o", "reference": "s", "compiled": "^"}
_NAMES = {"candidate": "candidate", "reference": "reference (eager)", "compiled": "torch.compile"}


@dataclass(frozen=True, slots=True)
class Point:
    """One measured time under the roofline: ``intensity`` in FLOP/byte, ``rate`` in FLOP/s."""

    source: str
    shape: str
    intensity: float
    rate: float


def roofline_svg(points: Sequence[Point], bandwidth: float, peak: float | None) -> str:
    """Draw points under the ceilings: ``bandwidth`` in bytes/s and ``peak`` in FLOP/s where known."""
    figure, axes = _figure(7.0, 4.0)
    xs = [point.intensity for point in points]
    low, high = min(xs) / 8, max(xs) * 8
    if peak is not None:
        high = max(high, 4 * peak / bandwidth)
        low = min(low, peak / bandwidth / 4)
    steps = [low * (high / low) ** (i / 200) for i in range(201)]
    roof = [min(bandwidth * x, peak or math.inf) for x in steps]
    axes.plot(steps, [y * 1e-12 for y in roof], color=_INK, linewidth=1.6)
    text = f"memory: {bandwidth * 1e-9:,.0f} GB/s"
    axes.set_title(text + (f"; compute: {peak * 1e-12:,.0f} TFLOPS" if peak else ""), fontsize=10, color=_INK)
    for source in dict.fromkeys(point.source for point in points):
        own = [point for point in points if point.source == source]
        axes.plot(
            [p.intensity for p in own], [p.rate * 1e-12 for p in own], _MARKERS.get(source, "x"),
            color=_COLOURS.get(source, _INK), label=_NAMES.get(source, "other"), markersize=7, alpha=0.85,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("arithmetic intensity (FLOP per byte)")
    axes.set_ylabel("TFLOPS")
    axes.grid(True, which="major", color=_INK, alpha=0.15)
    axes.legend(frameon=False, labelcolor=_INK, fontsize=9, loc="lower right")
    return _svg(figure, "roofline")


def error_map_svg(rows: int, columns: int, counts: Sequence[Sequence[int]], salt: str) -> str:
    """Draw where wrong elements lie: the share of wrong elements in each cell of rows and columns."""
    import numpy as np

    grid = np.array(counts, dtype=float)
    bands, strips = grid.shape
    share = np.clip(grid / (rows / bands * columns / strips), 0.0, 1.0)
    figure, axes = _figure(7.0, 3.4 if bands > 4 else 1.9)
    from matplotlib.colors import ListedColormap

    shades = np.ones((256, 4))
    # One hue from hardly visible to full: no element wrong is the page itself.
    shades[:, :3] = np.array([0.85, 0.19, 0.06])
    shades[:, 3] = np.linspace(0.25, 1.0, 256)
    shown = axes.imshow(
        np.ma.masked_equal(share, 0.0), cmap=ListedColormap(shades), vmin=0.0, vmax=1.0, aspect="auto",
        interpolation="nearest", extent=(0, columns, rows, 0),
    )  # fmt: skip
    axes.set_xlabel("column (last dimension)")
    axes.set_ylabel("row")
    bar = figure.colorbar(shown, ax=axes, fraction=0.04, pad=0.02)
    bar.set_label("share wrong", color=_INK)
    bar.ax.tick_params(colors=_INK)
    bar.outline.set_edgecolor(_INK)
    return _svg(figure, f"map {salt}")


def require() -> None:
    """Raise :class:`KernelLintError` when jinja2 or matplotlib is missing."""
    for module in ("jinja2", "matplotlib"):
        try:
            __import__(module)
        except ImportError:
            raise KernelLintError(f"an HTML report needs {module}, which is not installed", _REMEDY) from None


def _figure(width: float, height: float) -> tuple[Any, Any]:
    # Figure itself, not pyplot: no global state and no display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    figure.patch.set_alpha(0.0)
    axes.patch.set_alpha(0.0)
    axes.tick_params(colors=_INK, which="both")
    for spine in axes.spines.values():
        spine.set_edgecolor(_INK)
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    return figure, axes


def _svg(figure: Any, salt: str) -> str:
    import matplotlib

    # Text stays text: it scales, it can be searched, and readers read it out.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    # Names must be unique on a page with several drawings.
    prefix = re.sub(r"\W", "", salt)
    text = re.sub(r'id="', f'id="{prefix}-', text)
    text = re.sub(r"url\(#", f"url(#{prefix}-", text)
    text = re.sub(r'xlink:href="#', f'xlink:href="#{prefix}-', text)
    return re.sub(r"<svg ", '<svg aria-hidden="true" focusable="false" ', text, count=1)
