"""atheris is not there for every Python and system; where it is not, its tests are not either."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("atheris") else ["test_atheris.py"]
