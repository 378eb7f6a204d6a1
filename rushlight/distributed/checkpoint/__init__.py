"""States by names of parameters; files of several processes are not here."""
from ...core.later import later

__getattr__ = later(__name__)
