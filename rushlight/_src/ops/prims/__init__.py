"""Every primitive: its name, its NumPy meaning, and the few traits its kind asks for."""
from . import codes, complex_numbers, contractions, elementwise, indexed, reductions, views  # noqa: F401
