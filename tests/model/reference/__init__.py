"""What pgbudget is to do, once more, in plain Python that knows no SQL: written from DESIGN, FEATURES and the contracts above
the functions.

It keeps a list of calls and nothing that could drift: what a budget has spent and holds, what a minute has used, what a run
has left is summed from that list whenever it is asked for. Amounts are whole nano-USD.
"""

from tests.model.reference.admission import Answer, Request, Rung, RunOption
from tests.model.reference.books import Books
from tests.model.reference.calendar import Window, window
from tests.model.reference.calls import Call, Report
from tests.model.reference.tree import Refused, Scope, Tree

__all__ = ["Answer", "Books", "Call", "Refused", "Report", "Request", "RunOption", "Rung", "Scope", "Tree", "Window", "window"]
