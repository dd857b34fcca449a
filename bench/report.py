"""What the benchmarks leave behind: ``bench/results/NAME.json`` with all samples, plots, and tables of ``bench/README.md``.

A result knows how it is shown, so this module knows no benchmark::

    {"name", "command", "machine", "seconds", "samples": any, "tables": {TABLE: Table}, "plots": {PLOT: Plot}}

README's tables stand between ``<!-- NAME.TABLE -->`` and ``<!-- end -->``. ``python -m bench.report`` writes them, and the
plots, anew from what is in ``bench/results``.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shlex
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
README = FOLDER / "README.md"
_END = "<!-- end -->"
_STARTED = time.monotonic()


class Table(TypedDict):
    """Cells are text already, or numbers, which are rounded to three digits."""

    columns: list[str]
    rows: list[list[str | float]]


class Plot(TypedDict):
    """Lines of (x, median, lowest, highest)."""

    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float, float, float]]]
    log: NotRequired[bool]


class Spread(NamedTuple):
    """Median, lowest and highest of the rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.low)} to {number(self.high)})"


def spread(samples: Sequence[float]) -> Spread:
    """What is told of the rounds of one measurement."""
    return Spread(statistics.median(samples), min(samples), max(samples))


def percentile(samples: Sequence[float], share: float) -> float:
    """The sample below which this share lies."""
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * share))]


def number(value: float) -> str:
    """Three digits that count."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def machine() -> dict[str, str]:
    """What the numbers depend on, for the head of a report."""
    model = re.search(r"model name\s*: (.*)", _read("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+) kB", _read("/proc/meminfo"))
    return {
        "cpu": f"{os.cpu_count()} x {model[1] if model else platform.processor() or platform.machine()}",
        "memory": f"{int(memory[1]) / 2**20:.0f} GiB" if memory else "unknown",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "psycopg": importlib.metadata.version("psycopg"),
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }


def flush_seconds(folder: Path, times: int = 200) -> float:
    """How long the disk takes to make one page durable: the floor of every commit."""
    path = folder / "flush"
    samples = []
    with path.open("wb", buffering=0) as file:
        for _ in range(times):
            file.seek(0)
            file.write(b"x" * 8192)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            samples.append(time.perf_counter() - start)
    path.unlink()
    return statistics.median(samples)


def save(
    name: str, *, facts: dict[str, str], samples: Any, tables: dict[str, Table], plots: dict[str, Plot], keep: bool = True
) -> None:
    """Print the tables of a result; keep it and put them into README, unless it was a trial."""
    for title, table in tables.items():
        print(f"\n{title}\n{markdown(table)}")
    if not keep:
        return
    result = {
        "name": name,
        "command": " ".join(["python -m", f"bench.{name}", shlex.join(sys.argv[1:])]).strip(),
        "machine": {**machine(), **facts},
        "seconds": round(time.monotonic() - _STARTED),
        "samples": samples,
        "tables": tables,
        "plots": plots,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    show(result)


def show(result: dict[str, Any]) -> None:
    """Write the tables of a result into README, and its plots beside it."""
    page = README.read_text()
    facts = ", ".join(f"{what}: {value}" for what, value in result["machine"].items())
    parts = {name: markdown(table) for name, table in result["tables"].items()}
    parts["machine"] = f"`{result['command']}`, {result['seconds']} s. {facts}."
    for name, text in parts.items():
        mark = f"<!-- {result['name']}.{name} -->"
        head, found, rest = page.partition(mark + "\n")
        if not found:
            print(f"bench/README.md has no place for {mark}", file=sys.stderr)
            continue
        page = head + found + text + "\n" + rest[rest.index(_END) :]
    README.write_text(page)
    for name, plot in result["plots"].items():
        draw(plot, RESULTS / f"{result['name']}.{name}.svg")


def markdown(table: Table) -> str:
    """A table, numbers to the right."""
    rows = [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in table["rows"]]
    rule = ["---"] + ["---:"] * (len(table["columns"]) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in [table["columns"], rule, *rows])


def draw(plot: Plot, path: Path) -> None:
    """Lines with the spread of their points."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same numbers make the same file.
    mpl.rcParams.update({"svg.hashsalt": "pgbudget", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for label, points in plot["lines"].items():
        x, median, low, high = zip(*points, strict=True)
        (line,) = axes.plot(x, median, marker="o", markersize=3, label=label)
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    if plot.get("log"):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ticks = sorted({point[0] for points in plot["lines"].values() for point in points})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    else:
        axes.set_ylim(bottom=0)
    axes.set(title=plot["title"], xlabel=plot["x"], ylabel=plot["y"])
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def main() -> None:
    """Show all results anew."""
    for path in sorted(RESULTS.glob("*.json")):
        show(json.loads(path.read_text()))


if __name__ == "__main__":
    main()
