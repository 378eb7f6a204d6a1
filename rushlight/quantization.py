"""The former name of ``ao.quantization``."""
from .ao.quantization import *  # noqa: F401,F403
