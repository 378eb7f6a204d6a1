"""Backward passes compiled as a whole: ``enable(compiler)``, ``disable()``."""
from ..capture.tape import Compiled, compile, enable  # noqa: F401
from ..capture.tape import without as disable

_enable, _disable = enable, disable
