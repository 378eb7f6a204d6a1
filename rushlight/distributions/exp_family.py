"""Exponential families: densities exp(<t(x), natural parameters> - log normaliser + carrier)."""
from __future__ import annotations

import rushlight as torch
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution that knows its ``_natural_params``, ``_log_normalizer(*params)`` and ``_mean_carrier_measure``: enough for its entropy and KL divergence."""

    @property
    def _natural_params(self):
        raise NotImplementedError(f"{type(self).__name__} does not define its natural parameters")

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError(f"{type(self).__name__} does not define its log normaliser")

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError(f"{type(self).__name__} does not define the mean of its carrier measure")

    def entropy(self):
        """By the gradient of the log normaliser, which is the mean of the sufficient statistics."""
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        with torch.enable_grad():
            normaliser = self._log_normalizer(*natural)
            gradients = torch.autograd.grad(normaliser.sum(), natural, create_graph=True)
        result = normaliser - self._mean_carrier_measure
        for parameter, gradient in zip(natural, gradients):
            result = result - (parameter * gradient).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
