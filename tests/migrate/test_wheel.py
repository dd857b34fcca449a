"""What is installed elsewhere has its SQL with it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_both_sql_folders_are_in_the_wheel(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT, check=True, capture_output=True
    )
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    for folder, inside in (("sql", "_sql"), ("migrations", "_migrations")):
        for file in (ROOT / folder).rglob("*.sql"):
            assert f"pgbudget/{inside}/{file.relative_to(ROOT / folder).as_posix()}" in names
    assert "pgbudget/py.typed" in names
