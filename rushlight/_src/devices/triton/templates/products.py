"""Tiles of matmuls and convolutions, chosen by the cost model, or by measurement under ``max_autotune``."""

from __future__ import annotations

import functools
import hashlib

from .... import switches
from ....compiler.target import leaf
from ....core.dtypes import bfloat16, float32, uint8
from ....core.expr import apply, convert
from ...shared.products import CompiledKernel, Contraction, Products, Prologue
from ...shared.shapes import SHAPES
from ..costs import Work, filled, seconds
from ..rates import byte_by, known, shared_of, tf32_by
from ..step import modules, power_above
from ..tuning import Choice, tuned
from ..vendor.convolved import LibraryConvolutions
from ..vendor.products import LibraryProducts
from .facts import Facts, facts_of
from .tiled import JOINED, Codes, Tile, Tiled, dtype_of

# by the bytes of an element: what a program may compute at a time
TILES = {
    1: ((128, 256, 128, 8, 3), (128, 128, 128, 8, 3), (128, 256, 64, 8, 3), (128, 128, 64, 8, 3), (64, 128, 64, 4, 3),
        (64, 64, 64, 4, 2), (16, 64, 64, 4, 2),
        (16, 32, 64, 4, 2)),
    2: ((128, 256, 64, 8, 3), (128, 128, 64, 8, 3), (128, 128, 32, 8, 2), (128, 64, 32, 4, 3), (64, 128, 32, 4, 3),
        (64, 64, 64, 4, 2), (32, 64, 64, 4, 2), (16, 64, 64, 4, 2), (16, 32, 64, 2, 2)),
    4: ((128, 128, 32, 8, 2), (64, 64, 32, 4, 2), (64, 32, 32, 4, 2), (32, 64, 32, 4, 2), (32, 32, 32, 4, 2),
        (16, 64, 32, 4, 2)),
    8: ((16, 16, 16, 4, 2),),
}
EXACT = 64 * 64  # most elements of a float32 tile that does not use tensor cores
SPLITS = 1, 2, 4, 8, 16
DEEP = 512  # the least depth of a part
ALONE = Tile(16, 16, 16)  # of launches that add up one part


@functools.lru_cache(maxsize=None)
def widened(format: str, side: str) -> Prologue:
    """Return the Prologue of operand "a" or "b" that decodes float8 encodings to bfloat16, without loss."""
    code = leaf(f"{side}0", uint8)
    return Prologue(convert(apply(f"number_{format}", convert(code, float32)), bfloat16), (code,))


