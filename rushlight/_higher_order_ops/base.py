"""HigherOrderOperator: operators of programs that users define by rules, as Python functions."""
from __future__ import annotations

import abc

from .._src.core.errors import NotBuiltError
from .._src.core.interpret import active, is_inference_mode_enabled
from .._src.core.later import facade
from .._src.core.native import Tensor
from .._src.core.pytree import tree_leaves
from .._src.transforms.level import Level

__all__ = ["HigherOrderOperator"]
COMPOSITES = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")


class HigherOrderOperator(abc.ABC):
    """An operator with a name in ``torch.ops.higher_order``, whose calls run the rule for the device of their tensors.

    ``py_impl(key)`` registers a rule for a DispatchKey: ``AutogradCPU`` (or ``Autograd``, of all devices) with what a
    call of tensors runs; ``CPU`` in inference mode; ``CompositeExplicitAutograd`` there too, and without tensors.
    Rules for transforms and for modes are kept and not called: a call under ``vmap``, ``grad`` or ``jvp`` is refused.
    """

    namespace = "higher_order"
    made: dict = {}

    def __init__(self, name, *, cacheable=False, supports_training_input_mutation=False):
        self._name = self.__name__ = self.__qualname__ = name
        self.__module__ = "torch.ops.higher_order"
        self.py_kernels: dict = {}
        HigherOrderOperator.made[name] = self

    @abc.abstractmethod
    def __call__(self, *args, **kwargs):
        if any(isinstance(one, Level) for one in active()):
            raise NotBuiltError(f"{self!r} was called under vmap, grad or jvp: rules that py_impl registers for them are "
                                "not called; write it as torch.autograd.Function or torch.library.custom_op")
        return self.rule_for(args, kwargs)(*args, **kwargs)

    def rule_for(self, args: tuple, kwargs: dict):
        """Return the rule for a call.  NotImplementedError without one."""
        device = next((leaf.device.type for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)), None)
        if device is None:
            key, names = "Undefined", COMPOSITES
        elif is_inference_mode_enabled():
            key = key_of(device)
            names = (key, *COMPOSITES)
        else:
            key = f"Autograd{key_of(device)}"
            names = (key, "Autograd", "CompositeImplicitAutograd")
        rules = {getattr(kept, "name", None): rule for kept, rule in self.py_kernels.items()}
        found = next((rules[name] for name in names if name in rules), None)
        if found is None:
            raise NotImplementedError(
                f"could not find kernel for HigherOrderOperator {self._name} at dispatch key DispatchKey.{key}: "
                f"py_impl registers one for {', '.join(names)}")
        return found

    def py_impl(self, k):
        """Return a decorator that registers a rule for a key.  RuntimeError if it has one."""
        def register(fn):
            if k in self.py_kernels:
                raise RuntimeError(f"Trying to override a python impl for {k} on operator {self._name}")
            self.py_kernels[k] = fn
            return fn

        return register

    def py_autograd_impl(self, fn):
        """Register a rule for ``DispatchKey.Autograd``."""
        return self.py_impl(facade().DispatchKey.Autograd)(fn)

    def name(self) -> str:
        return self._name

    def __str__(self):
        return self._name

    def __repr__(self):
        return f"torch.ops.higher_order.{self._name}"

    def __deepcopy__(self, memo):
        return self


def key_of(device: str) -> str:
    """Return the name of a device type among dispatch keys; those of extensions have one together.

    >>> key_of("cpu"), key_of("meta"), key_of("npu")
    ('CPU', 'Meta', 'PrivateUse1')
    """
    return next((name for name in facade().DispatchKey.__members__ if name.lower() == device), "PrivateUse1")
