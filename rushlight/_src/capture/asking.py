"""Queries of code about its own execution, which compiled code answers differently."""
from __future__ import annotations

from . import marks


def is_compiling() -> bool:
    """True in code that is being captured, False when it runs uncompiled."""
    return False


def is_dynamo_compiling() -> bool:
    """As ``is_compiling``."""
    return False


def is_exporting() -> bool:
    """True if code is being captured for export."""
    return False


def is_collecting(owner: str) -> bool:
    """True if an operator of the program that is being captured collects gradients for ``owner``."""
    return False


for _function in (is_compiling, is_dynamo_compiling):
    marks.put(_function, "compiling")
marks.put(is_exporting, "exporting")
marks.put(is_collecting, "collecting")
