"""Real clients at the running gateway, unchanged but for base URL and key.

One process a client (``python/``, ``node/``) is asked by line what a user would have it do; the tests are the same for all.
"""
