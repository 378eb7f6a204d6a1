"""All primitives: name, NumPy reference implementation, and the few traits that the kind needs."""
from . import codes, complex_numbers, contractions, elementwise, indexed, reductions, views  # noqa: F401
