"""Exponential families: densities exp(<t(x), natural parameters> - log normaliser + carrier)."""
from __future__ import annotations

import rushlight as torch
from .distribution import Distribution
from .utils import _sum_rightmost

__all__ = ["ExponentialFamily"]


def normaliser_and_gradient(family):
    """The log normaliser at the natural parameters, those parameters, and its gradient in them: the means of the
    sufficient statistics."""
    natural = [parameter.detach().requires_grad_() for parameter in family._natural_params]
    with torch.enable_grad():
        normaliser = family._log_normalizer(*natural)
        return normaliser, natural, torch.autograd.grad(normaliser.sum(), natural, create_graph=True)


def inner_product(parameters, means, batch_dims):
    """<parameters, means> for each place of a batch: all dimensions behind the batch's are summed."""
    terms = [parameter * mean for parameter, mean in zip(parameters, means)]
    return sum([_sum_rightmost(term, max(term.dim() - batch_dims, 0)) for term in terms])


class ExponentialFamily(Distribution):
    """A distribution that knows its ``_natural_params``, ``_log_normalizer(*params)`` and ``_mean_carrier_measure``:
    enough for its entropy and KL divergence."""

    @property
    def _natural_params(self):
        raise NotImplementedError(f"{type(self).__name__} does not define its natural parameters")

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError(f"{type(self).__name__} does not define its log normaliser")

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError(f"{type(self).__name__} does not define the mean of its carrier measure")

    def entropy(self):
        """log normaliser - <natural parameters, means of the sufficient statistics> - mean carrier"""
        normaliser, natural, means = normaliser_and_gradient(self)
        return normaliser - inner_product(natural, means, len(self._batch_shape)) - self._mean_carrier_measure
