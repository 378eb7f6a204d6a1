"""Numbers that whoever writes a package and whoever opens it agree on; opening one needs nothing of the compiler."""
from __future__ import annotations

VERSION = 3        # of the C interface
HEADER_BYTES = 64  # before weights
NO_MEMORY, UNSUPPORTED = -1, -2
UNPLANNED = -4       # no plan for these sizes
WRONG_SIZES = -100   # less the number of the input
UNMET = -(1 << 20)   # less the number of the check
ERRORS = ("", "an index is out of range", "there is no memory for the temporaries of a call",
          "a computation has no result: whole numbers divided by 0, or a matrix without an inverse",
          "the sizes of an input are not among those that the model was packaged for",
          "the model was not planned for these sizes")
"""What ``rl_error`` says."""
SUFFIXES = {"wasm32": "wasm", "x86_64-pc-windows-msvc": "dll", "arm64-apple-darwin": "dylib"}
"""How names of libraries end, by kind of machine; "so" for others."""
