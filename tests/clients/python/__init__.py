"""Clients in Python: one module a library, run by itself, as ``python -m tests.clients.python.<module>``."""
