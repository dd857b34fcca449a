"""All routes that are metered; a new dialect is a module and a line here."""

from __future__ import annotations

from typing import Final

from pgbudget.wire.chat import Chat
from pgbudget.wire.completions import Completions
from pgbudget.wire.dialect import Dialect
from pgbudget.wire.embeddings import Embeddings
from pgbudget.wire.messages import CountTokens, Messages
from pgbudget.wire.responses import Responses

DIALECTS: Final[tuple[Dialect, ...]] = (Chat(), Completions(), Responses(), Messages(), CountTokens(), Embeddings())
