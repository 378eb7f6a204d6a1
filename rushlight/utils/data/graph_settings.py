"""Seeds, shuffling and sharding of all pipes that a pipe consists of."""
from __future__ import annotations

import inspect
import warnings

from .datapipes.iter.sharding import SHARDING_PRIORITIES, _ShardingIterDataPipe
from .graph import traverse_dps
from .seeds import base_seed

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings",
           "get_all_graph_pipes"]


def get_all_graph_pipes(graph) -> list:
    """Every pipe of what ``traverse_dps`` found, once."""
    found = {}
    for number, (pipe, below) in graph.items():
        found[number] = pipe
        found.update({id(p): p for p in get_all_graph_pipes(below)})
    return list(found.values())


def apply_sharding(datapipe, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT):
    """Gives every pipe that divides its items its part.  RuntimeError where one divides what another has divided."""
    def apply(graph, above):
        for pipe, below in graph.values():
            parts = isinstance(pipe, _ShardingIterDataPipe) or callable(getattr(type(pipe), "apply_sharding", None))
            if parts:
                if above is not None:
                    raise RuntimeError(f"Sharding twice on a single pipeline is likely unintended and will cause data "
                                       f"loss. Sharding already applied to {above} while trying to apply to {pipe}")
                given = inspect.signature(pipe.apply_sharding).parameters
                if len(given) < 3:
                    pipe.apply_sharding(num_of_instances, instance_id)
                else:
                    pipe.apply_sharding(num_of_instances, instance_id, sharding_group=sharding_group)
            apply(below, pipe if parts else above)
    apply(traverse_dps(datapipe), None)
    return datapipe


def _shuffles(pipe) -> bool:
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in ("set_shuffle", "set_seed"))


def apply_shuffle_settings(datapipe, shuffle=None):
    """Turns shuffling on or off in every pipe that can; one is added where there is none and it is wanted."""
    if shuffle is None:
        return datapipe
    found = [pipe for pipe in get_all_graph_pipes(traverse_dps(datapipe)) if _shuffles(pipe)]
    if not found and shuffle:
        warnings.warn("`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. "
                      "Be aware that the default buffer size might not be sufficient for your task.", stacklevel=2)
        datapipe = datapipe.shuffle()
        found = [datapipe]
    for pipe in found:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe, rng):
    """Gives every pipe that draws a seed of its own, from a generator."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if inspect.ismethod(getattr(pipe, "set_seed", None)):
            pipe.set_seed(base_seed(rng))
    return datapipe


def apply_shuffle_seed(datapipe, rng):
    """``apply_random_seed``, under its old name."""
    warnings.warn("`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. Please "
                  "use `apply_random_seed` instead.", FutureWarning, stacklevel=2)
    return apply_random_seed(datapipe, rng)
