"""The names of PyTorch's native module that Python code reaches for."""
from __future__ import annotations

import weakref

from . import _VF as _VariableFunctions  # noqa: F401
from ._src.autograd.mode import set_recording as _set_grad_enabled  # noqa: F401
from ._src.core.devices import Registry, device
from ._src.core.convert import StorageBase  # noqa: F401
from ._src.core.dtypes import dtype
from ._src.core.interpret import active, is_recording as is_grad_enabled  # noqa: F401
from ._src.core.meta import Size
from ._src.core.native import Tensor as TensorBase, mine
from ._src.core.overriding import (DisableTorchFunction, DisableTorchFunctionSubclass,
                                   _EnableTorchFunction, disabled as _disabled_torch_function_impl,
                                   TorchFunctionState as _TorchFunctionState, enabled as _is_torch_function_enabled,
                                   mode_count as _len_torch_function_stack, observed,
                                   state as _get_torch_function_state)  # noqa: F401
from ._src.core.random import Generator, default_generator
from ._src.transforms.level import Level
from ._src.compat.table import entries
from ._src.core.later import later, room

_VariableFunctionsClass = _VariableFunctions  # files of whole modules have operators as its attributes
_TensorBase, _TensorMeta = TensorBase, type(TensorBase)
_has_cuda = _has_xpu = _has_mps = _has_mtia = _has_cudnn = _has_mkldnn = _has_magma = False  # what it was built with


class _CPU:
    """CPU information of ``torch.cpu``, under its private path."""

    def __getattr__(self, name):
        from . import cpu
        return getattr(cpu, name)


_cpu = _CPU()


def _get_cpu_capability() -> str:
    """``torch.backends.cpu.get_cpu_capability``, at another path."""
    return _cpu._get_cpu_capability()


def _get_tracing_state():
    """The state of ``jit.trace``: None, since tracing there runs the program as it is."""
    return None


def _get_cublas_allow_tf32() -> bool:
    """Whether matmuls of float32 may round their operands to TensorFloat32."""
    return room("_src.switches").allows_tf32("matmul")


def _set_cublas_allow_tf32(allowed: bool):
    """Says whether matmuls of float32 may round their operands to TensorFloat32."""
    room("_src.switches").set_float32_matmul_precision("high" if allowed else "highest")


def _get_default_device() -> str:
    """The kind of device that tensors are made on where none is named."""
    from ._src.api import get_default_device
    return str(get_default_device())


def _get_privateuse1_backend_name() -> str:
    """Return the name of the device type of extensions: "privateuseone" until ``rename_privateuse1_backend`` sets it.
    """
    return Registry.private


def _cuda_attach_out_of_memory_observer(observer):
    """``observer(device, bytes asked for, bytes of the device, bytes left)`` is called before memory is refused."""
    from .cuda.memory import _attach_out_of_memory_observer
    _attach_out_of_memory_observer(observer)


def _log_api_usage_once(name):
    """Accepts what PyTorch counts; nothing is counted here."""


def _are_functorch_transforms_active() -> bool:
    """Whether a transform of ``torch.func`` runs now."""
    return any(isinstance(one, Level) for one in active())


def _set_fwd_grad_enabled(enabled: bool):
    """Sets whether results carry the tangents of arguments on, in this thread."""
    from ._src.transforms.forward import carrying
    carrying.on = bool(enabled)


def _is_fwd_grad_enabled() -> bool:
    """Whether results carry the tangents of arguments on."""
    from ._src.transforms.forward import carrying
    return carrying.on


def _current_graph_task_id() -> int:
    """The number of the backward pass that this thread is in, -1 outside of one."""
    return -1 if mine.run is None else mine.run.epoch


def _current_autograd_node():
    """The node that this thread's backward pass runs, None outside of one."""
    from ._src.autograd.node import node_of
    return None if mine.run is None else node_of(mine.run.node)


def _will_engine_execute_node(node) -> bool:
    """True if the backward pass that this thread is in executes ``node``.  RuntimeError outside of a backward pass, for
    anything but a ``grad_fn``, and for a leaf whose gradient ``autograd.grad`` returns."""
    from ._src.autograd.backward import will_execute
    from ._src.autograd.node import GraphNode
    if not isinstance(node, GraphNode):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    if mine.run is None:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    return will_execute(mine.run, node.grad_node)


class _WeakTensorRef:
    """A weak reference to a tensor: ``expired()`` once it is gone."""

    def __init__(self, tensor):
        self.known = weakref.ref(tensor)

    def expired(self) -> bool:
        return self.known() is None


class Room:
    """Functions of a submodule of PyTorch's native module, under flat names: ``_fft.fft_rfft`` is ``fft.rfft``."""

    def __init__(self, prefix, room):
        self.prefix, self.room = prefix, room

    def __getattr__(self, name):
        if name.startswith("__") or not name.startswith(self.prefix):
            raise AttributeError(f"torch._C has no function {name!r} here")
        return getattr(room(self.room), name[len(self.prefix):])


class Layers:
    """Functions of neural networks. Those that PyTorch's ``torch.nn.functional`` takes from here as they are, are that
    module's; others are the operators of ``torch.ops.aten``: ``reduction`` is an integer, ``max_unpool2d`` takes the
    size of its result."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"torch._C._nn has no function {name!r}")
        home, _, original = entries("torch._C._nn").get(name, ("", ""))[1].rpartition(":")
        function = getattr(room("nn.functional") if home else room("_ops").ops.aten, original if home else name)
        setattr(self, name, function)
        return function

    @staticmethod
    @observed
    def _parse_to(*args, **kwargs):
        """The arguments of ``to``: device, dtype, non_blocking and memory format; device and dtype are None if not
        given."""
        from ._src.core.devices import placed
        from .nn.modules.module import place_and_dtype

        where, kind = place_and_dtype(*args, **kwargs)
        flags = [a for a in args if isinstance(a, bool)]
        return where if where is None else placed(where), kind, kwargs.get("non_blocking",
                                                                           bool(flags and flags[0])), kwargs.get(
                                                                               "memory_format")


_fft, _linalg, _special, _nn = Room("fft_", "fft"), Room("linalg_", "linalg"), Room("special_", "special"), Layers()


class Executor:
    """Switches of TorchScript's executor: stored and returned without effect, because there is no executor."""

    optimize = profiling = mode = autocast = True


def _get_graph_executor_optimize() -> bool:
    """Whether TorchScript's executor is to optimise."""
    return Executor.optimize


def _set_graph_executor_optimize(enabled: bool):
    """Says whether TorchScript's executor is to optimise."""
    Executor.optimize = enabled


def _jit_set_profiling_executor(enabled: bool) -> bool:
    """Says whether TorchScript's executor profiles; returns what was said before."""
    before, Executor.profiling = Executor.profiling, enabled
    return before


def _jit_set_profiling_mode(enabled: bool) -> bool:
    """Says whether TorchScript's profiles specialise; returns what was said before."""
    before, Executor.mode = Executor.mode, enabled
    return before


def _jit_set_autocast_mode(enabled: bool) -> bool:
    """Sets whether TorchScript's passes insert casts into scripted programs; returns the value before.  A trace has the
    casts of its example, whatever is set."""
    before, Executor.autocast = Executor.autocast, enabled
    return before


__getattr__ = later(__name__, {".autograd": ("_functions",)})
