"""The driver that all optimizers share: parameter groups, state, hooks, and writing updates back."""
from __future__ import annotations

import copy
import functools
import inspect
import math
from collections import OrderedDict, defaultdict
from itertools import chain

from .._src.autograd.mode import enable_grad, is_grad_enabled, no_grad
from .._src.autograd.node import Handle
from .._src.core.advice import warn
from .._src.core.convert import unrecorded
from .._src.core.interpret import recording
from .._src.core.native import Tensor
from .._src.ops.complex_numbers import view_as_complex, view_as_real


class _RequiredParameter:
    """Marks a setting without default."""

    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


before_all: dict = {}  # hooks before and after the steps of every optimizer
after_all: dict = {}


def register_optimizer_step_pre_hook(hook):
    """Calls ``hook(optimizer, args, kwargs)`` before each step of every optimizer; it may return others.  The handle
    takes it away."""
    return Handle(before_all, hook)


def register_optimizer_step_post_hook(hook):
    """Calls ``hook(optimizer, args, kwargs)`` after each step of every optimizer.  The handle takes it away."""
    return Handle(after_all, hook)


def hung(hooks: OrderedDict, hook, first: bool) -> Handle:
    """Adds a hook, behind the others or before them."""
    handle = Handle(hooks, hook)
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle


def between_hooks(step):
    """A ``step`` that calls the hooks of all optimizers and of this one before and after."""
    @functools.wraps(step)
    def run(self, *args, **kwargs):
        self._opt_called = True  # what schedulers ask
        if self._optimizer_step_pre_hooks is None:
            return step(self, *args, **kwargs)
        for hook in [*before_all.values(), *self._optimizer_step_pre_hooks.values()]:
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
                args, kwargs = changed
        result = step(self, *args, **kwargs)
        for hook in [*self._optimizer_step_post_hooks.values(), *after_all.values()]:
            hook(self, args, kwargs)
        return result

    return run