class Templates(Products):
    """Plans of matmuls for GPUs of a type and these architectures."""

    def __init__(self, kind="cuda", architectures="", libraries=None):
        super().__init__()
        self.kind, self.architectures = kind, architectures
        self.library = LibraryProducts(self, libraries) if libraries is not None else None
        self.images = LibraryConvolutions(self, libraries)
        self.gpu, self.shared = known(architectures), shared_of(architectures)

    def operands_of(self, p) -> tuple:
        if not p.formats:
            return super().operands_of(p)
        *formats, fast = p.formats
        kinds = [byte_by(self.architectures, name) for name in formats]
        return tuple(Codes(name, kind, fast) if all(kinds) else widened(name, side)
                     for name, kind, side in zip(formats, kinds, "ab"))

    # --- choices --------------------------------------------------
    def precision(self, shape, left) -> str:
        """Return Triton's ``input_precision`` for float32."""
        allowed = switches.allows_tf32("cudnn" if shape[0] == "images" else "matmul")
        return tf32_by(self.architectures) if allowed and dtype_of(left) is float32 else "ieee"

    def tile(self, left, rows: int, columns: int) -> Tile:
        """Return the tile that is likely chosen for a result."""
        return self.tiles(("matrices",), left, rows, columns, 1024, 1)[0]

    def tiles(self, shape, left, rows: int, columns: int, depth: int, batch: int) -> list:
        """Return the candidate tiles, the best by the cost model first."""
        element, exact = dtype_of(left).itemsize, self.precision(shape, left) == "ieee"
        found = []
        for given in TILES[element]:
            tile = Tile(*given)
            if self.shared_memory(tile, element) > self.shared or element == 4 and exact and tile[0] * tile[1] > EXACT:
                continue
            found += [tile._replace(splits=splits) for splits in SPLITS if splits == 1 or depth >= splits * DEEP]
            if self.units(tile, rows, columns) * batch > 2 * self.gpu.units:
                found.append(tile._replace(persistent=True))
        found = found or [Tile(16, 16, 16)]
        return sorted(found, key=lambda tile: self.estimate(shape, left, tile, rows, columns, depth, batch))

    def shared_memory(self, tile: Tile, element: int) -> int:
        """Bytes that a program's threads share."""
        return tile.stages * (tile.rows + tile.columns) * tile.depth * element

    def facts(self, tile: Tile, dtype, kind: str) -> Facts:
        """Return the compiler's results for a tile, or estimates."""
        name = {"float8": "f8", "half": "bf16", "tf32": "tf32", "int8": "i8"}.get(kind, "ieee")
        known = facts_of(self.architectures, name, 0, "Tiled").get(tile[:5])
        likely = 64 + tile.rows * tile.columns // (tile.warps * self.gpu.warp)
        return known or Facts(likely, 0, self.shared_memory(tile, dtype.itemsize))

    def estimate(self, shape, left, tile: Tile, rows: int, columns: int, depth: int, batch: int) -> float:
        """The seconds of a choice by the model of cost."""
        dtype, units = dtype_of(left), batch * self.units(tile, rows, columns)
        kind = {1: "float8" if dtype.is_byte else "int8", 2: "half", 8: "float64"}.get(
            dtype.itemsize, "float32" if self.precision(shape, left) == "ieee" else "tf32")
        deep, facts = -(-depth // tile.splits), self.facts(tile, dtype, kind)
        results = rows * columns * batch * (4 if tile.splits > 1 else dtype.itemsize)
        moved = batch * depth * (rows + columns) * dtype.itemsize
        work = Work(units * tile.splits, 2.0 * tile.rows * tile.columns * -(-deep // tile.depth) * tile.depth,
                    (tile.rows + tile.columns) * deep * dtype.itemsize, moved + results * tile.splits,
                    tile.warps * self.gpu.warp, facts.registers, facts.shared, kind, filled(tile.rows, tile.columns),
                    facts.spilled)
        found = seconds(self.gpu, work)
        return found + self.join_estimate(tile.splits, rows, columns, batch) if tile.splits > 1 else found

    def join_estimate(self, splits: int, rows: int, columns: int, batch: int) -> float:
        """The seconds of a launch that adds up parts."""
        joined = self.units(Tile(*JOINED, 1), rows, columns) * batch
        return seconds(self.gpu, Work(joined, 0, 4 * JOINED[0] * JOINED[1] * (splits + 1),
                                      4 * rows * columns * batch * (splits + 1), 128, 40, 0))

    def units(self, tile, rows: int, columns: int) -> int:
        return -(-rows // tile.rows) * -(-columns // tile.columns)

    # --- plans --------------------------------------------------
    def plan(self, shape, left, right, epilogue, operands, sizes, batch, numbers, spans) -> Contraction:
        listed = self.tiles(shape, left, *sizes, batch)
        given = shape, left, right, epilogue, operands, sizes, batch, numbers
        choices = [Choice(str(tuple(tile)), self.estimate(shape, left, tile, *sizes, batch),
                          functools.partial(self.planned, tile, *given)) for tile in listed]
        library = self.images if shape[0] == "images" else self.library
        if library is not None:
            others = library.choices(*given, choices[0].estimate)
            choices = others if others and library.preferred() else [*choices, *others]
        precision = self.precision(shape, left)
        name = (f"{' '.join(map(str, shape))} {dtype_of(left).name} {dtype_of(right).name} {epilogue.out.name} "
                f"{precision} {[power_above(size) for size in (*sizes, batch)]}")

        def bytes_of() -> dict:
            results = {operands[-1]: epilogue.out.itemsize}
            reached, most = spans(), sizes[0] * sizes[1] * batch
            beside = {o.name: (o.dtype.itemsize * most) for o in (*epilogue.operands, *epilogue.further)}
            return {name: 8 * count if name not in results else results[name] * count
                    for name, count in reached.items()} | beside

        return tuned(self.kind, name, choices, bytes_of)

    def planned(self, tile, shape, left, right, epilogue, operands, sizes, batch, numbers) -> Contraction:
        """The launches of a choice."""
        beside = *(o.name for o in epilogue.operands), *(s.name for s in epilogue.further)
        total = batch * self.units(tile, *sizes[:2])
        given = (*sizes, *numbers, total)
        if tile.splits == 1:
            units = min(total, self.held(tile, left)) if tile.persistent else total
            kernel = self.module(shape, left, right, epilogue, tile, "whole", self.precision(shape, left))
            return Contraction((CompiledKernel(kernel, units, (*operands, *beside), given),))
        part = self.module(shape, left, right, epilogue, tile, "part", self.precision(shape, left))
        join, _, nbytes = self.joined(shape, left, right, epilogue, operands, sizes, batch, numbers, tile)
        steps = CompiledKernel(part, total * tile.splits, (*operands[:-1], "parts"), given), join
        return Contraction(steps, {"parts": nbytes})

    def joined(self, shape, left, right, epilogue, operands, sizes, batch, numbers, tile=ALONE) -> tuple:
        """(the launch that adds up "parts" and computes the epilogue, its seconds by the model of cost, bytes of
        parts)."""
        beside = *(o.name for o in epilogue.operands), *(s.name for s in epilogue.further)
        units = batch * self.units(Tile(*JOINED, 1), *sizes[:2])
        module = self.module(shape, left, right, epilogue, tile, "join", self.precision(shape, left))
        total = batch * self.units(tile, *sizes[:2])
        launch = CompiledKernel(module, units, ("parts", operands[-1], *beside), (*sizes, *numbers, total))
        wide = 8 if dtype_of(left).itemsize == 8 else 4
        return launch, self.join_estimate(tile.splits, *sizes[:2], batch), (
            wide * tile.splits * batch * sizes[0] * sizes[1])

    def finished(self, shape, left, right, epilogue, operands, sizes, batch, numbers) -> tuple:
        """Return (the launch that computes the epilogue of "parts", which have the result's strides, its seconds by the
        cost model, bytes of parts)."""
        beside = *(o.name for o in epilogue.operands), *(s.name for s in epilogue.further)
        units = batch * self.units(Tile(*JOINED, 1), *sizes[:2])
        module = self.module(shape, left, right, epilogue, ALONE, "finish", self.precision(shape, left))
        total = batch * self.units(ALONE, *sizes[:2])
        launch = CompiledKernel(module, units, ("parts", operands[-1], *beside), (*sizes, *numbers, total))
        return launch, self.join_estimate(1, *sizes[:2], batch), (
            dtype_of(left).itemsize * batch * sizes[0] * sizes[1])

    def alone(self, shape, left, right, epilogue, operands, sizes, batch, numbers, role: str) -> CompiledKernel:
        """One launch that computes the "whole", or all depths as the only "part"."""
        tile = next(one for one in self.tiles(shape, left, *sizes, batch) if one.splits == 1 and not one.persistent)
        total = batch * self.units(tile, *sizes[:2])
        beside = *(o.name for o in epilogue.operands), *(s.name for s in epilogue.further)
        places = (*operands, *beside) if role == "whole" else (*operands[:-1], "parts")
        module = self.module(shape, left, right, epilogue, tile, role, self.precision(shape, left))
        return CompiledKernel(module, total, places, (*sizes, *numbers, total))

    def held(self, tile: Tile, left) -> int:
        """How many programs the GPU has at once."""
        taken = self.shared_memory(tile, dtype_of(left).itemsize)
        return self.gpu.units * max(1, min(2, (self.gpu.shared_unit << 10) // max(taken, 1)))

    def written(self, shape, left, right, epilogue, tile, role="whole", precision="ieee") -> int:
        kind, *given = shape
        key = repr((shape, left, right, epilogue, tile, role, precision))
        text = Tiled(SHAPES[kind](*given), left, right, epilogue, tile, role, precision)
        return modules.number(text.module("p" + hashlib.sha256(key.encode()).hexdigest()[:12]))
