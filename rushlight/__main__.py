"""``python -m rushlight script.py [arguments]``: runs a PyTorch program on Rushlight, unmodified."""
from __future__ import annotations

import os
import sys


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m rushlight script.py [arguments of the script]\n\nRuns a PyTorch program with every 'import torch' meaning Rushlight.")
        return 0 if len(sys.argv) > 1 else 2
    script = sys.argv[1]
    if not os.path.exists(script):
        print(f"python -m rushlight: there is no file {script!r}", file=sys.stderr)
        return 2
    from .compat.script import run

    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    run(script)
    return 0


if __name__ == "__main__":
    sys.exit(main())
