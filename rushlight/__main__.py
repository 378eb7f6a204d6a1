"""``python -m rushlight script.py [arguments]``: runs a PyTorch program on Rushlight, unmodified."""
from __future__ import annotations

import os
import sys

USAGE = """usage: python -m rushlight [script.py | -m module | -c code | -] [arguments of the program]

Runs a PyTorch program with every 'import torch' meaning Rushlight, in the processes of Python that it starts, too.
'-', or nothing where standard input is no terminal, reads the program from there.
RUSHLIGHT_AS_TORCH=1 does the same for any other way to start one (pytest, jupyter, ...)."""


def main():
    arguments = sys.argv[1:] or ([] if sys.stdin is None or sys.stdin.isatty() else ["-"])
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    first = arguments[0]
    if first in ("-m", "-c"):
        if len(arguments) < 2:
            print(f"python -m rushlight: argument expected for the {first} option", file=sys.stderr)
            return 2
    elif first != "-" and not os.path.exists(first):
        print(f"python -m rushlight: there is no file {first!r}", file=sys.stderr)
        return 2
    from ._src.compat.script import run

    run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
