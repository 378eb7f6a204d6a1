"""The available register tiles of matmuls, and their selection for given sizes."""


from ....core.shape_env import guess
from ..llvm.features import remembered, targeted
from . import tiled
from .habits import habits
from .portions import round_up
from .tune import pick


BLOCKS = 24  # registers for sums and columns by twos, which are loaded and combined in the others
FEW = 4  # rows up to which a tile that reads a packed B gains nothing from more rows


def register_tile(rows, columns, kind, packed=False, ordered=False):
    """The register tile for a count of rows: as many accumulators as the registers hold, few of them wasted.
    `packed`: B is already packed, so that few rows read it once.  `ordered`: as for `pick`."""
    rows, columns = guess(rows), guess(columns)  # any tile suits any sizes
    highest = targeted().registers - (14 if kind.blocks else 4)
    if packed and FEW < rows <= highest and not kind.flips and not kind.tiles:
        tile_rows = round_up(rows, 2)
        # registers for sums and for columns, which are two operands a vector if rows are multiplied by twos
        there = (BLOCKS if kind.blocks else targeted().registers - 1) // (tile_rows + 1 + bool(kind.blocks))
        return tile_rows, max(1, min(3, there))
    vectors_there = -(-columns // kind.lanes)
    tiles = [(tile, tiled.cycles(*tile))
             for tile in tiled.SHAPES] if kind.tiles else register_tiles(kind.flips, bool(kind.blocks))
    costs = [(-(-rows // tile[0]) * -(-vectors_there // tile[1]) * cycles, k, tile)
             for k, (tile, cycles) in enumerate(tiles)]
    return pick("tile", [tile for *_, tile in sorted(costs)[:3]], ordered)


@remembered()
def register_tiles(flips, blocks=False):
    """((rows, vectors), cycles of a step along k) of the available register tiles."""
    if targeted().registers == 16:
        options = ((6, 2), (4, 2), (2, 4), (1, 4))
    else:
        options = ((14, 2), (12, 2), (8, 3), (6, 4), (5, 5), (4, 4), (2, 6), (1, 8))
        if flips:  # registers for the correction that is subtracted
            options = options[1:2] + options[5:]
        if blocks:  # two rows at a time; more of them would not fit into registers with the columns by twos
            options = ((10, 2), (8, 2), (6, 3), (4, 4), (2, 6), (1, 8))
            # cycles: combining columns and rows, and the multiplications, take half a step along k each
            return [(tile, (tile[0] * tile[1] + 2 * tile[1] + tile[0] / 2) / 4 if tile[0] > 1 else tile[1] / 2)
                    for tile in options]
    # two multiply-adds and two loads a cycle; a sum has a latency of four cycles
    rate, bytes_ = habits().second_rate, targeted().width // 8
    waits = {(rows, vectors): (vectors * bytes_ + 4 * rows) / rate if rate else 0 for rows, vectors in options}
    return [(tile, max((tile[0] + flips) * tile[1] / 2, 4, sum(tile) / 2 + 1, waits[tile])) for tile in options]
