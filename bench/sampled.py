"""The ``pgbudget`` command, sampled: ``python -m bench.sampled FILE serve ...``, from SIGUSR1 on, for ``bench.processor``.

Samples are taken by processor time, so what only waits for a core is not counted; they are written to FILE at the end, as JSON:
how many by the function that ran, as ``name (file)``.
"""

from __future__ import annotations

import atexit
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

from pgbudget.cli import main

SECONDS = 0.001
_ROOTS = ("site-packages/", "/src/", f"/python{sys.version_info.major}.{sys.version_info.minor}/")

own: Counter[CodeType] = Counter()


def _sample(_: int, frame: FrameType | None) -> None:
    assert frame is not None
    own[frame.f_code] += 1


def _name(code: CodeType) -> str:
    file = code.co_filename
    for root in _ROOTS:
        file = file.rpartition(root)[2]
    return f"{code.co_qualname} ({file})"


def _write(file: Path) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    counted: Counter[str] = Counter()
    for code, count in own.items():
        counted[_name(code)] += count
    file.write_text(json.dumps(counted))


if __name__ == "__main__":
    atexit.register(_write, Path(sys.argv.pop(1)))
    signal.signal(signal.SIGPROF, _sample)
    signal.signal(signal.SIGUSR1, lambda *_: signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS))
    main()
