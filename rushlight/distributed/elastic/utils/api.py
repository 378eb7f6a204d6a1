"""Placeholders in workers' arguments, which are substituted at start."""
from __future__ import annotations

from string import Template

from ...._src.core.later import later

__getattr__ = later(__name__)


class macros:
    """Placeholders in arguments: ``macros.local_rank`` becomes the local rank of a worker.

    >>> from rushlight.distributed.elastic.utils.api import macros
    >>> macros.substitute(["--log", f"out.{macros.local_rank}"], "3")
    ['--log', 'out.3']
    """

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args, local_rank):
        """Return the arguments with the local rank in place of the placeholders."""
        return [Template(a).safe_substitute(local_rank=local_rank) if isinstance(a, str) else a for a in args]
