"""Names of ``torch._functorch.config`` that programs set; the partition always recomputes what is cheap, so they change nothing here."""
from __future__ import annotations

import sys

from ..core.configuration import Configuration

activation_memory_budget, donated_buffer, recompute_views, ban_recompute_used_far_apart = 1.0, True, False, True
functionalize_rng_ops = unlift_effect_tokens = debug_partitioner = debug_assert = aggressive_recomputation = treat_parameters_as_free_to_save = False
enable_autograd_cache = bundled_autograd_cache = strict_autograd_cache = False
backward_pass_autocast = "same_as_forward"

sys.modules[__name__].__class__ = Configuration
