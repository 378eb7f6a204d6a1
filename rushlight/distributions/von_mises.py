"""VonMises: the normal distribution of angles."""
from __future__ import annotations

import math

import rushlight as torch
from . import constraints
from .distribution import Distribution, checked

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles with density proportional to exp(concentration * cos(x - loc)).  Sampled by Best and Fisher's rejection
    (1979)."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc, concentration, validate_args=None):
        self._enter({"loc": loc, "concentration": concentration}, validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self):
        """The circular variance 1 - I1(concentration) / I0(concentration)."""
        return 1 - torch.special.i1e(self.concentration) / torch.special.i0e(self.concentration)

    @checked
    def log_prob(self, value):
        """The scaled Bessel function i0e = exp(-concentration) I0 keeps large concentrations finite."""
        below_peak = torch.cos(value - self.loc) - 1
        return self.concentration * below_peak - torch.log(2 * math.pi * torch.special.i0e(self.concentration))

    def _proposal(self):
        """The parameter of the wrapped Cauchy angles that are proposed, in double precision; for almost uniform angles
        the limit of its formula."""
        kappa = self.concentration.double()
        root = 1 + torch.sqrt(1 + 4 * kappa.square())
        rho = (root - torch.sqrt(2 * root)) / (2 * kappa)
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, (rho + 1 / rho) / 2)

    def sample(self, sample_shape=torch.Size()):
        """Proposals are drawn for all places until each has one that is accepted."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            kappa, width = self.concentration.double(), self._proposal()
            angle, waiting = torch.zeros(shape, dtype=torch.float64), torch.ones(shape, dtype=torch.bool)
            while bool(waiting.any()):
                turn, height, side = torch.rand((3, *shape), dtype=torch.float64)
                wave = torch.cos(math.pi * turn)
                cosine = (1 + width * wave) / (width + wave)
                slack = kappa * (width - cosine)
                accepted = (slack * (2 - slack) > height) | (torch.log(slack / height) + 1 >= slack)
                angle = torch.where(waiting & accepted, torch.sign(side - 0.5) * torch.acos(cosine), angle)
                waiting = waiting & ~accepted
            turned = angle + self.loc.double()
            return (torch.remainder(turned + math.pi, 2 * math.pi) - math.pi).to(self.loc.dtype)
