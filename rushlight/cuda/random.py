"""``torch.cuda.random``: the RNG streams of GPUs.  ``torch.manual_seed`` seeds them, too."""
from __future__ import annotations

import secrets

from .._src.core.devices import device as _device, provided as _provided
from .places import index_of, provider_of

__all__ = ["get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
           "set_rng_state", "set_rng_state_all"]


def _generator(device=None):
    return provider_of().generator(index_of(device))


def _count() -> int:
    found = _provided("cuda")
    return 0 if found is None else found.count()


class _Generators:
    """``default_generators``: the random stream of each device, by its index."""

    def __len__(self):
        return _count()

    def __getitem__(self, index):
        if isinstance(index, slice):
            return tuple(_generator(k) for k in range(*index.indices(_count())))
        if not -_count() <= index < _count():
            raise IndexError(f"there are {_count()} GPUs, and no generator {index}")
        return _generator(index % _count())

    def __iter__(self):
        return iter(self[:])

    def __repr__(self):
        return repr(self[:])


default_generators = _Generators()


def manual_seed(seed: int):
    """The current device's stream begins at this seed; nothing where there is no device."""
    if _count():
        _generator().manual_seed(seed)


def manual_seed_all(seed: int):
    """The streams of all devices begin at this seed."""
    for index in range(_count()):
        _generator(index).manual_seed(seed)


def seed():
    """The current device's stream begins at a seed of the system's."""
    manual_seed(secrets.randbits(63))


def seed_all():
    """The streams of all devices begin at one seed of the system's."""
    manual_seed_all(secrets.randbits(63))


def initial_seed() -> int:
    """The seed of the current device's stream."""
    return _generator().initial_seed()


def get_rng_state(device="cuda"):
    """Return the RNG state of a device, as uint8."""
    return _generator(device).get_state()


def get_rng_state_all() -> list:
    """Return the RNG states of all devices."""
    return [get_rng_state(index) for index in range(_count())]


def set_rng_state(new_state, device="cuda"):
    """Set the RNG state of a device."""
    where = _device(device) if isinstance(device, str) else device
    _generator(where).set_state(new_state)


def set_rng_state_all(new_states):
    """Set the RNG states of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
