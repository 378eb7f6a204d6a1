"""VonMises: angles around a direction."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles with density proportional to exp(concentration * cos(x - loc)).  Sampled by Best and Fisher's rejection (1979)."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        log_i0 = self.concentration + torch.special.i0e(self.concentration).log()
        return self.concentration * torch.cos(value - self.loc) - math.log(2 * math.pi) - log_i0

    def proposal(self):
        """The parameter of the wrapped Cauchy variables that are proposed."""
        kappa = self.concentration.double()
        tau = 1 + (1 + 4 * kappa ** 2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        exact = (1 + rho ** 2) / (2 * rho)
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, exact)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)
            kappa, r = self.concentration.double().expand(shape), self.proposal().expand(shape)
            x, done = torch.empty(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.bool)
            while not bool(done.all()):
                u1, u2, u3 = torch.rand((3,) + shape, dtype=torch.float64).unbind()
                z = torch.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = torch.where(accept & ~done, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            return ((x + math.pi + self.loc.double()) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        """The circular variance 1 - I1(concentration) / I0(concentration)."""
        return 1 - torch.special.i1e(self.concentration) / torch.special.i0e(self.concentration)
