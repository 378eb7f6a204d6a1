"""For processes that ``python -m rushlight`` starts without an installed ``rushlight.pth``: this directory comes first
in PYTHONPATH."""
import os
import sys
from importlib.machinery import PathFinder

folder = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != folder]
if os.environ.get("RUSHLIGHT_AS_TORCH") == "1":
    import rushlight_as_torch  # noqa: F401
hidden = PathFinder.find_spec("sitecustomize")
if hidden is not None:
    hidden.loader.exec_module(sys.modules[__name__])
