"""atheris, for some seconds each; ``PGBUDGET_FUZZ_SECONDS`` for longer. What it finds is kept in ``found``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.properties import PROPERTIES

HERE = Path(__file__).parent
SECONDS = int(os.environ.get("PGBUDGET_FUZZ_SECONDS", "5"))


@pytest.mark.parametrize("name", PROPERTIES)
def test_nothing_is_found(name: str, tmp_path: Path) -> None:
    found = HERE / "found" / name
    found.mkdir(parents=True, exist_ok=True)
    ended = subprocess.run(
        [
            sys.executable, "-m", "tests.fuzz.fuzz", name, str(tmp_path), str(HERE / "corpus" / name), str(found),
            f"-max_total_time={SECONDS}", "-max_len=4096", "-timeout=5", "-rss_limit_mb=2048", f"-artifact_prefix={found}/",
        ],
        cwd=HERE.parents[1], capture_output=True, text=True, timeout=SECONDS + 120,
    )  # fmt: skip
    assert ended.returncode == 0, f"see {found}\n{ended.stdout[-4000:]}{ended.stderr[-4000:]}"
    assert "Done " in ended.stderr
