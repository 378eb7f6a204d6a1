"""Which primitives templates of WGSL compute: products and convolutions, with operands as those of the processor's."""

from __future__ import annotations

from ...core.shape_env import guess
from ..shared.products import claims
from .templates.tiled import Templates, tile_for

MOST_BUFFERS = 32  # of a product with all that it may read and write along


def packings(node, number: int) -> int:
    """How often a product reads each element of an operand into workgroup memory."""
    rows, columns = map(guess, node.shape[-2:])
    size = tile_for(rows, columns).size
    return -(-(columns if number == 0 else rows) // size)


def claimed(features: frozenset, bindings: int) -> dict:
    """By the primitive: its Claim on a device of these features, whose shaders have so many buffers."""
    return claims(Templates(features), bindings >= MOST_BUFFERS, packings,
                  lambda dtypes: "float64" not in dtypes or "f64" in features)
