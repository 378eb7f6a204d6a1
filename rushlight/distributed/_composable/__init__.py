"""Wrappers of modules for several processes: not here."""
from ...compat.absent import absent

globals().update(absent("torch.distributed._composable", "this build runs in one process", "checkpoint contract replicate"))
