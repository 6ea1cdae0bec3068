"""What the stage reports: times with intervals, ratios, the roofline, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_lint.verify.performance import roofline, validity
from kernel_lint.verify.performance.schedule import Collected, summary
from kernel_lint.verify.performance.statistics import bootstrap, compare, pooled_median
from kernel_lint.verify.performance.work import Work

COMPILED = "compiled"
_LABELS = {"reference": "eager", COMPILED: "torch.compile"}


def report(
    facts: Mapping[str, Mapping[str, Any]],
    collected: Collected,
    work: Work,
    telemetry: str,
    notes: list[str],
    mode: str,
) -> tuple[str, dict[str, Any]]:
    """Return the result in a line and as data; ``facts`` are what each source's bench said of itself."""
    device = dict(facts["reference"]["device"])
    samples = {name: collected.samples(name) for name in facts}
    times = {name: bootstrap(rounds, pooled_median) for name, rounds in samples.items()}
    tick = facts["reference"]["resolution"]
    ratios = {n: compare(samples["candidate"], samples[n], tick) for n in samples if n != "candidate"}
    limits = roofline.limits_of(device["name"], work.dtype)
    placed = {name: roofline.place(time.value, work, limits) for name, time in times.items()}
    poor = validity.far_from_the_roofline(placed["reference"].percent)
    data = {
        "device": device,
        "method": f"{facts['reference']['clock']}, {mode}",
        "telemetry": telemetry,
        "microseconds": {name: time.scaled(1e6).to_json() for name, time in times.items()},
        "speedup": {name: ratio.to_json() for name, ratio in ratios.items()},
        "work": work.to_json(),
        "roofline": {name: one.to_json() for name, one in placed.items()},
        "wall_microseconds": {n: f["wall_seconds"] * 1e6 for n, f in facts.items() if "wall_seconds" in f},
        "rounds": summary(collected),
        "notes": [*notes, *filter(None, [poor])],
    }
    return sentence(data), data


def sentence(data: dict[str, Any]) -> str:
    """Return the result in a line."""
    time = data["microseconds"]["candidate"]
    words = [f"{time['value']:.2f} us [{time['low']:.2f}, {time['high']:.2f}]"]
    for name, label in _LABELS.items():
        ratio = data["speedup"].get(name)
        if ratio:
            value, low, high = (ratio["speedup"][key] for key in ("value", "low", "high"))
            words.append(f"{value:.3g}x [{low:.3g}, {high:.3g}] of {label} ({ratio['call']})")
    roof = data["roofline"]["candidate"]
    words.append(f"{roof['gbs']:.0f} GB/s, {roof['tflops']:.1f} TFLOPS")
    if roof["percent"] is not None:
        words.append(f"{roof['percent']:.0f}% of the {roof['bound']} roofline ({_origin(roof)})")
    return "; ".join([*words, f"{data['method']} on {data['device']['name']}"])


def _origin(roof: Mapping[str, Any]) -> str:
    source = roof["limits"]["bandwidth_source" if roof["bound"] == "memory" else "peak_source"]
    return source if "measured" in source else "of the data sheet"
