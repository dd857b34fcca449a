"""Runs Python as it stands in a document, many blocks one after the other: what they import is loaded once.

Asked with the ``code`` of a block; what comes back is what it ``printed``, or the ``error`` that it ended with.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback

if __name__ == "__main__":
    answers = sys.stdout
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            answer = {}
            try:
                exec(json.loads(line)["code"], {"__name__": "__main__"})
            except BaseException:
                answer = {"error": traceback.format_exc()}
        print(json.dumps({"printed": printed.getvalue(), **answer}), file=answers, flush=True)
