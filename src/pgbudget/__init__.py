"""pgbudget: budgets for LLM calls that hold when requests run at the same time, enforced inside Postgres."""

__version__ = "0.1.0"
