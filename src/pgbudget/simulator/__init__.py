"""A simulated provider: speaks as providers do, fails as they do, and keeps the true tally of what it would bill."""

from pgbudget.simulator.app import create_app, serve

__all__ = ["create_app", "serve"]
