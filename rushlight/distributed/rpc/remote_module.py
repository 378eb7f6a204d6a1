"""A module that lives in another worker."""
from __future__ import annotations

from ...nn import Module
from ..worlds import here
from .calls import rpc_sync
from .kept import value_at
from .rref import RRef
from .workers import current

UNASKED = ("register_buffer register_parameter add_module apply cuda ipu xpu cpu type float double half bfloat16 to "
           "register_full_backward_hook register_forward_pre_hook register_forward_hook state_dict load_state_dict "
           "parameters named_parameters buffers named_buffers children named_children modules named_modules "
           "requires_grad_ zero_grad share_memory extra_repr register_backward_hook").split()


def made(module_cls, device, args, kwargs) -> RRef:
    """The module, made in its worker."""
    module = module_cls(*args, **kwargs)
    if not isinstance(module, Module):
        raise ValueError(f"Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>, but it "
                         f"returns an instance of {type(module)}.")
    return RRef(module.to(device))


def place_of(remote_device) -> tuple:
    """(a worker's name or rank, a device) of "worker", "worker/cpu" or "rank:0/cpu"; ValueError for anything else.

    Example:
        >>> place_of("rank:1/cpu"), place_of("worker")
        ((1, 'cpu'), ('worker', 'cpu'))
    """
    worker, _, device = str(remote_device).partition("/")
    ranked = worker.removeprefix("rank:")
    if not ranked or "/" in device or ranked != worker and not ranked.isdecimal():
        raise ValueError(f"Could not parse remote_device: {remote_device}. The valid format is "
                         "'<workername>/<device>' or 'rank:<rank>/<device>'")
    return int(ranked) if ranked != worker else worker, device or "cpu"


def parameters_at(name, recurse) -> list:
    return [RRef(parameter) for parameter in value_at(name).parameters(recurse)]


def trained_at(name, mode):
    value_at(name).train(mode)


class RemoteModule(Module):
    """``module_cls(*args, **kwargs)`` in another worker, whose ``forward`` can be called here.

    ``remote_device``: "worker", "worker/cpu" or "rank:0/cpu".  Gradients pass through it in a context of
    ``distributed.autograd``; ``remote_parameters`` are references for a ``DistributedOptimizer``.  ValueError for
    methods that need the module itself (``parameters``, ``state_dict``, ``to`` ...).
    """

    def __init__(self, remote_device, module_cls, args=None, kwargs=None, _module_interface_cls=None):
        super().__init__()
        if _module_interface_cls is not None:
            raise ValueError("modules of other workers have no scripted interface")
        if not isinstance(module_cls, type) or not issubclass(module_cls, Module):
            raise ValueError(f"module_cls must be a subclass of nn.Module, not {module_cls}")
        self.on, self.device = place_of(remote_device)
        self.is_device_map_set, self.is_scriptable, self.generated_methods = False, False, ()
        self.module_rref = rpc_sync(self.on, made, (module_cls, self.device, args or (), kwargs or {}))

    @staticmethod
    def init_from_module_rref(remote_device, module_rref, _module_interface_cls=None):
        """The module that a reference has, which its owner made already."""
        if _module_interface_cls is not None:
            raise ValueError("modules of other workers have no scripted interface")
        return refound(*place_of(remote_device), module_rref)

    def forward(self, *args, **kwargs):
        return self.module_rref.rpc_sync().forward(*args, **kwargs)

    def forward_async(self, *args, **kwargs):
        """``forward``, as a Future."""
        return self.module_rref.rpc_async().forward(*args, **kwargs)

    def remote_parameters(self, recurse=True) -> list:
        """References to the parameters."""
        return rpc_sync(self.module_rref.worker, parameters_at, (self.module_rref.name, recurse))

    def get_module_rref(self) -> RRef:
        return self.module_rref

    def train(self, mode=True):
        rpc_sync(self.module_rref.worker, trained_at, (self.module_rref.name, mode))
        self.training = mode
        return self

    def __reduce__(self):
        if here().rpc is None:
            raise RuntimeError("Cannot pickle RemoteModule in python pickler. RemoteModule can only be pickled when "
                               "using RPC")
        return refound, (self.on, self.device, self.module_rref)


def refound(on, device, rref):
    module = RemoteModule.__new__(RemoteModule)
    Module.__init__(module)
    module.on, module.device, module.module_rref = on, device, rref
    module.is_device_map_set, module.is_scriptable, module.generated_methods = False, False, ()
    current()  # within a group of workers alone
    return module


def unasked(name):
    def refuse(self, *args, **kwargs):
        raise ValueError(f"Method ``{name}`` not supported for RemoteModule")
    refuse.__name__ = name
    return refuse


for _name in UNASKED:
    setattr(RemoteModule, _name, unasked(_name))
