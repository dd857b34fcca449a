"""``python -m tests.fuzz.fuzz NAME [libFuzzer's arguments]``: atheris over one of the properties. It takes the process over."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["pgbudget.wire", "json"]):
    from tests.fuzz.properties import PROPERTIES

if __name__ == "__main__":
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, PROPERTIES[name])
    atheris.Fuzz()
