"""Choices of templates: by the model of cost, as measured by a clock that stands in, and what each computes."""
import logging

import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.settings import settings
from rushlight._src.devices.triton import tuning
from rushlight._src.devices.triton.board import Board
from rushlight._src.devices.triton.costs import Work, seconds
from rushlight._src.devices.triton.provider import Queue
from rushlight._src.devices.triton.rates import GPUS
from rushlight._src.devices.triton.step import modules
from rushlight._src.devices.triton.templates.products import Templates
from rushlight._src.devices.triton.templates.tiled import Tile

from .test_products import compared


def product(rows, columns, depth, architecture="sm_90", dtype=rl.bfloat16):
    return Templates("cuda", architecture).tiles(("matrices",), dtype, rows, columns, depth, 1)


def test_the_model_of_cost():
    """More bytes, more operations and larger programs take no less time; what no unit holds takes for ever."""
    gpu, work = GPUS["sm_90"], Work(1024, 1e9, 1e6, 1e9, 128, 64, 32 << 10, "half")
    for more in ({"operations": 2e9}, {"traffic": 1e8}, {"memory": 1e10}, {"shared": 200 << 10}, {"registers": 250},
                 {"programs": 4096}, {"kind": "float32"}):
        assert seconds(gpu, work._replace(**more)) >= seconds(gpu, work), more
    assert seconds(gpu, work._replace(shared=228 << 10)) == float("inf")


def test_what_the_model_chooses():
    large, deep, few = product(8192, 8192, 8192)[0], product(64, 64, 65536)[0], product(16, 4096, 4096)[0]
    assert large.rows * large.columns >= 128 * 128 and large.splits == 1
    assert deep.splits > 1 and few.rows == 16
    for architecture in GPUS:
        for tile in product(4096, 4096, 4096, architecture):
            assert Templates("cuda", architecture).shared_memory(tile, 2) <= GPUS[architecture].shared << 10


@pytest.mark.parametrize("tile", [Tile(16, 32, 16, splits=3), Tile(16, 16, 16, persistent=True)])
@pytest.mark.parametrize("name", ["small", "epilogue", "conv2d"])
def test_parts_of_the_depth_and_persistent_programs(gpu, monkeypatch, name, tile):
    monkeypatch.setattr(Templates, "tiles", lambda *given: [tile])
    monkeypatch.setattr(Templates, "held", lambda *given: 2)
    compared(name, rl.float32, 1e-5)


@pytest.fixture
def clock(silent, monkeypatch):
    """A clock by which a launch takes as many milliseconds as its tile is far from 64 rows; what was asked for."""
    seen, run = [], Board.run

    def noted(self, code, values):
        program = run(self, code, values)
        seen.append([dict(one.module.blocks) for part in program.parts for one in part.launches])
        return program

    monkeypatch.setattr(Board, "run", noted)
    monkeypatch.setattr(Queue, "elapsed", lambda self, first, last: 1.0 + sum(
        abs(blocks.get("BM", 64) - 64) for blocks in seen[-1]))
    return seen


def chosen(board):
    """The matmul module that a device has loaded last."""
    return [module for number, _ in board.kernels if (module := modules.made[number]).name.startswith("p")][-1]


def multiplied(rows):
    a, b = (rl.ones(rows, rows, device="cuda", dtype=rl.bfloat16) for _ in range(2))
    rl._dynamo.reset()
    return rl.compile(lambda a, b: a @ b, mode="max-autotune")(a, b)


@pytest.fixture
def own_cache(tmp_path):
    """A disk cache of the test's own."""
    with settings.set(cache=str(tmp_path)):
        yield


def test_the_fastest_is_taken_and_remembered(clock, caplog, own_cache):
    caplog.set_level(logging.DEBUG, "rushlight.autotune")
    multiplied(500)
    assert clock[-1][0]["BM"] == 64 and len(clock) > 10
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "were expected" in text and "ms" not in text
    caplog.clear()
    clock.clear()
    multiplied(505)  # of the same class
    assert [blocks["BM"] for (blocks,) in clock if blocks] == [64]
    assert "as measured before" in "\n".join(record.getMessage() for record in caplog.records)


def test_what_does_not_fit_is_left_out(clock, caplog, own_cache, monkeypatch):
    caplog.set_level(logging.DEBUG, "rushlight.autotune")
    monkeypatch.setattr(tuning, "unfit", lambda made, architecture: "" if "BM" in made.entry else "too large")
    with pytest.raises(RuntimeError, match="no choice fits the device"):
        multiplied(300)


def test_registers_of_machine_code():
    words = (tuning.REGISTERS_OF_CUBIN, 168), (tuning.FRAME_OF_CUBIN, 40)
    cubin = b"\x7fELF" + b"".join(name + bytes(4) + number.to_bytes(4, "little") for name, number in words)
    hsaco = b"\x7fELF" + b"\xab.vgpr_count\xcd\x01\x00\xb1.vgpr_spill_count\x07"
    assert tuning.registers(cubin) == (168, 10) and tuning.registers(hsaco) == (256, 7)


def test_the_page_has_what_the_model_expects():
    from benchmarks.predicted import PAGE, written

    page = PAGE.read_text(encoding="utf-8")
    assert written(page) == page


def test_tf32_where_it_is_allowed(gpu):
    """The text of a product says how float32 is multiplied; a switch makes operators plan anew."""
    board, x = gpu[0].board(0), rl.ones(33, 33, device="cuda")
    x @ x
    assert 'input_precision="ieee"' in chosen(board).text
    rl.backends.cuda.matmul.allow_tf32 = True
    try:
        assert rl.get_float32_matmul_precision() == "high"
        np.testing.assert_allclose((x @ x).cpu().numpy(), 33)
        assert 'input_precision="tf32"' in chosen(board).text
    finally:
        rl.set_float32_matmul_precision("highest")
    assert not rl.backends.cuda.matmul.allow_tf32
    image, weight = rl.ones(1, 2, 5, 5, device="cuda"), rl.ones(3, 2, 3, 3, device="cuda")
    rl.nn.functional.conv2d(image, weight)
    assert 'input_precision="tf32"' in chosen(board).text
    with rl.backends.cudnn.flags(allow_tf32=False):
        rl.nn.functional.conv2d(image, weight)
        assert 'input_precision="ieee"' in chosen(board).text
    assert rl.backends.cudnn.allow_tf32
