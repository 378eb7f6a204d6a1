"""``torch.quasirandom``: not here."""
from .compat.absent import absent

globals().update(absent("torch.quasirandom", "the tables of direction numbers are not part of the package: scipy.stats.qmc.Sobol has them", "SobolEngine"))
