"""A meta-path finder that maps ``torch`` and ``torch.x.y`` to the one real module, so that no class exists twice."""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys

NAME, REAL = "torch", "rushlight"
REALS = {NAME: REAL, "torchvision": "rushlight.compat.torchvision", "functorch": "rushlight.functorch"}
VERSION = "2.13.0+rushlight"


class Loader(importlib.abc.Loader):
    """Gives the real module under its other name, and leaves the module's own identity as it was."""

    def __init__(self, real, fullname):
        self.real, self.fullname = real, fullname

    def create_module(self, spec):
        module = importlib.import_module(self.real)
        self.identity = module.__spec__, module.__loader__, module.__package__, module.__name__
        return module

    def exec_module(self, module):
        module.__spec__, module.__loader__, module.__package__, module.__name__ = self.identity


class Finder(importlib.abc.MetaPathFinder):
    """Answers for ``torch``, ``torchvision`` and everything below them."""

    def find_spec(self, fullname, path=None, target=None):
        name, _, rest = fullname.partition(".")
        if name not in REALS:
            return None
        real = f"{REALS[name]}.{rest}" if rest else REALS[name]
        try:
            found = importlib.util.find_spec(real)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, Loader(real, fullname), is_package=found.submodule_search_locations is not None)


class Metadata(importlib.metadata.Distribution):
    """What ``importlib.metadata`` says of ``torch``."""

    def read_text(self, filename):
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n" if filename in ("METADATA", "PKG-INFO") else None

    def locate_file(self, path):
        return path


class MetadataFinder(importlib.metadata.DistributionFinder):
    """Finds that metadata."""

    def find_spec(self, fullname, path=None, target=None):
        return None

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        return [Metadata()] if context.name == NAME else []


def install():
    """Makes ``import torch`` mean Rushlight from now on; RuntimeError if another torch was imported already."""
    known = sys.modules.get(NAME)
    real = importlib.import_module(REAL)
    if known is real:
        return
    if known is not None:
        raise RuntimeError("another 'torch' is already imported in this process: call rushlight.compat.install() before any 'import torch'")
    sys.meta_path.insert(0, Finder())
    sys.meta_path.insert(0, MetadataFinder())  # before one that finds another torch on the disk
    sys.modules[NAME] = real
    real.__name__ = NAME  # some programs compare
    from ..torch_version import TorchVersion
    real.__version__ = TorchVersion(VERSION)  # the version of PyTorch whose interface programs find
