"""Equalization, which is not built: graphs have no observers of it."""
from __future__ import annotations

from ...._src.core.errors import NotBuiltError


def update_obs_for_equalization(model, modules) -> dict:
    """The observers of equalization of a graph's weights, by the names of their nodes: none."""
    return {}


def convert_eq_obs(model, modules, weight_eq_obs_dict):
    """Nothing, where no weight has an observer of equalization.  NotBuiltError where one has."""
    if weight_eq_obs_dict:
        raise NotBuiltError("equalization of weights and activations is not built")
