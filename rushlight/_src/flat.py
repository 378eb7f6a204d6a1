"""The flat namespace: tensors, dtypes, settings and every operator without a prefix.  The package's root re-exports it;
``nn``, ``optim`` and ``utils`` compute with it."""
from __future__ import annotations

from .core import dtypes as _dtypes
from .core.devices import device
from .core.dtypes import ALIASES as _ALIASES, ALL as _ALL, dtype, finfo, iinfo
from .core.errors import OutOfMemoryError
from .core.meta import Size
from .core.native import Tensor
from .core import (overriding as _overriding, tensor as _tensor_members, members as _members, exchange as _exchange,
                   convert as _convert, copying as _copying, printing as _printing)
from .core.members import legacy_contiguous_format
from .core.convert import (channels_last, channels_last_3d, contiguous_format, jagged, layout, memory_format,
                           preserve_format, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided)
from .core.exchange import as_tensor, asarray, from_dlpack, from_numpy, frombuffer, scalar_tensor, tensor
from .core.mapped import from_file
from .core.printing import set_printoptions
from .core.random import (Generator, default_generator, fork_rng as _fork_rng, get_rng_state, initial_seed, manual_seed,
                          seed, set_rng_state)
from .ops import library as _operators
from .layouts import (sparse_bsc_tensor, sparse_bsr_tensor, sparse_compressed_tensor, sparse_coo_tensor,
                      sparse_csc_tensor, sparse_csr_tensor)

globals().update(_operators.namespace(""))
globals().update({d.name: d for d in (*_ALL, *_dtypes.NAMED)})
globals().update(_ALIASES)
from .api import *  # noqa: F401,F403,E402
