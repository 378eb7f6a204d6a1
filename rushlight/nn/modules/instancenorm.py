"""Instance normalisation, by PyTorch's module name."""
from .batchnorm import (InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LazyInstanceNorm1d, LazyInstanceNorm2d,
                        LazyInstanceNorm3d, _InstanceNorm)  # noqa: F401
