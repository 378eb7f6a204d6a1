"""The meta device: tensors have metadata alone."""
from __future__ import annotations

from ...core.devices import device
from ...core.native import Storage
from ...core.random import Generator
from ..base import Provider


class Meta(Provider):
    """Nothing is allocated, copied or run."""

    type, has_data = "meta", False
    dlpack = 0

    def __init__(self):
        self.stream = Generator()

    def count(self) -> int:
        return 1

    def placed(self, where: device) -> device:
        return device(self.type)

    def storage(self, index, nbytes: int) -> Storage:
        """A storage that says how many bytes there would be."""
        made = Storage()
        made.nbytes = nbytes
        return made

    def generator(self, index):
        """Return a generator whose draws do not advance the CPU's."""
        return self.stream


provider = Meta()
