"""The text of a kernel, which the documentation shows."""
import pathlib
import re

from rushlight._src.devices.triton.step import modules

from ..compiler.programs import Program
from ..compiler.test_kernels import softmax
from .programs import compile_for_blocks

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "gpu.md"


def written() -> str:
    """Softmax over the rows of a matrix, without the functions that it calls."""
    p = Program()
    program = compile_for_blocks(p, softmax(p, p.input((64, 1000)), 1))
    module = modules.made[program.steps[0].address]
    body = module.text[module.text.index(f"@triton.jit\ndef {module.name}"):]
    return body.replace(module.name, "softmax").strip()


def test_the_page_shows_it():
    assert f"```\n{written()}\n```" in re.sub(r"```\w+\n", "```\n", PAGE.read_text(encoding="utf-8"))
