"""The specs of ``specs/`` through Postgres' isolationtester: interleavings decided step by step, waits seen by the server.

``helpers.sql`` gives them a world; a spec's output must equal ``expected/<name>.out``. ``PGBUDGET_ACCEPT=1`` writes what
came out instead.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.servers import Server
from tests.support.world import World

HERE = Path(__file__).parent
SPECS = sorted(HERE.glob("specs/*.spec"))
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _isolationtester(server: Server) -> Path:
    for library in ("../lib/pgxs", "../lib/postgresql/pgxs"):
        if server.binaries and (found := server.binaries / library / "src/test/isolation/isolationtester").exists():
            return found.resolve()
    pytest.skip("this server comes without isolationtester")


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_interleaving(spec: Path, world: World, server: Server) -> None:
    tester = _isolationtester(server)
    world.execute((HERE / "helpers.sql").read_text())
    done = subprocess.run(
        [tester, world.dsn],
        input=spec.read_text(),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    # Reservation ids differ from run to run, and are all of one length, so columns stay where they are.
    output = _UUID.sub("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", done.stdout)
    expected = HERE / "expected" / f"{spec.stem}.out"
    if os.environ.get("PGBUDGET_ACCEPT"):
        expected.write_text(output)
    wanted = expected.read_text() if expected.exists() else ""
    difference = "\n".join(difflib.unified_diff(wanted.splitlines(), output.splitlines(), "expected", "found", lineterm=""))
    assert not difference, difference


def test_every_expected_output_has_its_spec() -> None:
    assert {path.stem for path in HERE.glob("expected/*.out")} == {path.stem for path in SPECS}