class Optimizer:
    """Updates parameters from their gradients.

    A subclass gives three methods.  ``prepare(parameter, gradient, group)`` makes the state of a parameter, among it
    its ``counters``, tensors of one number.  ``numbers(group, *counters)`` computes what one step needs of the settings
    and the counters, and what these are afterwards, as Python numbers.
    ``update(parameter, gradient, state, group, *numbers)`` changes the parameter and the rest of its state in place, by
    tensor operations alone: so a compiled step takes the numbers at run time.
    """

    _opt_called = False  # whether there was a step yet
    _optimizer_step_pre_hooks = None  # of optimizers around others, which are not initialised as one

    _rush_counters: tuple = ("step",)

    def __init_subclass__(cls, **facts):
        super().__init_subclass__(**facts)
        if "step" in vars(cls):
            cls.step = between_hooks(cls.step)

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = OrderedDict(), OrderedDict()
        self._state_dict_pre_hooks, self._state_dict_post_hooks = OrderedDict(), OrderedDict()
        self._load_pre_hooks, self._load_post_hooks = OrderedDict(), OrderedDict()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{type(params).__name__}")
        self.state, self.param_groups = defaultdict(dict), []
        check_flags(defaults)
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))

    def add_param_group(self, param_group):
        """Adds parameters with settings of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead.")
        params = list(params)
        if len(set(map(id, params))) < len(params):
            warn("optimizer contains a parameter group with duplicate parameters, each of which would be updated "
                 "several times: give it once.")
        params = self._rush_unnamed(params, param_group)
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not self.defaults.get("differentiable") and not (p.is_leaf or getattr(p, "retains_grad", False)):
                raise ValueError("can't optimize a non-leaf Tensor")
        param_group["params"] = params
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if known & {id(p) for p in params}:
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _rush_unnamed(self, params, group) -> list:
        """Parameters without the names that they may come with, which go into the group.  ValueError where some have
        names and others do not."""
        named = [isinstance(p, tuple) for p in params]
        if any(named) and not all(named):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        if any(named):
            group["param_names"] = [name for name, _ in params]
        if self.param_groups and ("param_names" in self.param_groups[0]) is not ("param_names" in group):
            how = "with" if "param_names" in group else "without"
            raise ValueError("all optimizer param groups should be with/without names. cannot add param group "
                             f"{how} names to the optimizer")
        return [p for _, p in params] if any(named) else params

    def zero_grad(self, set_to_none=True):
        """Drops (or zeroes) the gradients of all parameters."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    if set_to_none:
                        p.grad = None
                    else:
                        unrecorded(p.grad).zero_()

    @between_hooks
    def step(self, closure=None):
        """One update of every parameter that has a gradient; ``closure`` computes the loss again and returns it."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._rush_update_all()
        return loss

    def _rush_update_all(self):
        """Updates every parameter that has a gradient: what a step does between its hooks."""
        known: dict = {}
        for p, gradient, state, group in self._rush_due():
            with recording(bool(group.get("differentiable"))):
                numbers = self._rush_advance(state, group, known)
                gradient = -gradient if group.get("maximize") else gradient
                if p.is_complex():
                    update_pairs(self, p, gradient, state, group, numbers)
                else:
                    self._rush_update(p, gradient, state, group, *numbers)

    def _rush_due(self):
        """(parameter, gradient, state, group) for each parameter that has a gradient, its state prepared."""
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    gradient = p.grad
                    if gradient is not None:
                        gradient = self._rush_taken(gradient)
                        state = self.state[p]
                        if not state:
                            state.update(self._rush_prepare(p, gradient, group))
                        yield p, gradient, state, group

    _rush_sparse = "not at all"  # how sparse gradients are taken: or "as dense ones", or "as it is"

    def _rush_taken(self, gradient):
        """The gradient as updates take it.  RuntimeError for a sparse one where they cannot."""
        if not gradient.is_sparse or self._rush_sparse == "as it is":
            return gradient
        if self._rush_sparse == "not at all":
            raise RuntimeError(
                f"{type(self).__name__} does not support sparse gradients, please consider SparseAdam instead")
        return gradient.to_dense()

    def _rush_advance(self, state, group, known):
        """Moves the counters of a parameter on; the numbers of its update, computed once for those that agree
        (``known``)."""
        key = self._rush_agreement(state, group)
        found = known.get(key)
        if found is None:
            found = known[key] = self._rush_numbers(group, *key[1:])
        for name, value in zip(self._rush_counters, found[0]):
            state[name].fill_(float(value))
        return found[1]

    def _rush_agreement(self, state, group) -> tuple:
        """Return the properties that a parameter's update depends on."""
        return id(group), *(state[name].item() for name in self._rush_counters)

    def _rush_prepare(self, parameter, gradient, group) -> dict:
        """The state of a parameter before its first step."""
        return {}

    def _rush_numbers(self, group, *counters) -> tuple:
        """(counters after this step, numbers that the update needs)."""
        raise NotImplementedError

    def _rush_update(self, parameter, gradient, state, group, *numbers):
        """Writes a parameter's new value, and its state's, in place, from its gradient (of its shape and dtype) and
        what ``numbers`` gave.  Subclasses define it."""
        raise NotImplementedError

    def _rush_standing_for(self, parameter, values):
        """Hook: ``update`` gets ``values`` in place of a complex parameter."""

    def register_step_pre_hook(self, hook):
        """Calls ``hook(optimizer, args, kwargs)`` before each ``step``; it may return (args, kwargs) for it.

        What it returns is a handle, whose ``remove()`` takes the hook away.

        >>> sgd, seen = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1), []
        >>> handle = sgd.register_step_pre_hook(lambda optimizer, args, kwargs: seen.append(type(optimizer).__name__))
        >>> sgd.step(); handle.remove(); sgd.step(); seen
        ['SGD']
        """
        return Handle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Calls ``hook(optimizer, args, kwargs)`` after each ``step``.  The handle takes it away."""
        return Handle(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Calls ``hook(optimizer)`` before ``state_dict``; with ``prepend`` before the hooks that are there already.

        The handle takes it away.
        """
        return hung(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Calls ``hook(optimizer, state_dict)`` after ``state_dict``; it may change that, or return another one."""
        return hung(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Calls ``hook(optimizer, state_dict)`` before ``load_state_dict``; it may return the one to load.

        It gets a shallow copy: the caller's dict stays as it is.
        """
        return hung(self._load_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Calls ``hook(optimizer)`` after ``load_state_dict``.  The handle takes it away."""
        return hung(self._load_post_hooks, hook, prepend)

    def state_dict(self):
        """Settings and state, parameters named by their order: {"state": ..., "param_groups": ...}."""
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self)
        number: dict = {}
        for k, p in enumerate(chain(*(g["params"] for g in self.param_groups))):
            number.setdefault(id(p), k)
        groups = [{**{k: v for k, v in g.items() if k != "params"}, "params": [number[id(p)] for p in g["params"]]}
                  for g in self.param_groups]
        state = {number[id(p)] if isinstance(p, Tensor) else p: v for p, v in self.state.items()}
        out = {"state": state, "param_groups": groups}
        for hook in list(self._state_dict_post_hooks.values()):
            changed = hook(self, out)
            out = out if changed is None else changed
        return out

    def load_state_dict(self, state_dict):
        """Takes over settings and state; ValueError where the groups do not fit."""
        state_dict = dict(state_dict)
        for hook in list(self._load_pre_hooks.values()):
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        saved = copy.deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, self.param_groups)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        params = dict(zip(chain(*(g["params"] for g in saved)), chain(*(g["params"] for g in self.param_groups))))

        def placed(value, parameter, key=None):
            if isinstance(value, Tensor):
                return value.clone() if key == "step" or not parameter.is_floating_point() else value.to(
                    parameter.dtype, copy=True)
            if isinstance(value, dict):
                return {k: placed(v, parameter, k) for k, v in value.items()}
            return type(value)(placed(v, parameter) for v in value) if isinstance(value, (list, tuple)) else value

        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            state[params[key] if key in params else key] = placed(value, params[key]) if key in params else value
        self.state = state
        self.param_groups = [self._rush_completed({**new, "params": old["params"]})
                             for new, old in zip(saved, self.param_groups)]
        self._rush_count_in_tensors()
        for hook in list(self._load_post_hooks.values()):
            hook(self)

    def _rush_completed(self, group) -> dict:
        """A group with settings that it lacks, since an older version wrote it, as they are by default."""
        standard = inspect.signature(type(self).__init__).parameters
        for name in self.defaults:
            if name not in group and name in standard and standard[name].default is not inspect.Parameter.empty:
                group[name] = standard[name].default
        return group

    def _rush_count_in_tensors(self):
        """Makes counters tensors that an older version wrote as numbers."""
        from .algorithms import scalar
        for state in self.state.values():
            for name in self._rush_counters:
                if isinstance(state, dict) and isinstance(state.get(name), (int, float)):
                    state[name] = scalar(state[name])

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_state_dict_pre_hooks",
                     "_state_dict_post_hooks", "_load_pre_hooks", "_load_post_hooks"):
            self.__dict__.setdefault(name, OrderedDict())
        if "param_groups" in state and "defaults" in state:
            self.param_groups = [self._rush_completed(group) for group in self.param_groups]
            self._rush_count_in_tensors()

    def __repr__(self):
        text = type(self).__name__ + " ("
        for k, group in enumerate(self.param_groups):
            text += f"\nParameter Group {k}\n" + "".join(f"    {key}: {group[key]}\n" for key in sorted(group)
                                                         if key != "params")
        return text + ")"


def check_flags(settings):
    """RuntimeError for flags that exclude each other, ValueError for a learning rate that is a tensor of several
    numbers."""
    if settings.get("fused") and settings.get("differentiable"):
        raise RuntimeError("`fused` does not support `differentiable`: switch one of them off")
    if settings.get("fused") and settings.get("foreach"):
        raise RuntimeError(
            "`fused` and `foreach` cannot be `True` together: choose one of them (both run the same kernels here)")
    if isinstance(settings.get("lr"), Tensor):
        number(settings["lr"])


def update_pairs(optimizer, parameter, gradient, state, group, numbers):
    """The update of a complex parameter, carried out on pairs of real numbers."""
    pairs = {k: view_as_real(v.clone()) if isinstance(v, Tensor) and v.is_complex() else v for k, v in state.items()}
    values = view_as_real(parameter.clone())
    optimizer._rush_standing_for(parameter, values)
    optimizer._rush_update(values, view_as_real(gradient.resolve_conj()), pairs, group, *numbers)
    parameter.copy_(view_as_complex(values))
    for key, value in pairs.items():
        if isinstance(value, Tensor) and value.dim() and value.shape == values.shape:
            state[key] = view_as_complex(value)


def at_least_zero(**settings):
    """ValueError for a setting below zero."""
    for name, value in settings.items():
        if not 0.0 <= value:
            raise ValueError(f"Invalid {name} value: {value}")


def fraction(**settings):
    """ValueError for a setting outside [0, 1)."""
    for name, value in settings.items():
        if not 0.0 <= value < 1.0:
            raise ValueError(f"Invalid {name}: {value}")


def number(value):
    """A setting as a Python number; one that wants a gradient as a tensor without dimensions, while operators are
    recorded.  ValueError for a tensor of another number of elements than one."""
    if not isinstance(value, Tensor):
        return float(value)
    if value.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element, not of shape {list(value.shape)}")
    return value.reshape(()) if value.requires_grad and is_grad_enabled() else float(value.item())


def square_root(value):
    """Of a Python number, or of a setting that wants a gradient."""
    return value.sqrt() if isinstance(value, Tensor) else math.sqrt(value)
