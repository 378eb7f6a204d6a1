"""Which primitives templates of Triton compute: products and convolutions, with operands as those of the processor's.
"""

from __future__ import annotations

from ...core.shape_env import guess
from ..shared.products import claims
from .templates.tiled import Templates


def claimed() -> dict:
    """By the primitive: its Claim."""
    templates = Templates()

    def packings(node, number: int) -> int:
        """How often a product reads each element of an operand."""
        rows, columns = map(guess, node.shape[-2:])
        tile = templates.tile(node.args[0].dtype, rows, columns)
        return -(-columns // tile.columns) if number == 0 else -(-rows // tile.rows)

    return claims(templates, True, packings)
