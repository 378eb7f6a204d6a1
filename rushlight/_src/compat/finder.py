"""A meta-path finder that maps ``torch`` and ``torch.x.y`` to the one real module, so that no class exists twice."""
from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys

from .homes import activate

NAME, REAL = "torch", "rushlight"
REALS = {NAME: REAL, "functorch": "rushlight.functorch"}
STANDING_IN = {"torchvision": "rushlight._src.compat.torchvision"}  # if the package itself is not installed
ELSEWHERE = dict.fromkeys((  # modules of an installed torchvision that load or describe its compiled operators
    "torchvision.extension", "torchvision._meta_registrations", "torchvision._autograd_registrations",
    "torchvision.ops._register_onnx_ops"),
    "rushlight._src.compat.torchvision.extension")
VERSION = "2.13.0+rushlight"


class Loader(importlib.abc.Loader):
    """Return the real module under its other name, and leave the module's own identity unchanged."""

    def __init__(self, real, fullname):
        self.real, self.fullname = real, fullname

    def create_module(self, spec):
        module = importlib.import_module(self.real)
        self.identity = module.__spec__, module.__loader__, module.__package__, module.__name__
        return module

    def exec_module(self, module):
        module.__spec__, module.__loader__, module.__package__, module.__name__ = self.identity

    def get_code(self, fullname):
        """Return the code for ``python -m torch.distributed.run`` and similar calls."""
        return importlib.util.find_spec(self.real).loader.get_code(self.real)


class Finder(importlib.abc.MetaPathFinder):
    """Meta-path finder for ``torch``, ``torchvision`` and everything below them."""

    def find_spec(self, fullname, path=None, target=None):
        name, _, rest = fullname.partition(".")
        home = REALS.get(name) or standing_in(name)
        if home is None and fullname not in ELSEWHERE:
            return None
        real = ELSEWHERE.get(fullname) or (f"{home}.{rest}" if rest else home)
        try:
            found = importlib.util.find_spec(real)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, Loader(real, fullname),
                                              is_package=found.submodule_search_locations is not None)


@functools.cache
def standing_in(name):
    """Return the substitute for a package that is not installed, if there is one."""
    return STANDING_IN.get(name) if importlib.machinery.PathFinder.find_spec(name) is None else None


class Metadata(importlib.metadata.Distribution):
    """Metadata of ``torch`` for ``importlib.metadata``."""

    def read_text(self, filename):
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n" if filename in (
            "METADATA", "PKG-INFO") else None

    def locate_file(self, path):
        return path


class MetadataFinder(importlib.metadata.DistributionFinder):
    """Meta-path finder of that metadata."""

    def find_spec(self, fullname, path=None, target=None):
        return None

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        return [Metadata()] if context.name == NAME else []


def install():
    """Make ``import torch`` import Rushlight; RuntimeError if another torch was imported already."""
    known = sys.modules.get(NAME)
    real = importlib.import_module(REAL)
    if known is real:
        return
    if known is not None:
        raise RuntimeError(
            "another 'torch' is already imported in this process: call rushlight.compat.install() before any 'import "
            "torch'")
    sys.meta_path.insert(0, Finder())
    sys.meta_path.insert(0, MetadataFinder())  # before one that finds another torch on the disk
    sys.modules[NAME] = real
    real.__name__ = NAME  # some programs compare
    activate()
    from ...torch_version import TorchVersion
    real.__version__ = TorchVersion(VERSION)  # the version of PyTorch whose API this is
    from ..extensions import load_postponed_extensions
    load_postponed_extensions()
