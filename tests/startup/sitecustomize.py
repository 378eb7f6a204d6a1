"""Keep machine code in each Python process whose PYTHONPATH names this directory; then run the module of this name
that this one hides."""
import sys
from importlib.machinery import PathFinder

import machine_code

machine_code.install()
sys.path[:] = [entry for entry in sys.path if entry != machine_code.STARTUP]
hidden = PathFinder.find_spec("sitecustomize")
if hidden is not None:
    hidden.loader.exec_module(sys.modules[__name__])
