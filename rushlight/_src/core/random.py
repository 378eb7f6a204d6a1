"""The counter-based RNG stream: the next number depends only on the seed and the count of numbers drawn."""
from __future__ import annotations

import ctypes
import secrets

import numpy as np

from .native import running


class Generator:
    """A random stream of its own: ``manual_seed``, ``seed``, ``initial_seed``, ``get_state``, ``set_state``."""

    def __init__(self, device="cpu"):
        from .devices import placed
        from .errors import NoDeviceError

        try:
            self.device = placed(device)
        except NoDeviceError:
            raise RuntimeError(
                f"Device type {str(device).partition(':')[0].upper()} is not supported for torch.Generator(): there "
                "is no such device") from None
        if not self.device.provider.has_data:
            raise RuntimeError("Device type META is not supported for torch.Generator(): tensors there have no numbers")
        self._seed, self._position = 67280421310721, 0

    def manual_seed(self, seed: int) -> "Generator":
        """Starts the stream of this seed."""
        seed = int(seed)
        if not -(1 << 63) <= seed < 1 << 64:
            raise RuntimeError(f"Overflow when unpacking long: the seed {seed} does not fit 64 bits")
        self._place(seed - (1 << 64) if seed >= 1 << 63 else seed, 0)
        return self

    def _place(self, seed, position):
        self._seed, self._position = seed, position

    def seed(self) -> int:
        """Starts the stream of a seed from the system's randomness, which is returned."""
        seed = secrets.randbits(63)
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        return self.place[0] % (1 << 64)

    @property
    def place(self):
        return self._seed, self._position

    def get_state(self):
        """The seed and the position as 16 bytes (uint8)."""
        from .exchange import from_numpy

        return from_numpy(np.array(self.place, np.int64).view(np.uint8).copy())

    def set_state(self, new_state):
        """Goes to where ``get_state`` was; returns the generator."""
        if new_state.dtype.name != "uint8" or new_state.numel() != 16:
            raise RuntimeError("RNG state must be a torch.ByteTensor of 16 elements")
        seed, position = new_state.numpy().copy().view(np.int64).tolist()
        self._place(seed, position)
        return self

    def clone_state(self):
        made = Generator(self.device)
        made._place(*self.place)
        return made

    def reserve(self, blocks: int) -> tuple:
        """Takes the next ``blocks`` blocks of four words: (seed, first block)."""
        seed, position = self.place
        self._place(seed, position + blocks)
        return seed, position


class DefaultGenerator(Generator):
    """The stream that operators draw from when none is given; it lives in the hot path's state."""

    def _place(self, seed, position):
        running.seek(seed, position)

    def __init__(self):
        from .devices import cpu

        self.device = cpu
        self._place(67280421310721, 0)

    place = property(lambda self: running.reserve(0))

    def reserve(self, blocks):
        return running.reserve(blocks)


default_generator = DefaultGenerator()


class DeviceGenerator(Generator):
    """The default stream of a device: seed and position are two words at ``address``, from which machine code draws."""

    def __init__(self, where):
        self.device, self.words = where, (ctypes.c_int64 * 2)()
        self.address = ctypes.addressof(self.words)
        self._place(default_generator.initial_seed(), 0)

    def _place(self, seed, position):
        self.words[0], self.words[1] = seed - (1 << 64) if seed >= 1 << 63 else seed, position

    place = property(lambda self: tuple(self.words))


streams: dict = {}  # by device: its default stream


def stream_of(where) -> Generator:
    """The default stream of a device: it has the seed of the CPU's, and restarts when that is seeded."""
    if where not in streams:
        streams[where] = DeviceGenerator(where)
    return streams[where]


def places() -> dict:
    """The offsets of the default streams, by device."""
    return {one.device: one.place for one in (default_generator, *streams.values())}


def go_to(found: dict):
    """Puts default streams where they were."""
    for one in (default_generator, *streams.values()):
        if one.device in found:
            one._place(*found[one.device])


def manual_seed(seed) -> Generator:
    """Starts the default streams of this seed, those of devices among them."""
    for stream in streams.values():
        stream.manual_seed(seed)
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Starts the default stream from the system's randomness."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default stream."""
    return default_generator.initial_seed()


def get_rng_state():
    """The state of the default stream."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Puts the default stream where it was."""
    default_generator.set_state(new_state)


class fork_rng:
    """The block draws from the default stream; afterwards the stream is where it was before."""

    def __init__(self, devices=None, enabled=True, **_):
        self.enabled = enabled

    def __enter__(self):
        self.places = places()
        return self

    def __exit__(self, *exception):
        if self.enabled:
            go_to(self.places)
