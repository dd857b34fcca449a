"""A simulated provider: speaks as providers do, fails as they do, and keeps the true tally of what it would bill."""
