"""The first adapter under other names, as if it lacked some of what it has."""
import functools

import rushlight as rl
from rushlight._src.core.devices import Registry
from rushlight._src.devices.webgpu.board import BINDINGS, SHARED
from rushlight._src.devices.webgpu.provider import WebGPU, provider
from rushlight._src.devices.webgpu.target import Shaders


@functools.cache
def without(kind: str, *features: str, bindings=None, memory=None) -> str:
    """Makes the type ``kind`` known: the adapter without these features, and with at most so many buffers of a shader
    and bytes of a workgroup; its name."""
    made, board = WebGPU(kind, lambda adapter: adapter is first()), provider.board(0)
    made.compiler = Shaders(board.features - set(features), bindings or board.limits[BINDINGS], kind,
                            memory or board.limits[SHARED])
    before = Registry.accelerator
    rl.devices.register(made)
    Registry.accelerator = before
    return kind


def first():
    from rushlight._src.devices.webgpu.provider import Boards
    return Boards.adapters()[0]
