"""Names of ``torch.compiler.config`` that programs set; they are for clusters, and change nothing here."""
from __future__ import annotations

import sys

from ..core.configuration import Configuration

job_id = pgo_extra_read_key = pgo_extra_write_key = None
dynamic_sources = unbacked_sources = ""
force_disable_caches = False

sys.modules[__name__].__class__ = Configuration
