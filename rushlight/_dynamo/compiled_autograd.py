"""Backward passes compiled as a whole: ``enable(compiler)``, ``disable()``."""
from ..capture.tape import Compiled, compile, enable  # noqa: F401
from ..capture.tape import without as disable
from ..core.later import later

_enable, _disable = enable, disable
__getattr__ = later(__name__)
