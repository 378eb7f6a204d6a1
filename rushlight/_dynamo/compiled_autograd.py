"""Backward passes compiled as a whole: ``enable(compiler)``, ``disable()``."""
from .._src.capture.tape import Compiled, compile, enable  # noqa: F401
from .._src.capture.tape import without as disable

_enable, _disable = enable, disable
