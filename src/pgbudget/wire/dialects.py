"""All routes that are metered; a new dialect is a module and a line here."""

from __future__ import annotations

from typing import Final

from pgbudget.wire.chat import Chat
from pgbudget.wire.dialect import Dialect
from pgbudget.wire.responses import Responses

DIALECTS: Final[tuple[Dialect, ...]] = (Chat(), Responses())
