"""Module: a tree of parameters, buffers and submodules with a forward function."""
from __future__ import annotations

import functools
import itertools
from collections import OrderedDict

from ..._src import flat as torch
from ..._src.autograd.mode import no_grad
from ..._src.core.advice import deprecated
from ..._src.core.convert import unrecorded
from ..._src.core.dtypes import BY_NAME, dtype as dtype_class
from ..._src.core.epoch import Epoch, changed
from ..._src.core.native import Tensor
from ..parameter import Buffer, Parameter, is_lazy
from .hooks import (FULL, NAMES, OPTIONS, RemovableHandle, as_arguments, call_silently,
                    register_module_backward_hook, register_module_buffer_registration_hook,
                    register_module_forward_hook, register_module_forward_pre_hook, register_module_full_backward_hook,
                    register_module_full_backward_pre_hook, register_module_module_registration_hook,
                    register_module_parameter_registration_hook, registered)
from .state import BoundHook, _IncompatibleKeys, convert_parameter, load, load_tensor


def _unimplemented(self, *inputs):
    """Defines the computation; every subclass has one."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


DICTS = ("_parameters", "_buffers", "_modules", "_backward_pre_hooks", "_backward_hooks", "_forward_hooks",
         "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
         "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
         "_load_state_dict_post_hooks")

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"  # the last part of a key of ``state_dict`` that is no tensor


globals().update({name: OrderedDict() for name in (*NAMES.values(), *OPTIONS.values())}, **{FULL: None})  # see hooks.py


def place_and_dtype(*args, **kwargs):
    """The device and the dtype, each None if not given, among the arguments of ``to``."""
    dtype = kwargs.get("dtype", next((a.dtype if isinstance(a, Tensor) else a for a in args
                                      if isinstance(a, (dtype_class, Tensor))), None))
    device = kwargs.get("device", next((a for a in args if not isinstance(a, (dtype_class, Tensor, bool))
                                        and a is not None), None))
    return device, dtype


class Module:
    """The base of all networks: assign Parameters and Modules as attributes, and define ``forward``."""

    dump_patches = False
    _version = 1
    training: bool
    call_super_init = False
    _compiled_call_impl = None

    def __init__(self, *args, **kwargs):
        if not self.call_super_init and (args or kwargs):
            bad = next(iter(kwargs)) if kwargs else None
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{bad}'" if bad else
                            f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were "
                            "given")
        put = object.__setattr__
        put(self, "training", True)
        for name in DICTS:
            put(self, name, OrderedDict() if "hooks" in name else {})
        put(self, "_non_persistent_buffers_set", set())
        put(self, "_is_full_backward_hook", None)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _unimplemented

    # --- attributes ---------------------------------------------------------------------------------------------------
    def register_parameter(self, name, param):
        """Adds a parameter under a name (None reserves the name)."""
        self._rush_check_name(name, "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (torch.nn.Parameter or None "
                "required)")
        if param is not None and param._rush_grad_node is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly.")
        changed(self)
        self._parameters[name] = registered("parameter", self, name, param)

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is state but not a parameter."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._rush_check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (torch Tensor or None required)")
        changed(self)
        self._buffers[name] = registered("buffer", self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name, module):
        """Adds a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._rush_check_name(name, "module", self._modules)
        changed(self)
        self._modules[name] = registered("module", self, name, module)

    register_module = add_module

    def _rush_check_name(self, name, what, own=None):
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        own = self._parameters if own is None else own
        if hasattr(self, name) and name not in own:
            raise KeyError(f"attribute '{name}' already exists")

    def __getattr__(self, name):
        for place in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(place)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        changed(self)
        places = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in places:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._rush_forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif "_parameters" in places and name in places["_parameters"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as parameter '{name}' (torch.nn.Parameter or None "
                    "expected)")
            self._parameters[name] = None
        elif isinstance(value, Module):
            if "_modules" not in places:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._rush_forget(name, "_parameters", "_buffers")
            places["_modules"][name] = registered("module", self, name, value)
        elif "_modules" in places and name in places["_modules"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as child module '{name}' (torch.nn.Module or None "
                    "expected)")
            places["_modules"][name] = None
        elif isinstance(value, Buffer):
            self._rush_forget(name, "_parameters", "_modules")
            self.register_buffer(name, value, value.persistent)
        elif "_buffers" in places and name in places["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or "
                    "None expected)")
            places["_buffers"][name] = registered("buffer", self, name, value)
        else:
            object.__setattr__(self, name, value)

    def _rush_forget(self, name, *others):
        for place in others:
            self.__dict__.get(place, {}).pop(name, None)
        if name in self.__dict__:
            del self.__dict__[name]

    def __delattr__(self, name):
        changed(self)
        for place in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(place, ()):
                del self.__dict__[place][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self):
        names = itertools.chain(dir(type(self)), self.__dict__, self._parameters, self._modules, self._buffers)
        return sorted({n for n in names if not n[0].isdigit()})

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in DICTS:
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_compiled_call_impl"}

    # --- calling ------------------------------------------------------------------------------------------------------
    def __call__(self, *args, **kwargs):
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        if not (self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
                or _global_forward_hooks or _global_forward_pre_hooks or _global_backward_hooks
                or _global_backward_pre_hooks):  # by their names, which users fill and assign
            return self.forward(*args, **kwargs) if kwargs else self.forward(*args)  # no dict is made of no names
        return self._rush_call_with_hooks(args, kwargs)

    def _rush_call_with_hooks(self, args, kwargs):
        called, result = set(), None
        try:
            for hook in list(_global_forward_pre_hooks.values()):  # by their names, which captured calls follow
                args = as_arguments(hook(self, args), args)
            args, kwargs = self._rush_before_forward(args, kwargs)
            watched = self._rush_watch_backward()
            args = watched.inputs(args) if watched else args
            result = self.forward(*args, **kwargs)
            for key, hook, with_kwargs, _ in self._rush_after_forward():
                called.add(key)
                changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                result = result if changed is None else changed
            return watched.outputs(result) if watched else result
        except Exception:
            for key, hook, with_kwargs, always in self._rush_after_forward():
                if always and key not in called:
                    call_silently(self, hook, (args, kwargs, result) if with_kwargs else (args, result))
            raise

    def _rush_before_forward(self, args, kwargs):
        """The arguments after the module's own pre-hooks."""
        for key, hook in list(self._forward_pre_hooks.items()):
            if key not in self._forward_pre_hooks_with_kwargs:
                args = as_arguments(hook(self, args), args)
                continue
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
                args, kwargs = changed
        return args, kwargs

    def _rush_after_forward(self):
        """(id, hook, whether it takes keywords, whether it is called after errors too) of all modules' hooks, then of
        the module's own."""
        with_kwargs, always = _global_forward_hooks_with_kwargs, _global_forward_hooks_always_called
        return [(k, h, k in with_kwargs, k in always) for k, h in _global_forward_hooks.items()] + [
            (k, h, k in self._forward_hooks_with_kwargs, k in self._forward_hooks_always_called)
            for k, h in self._forward_hooks.items()]

    def _rush_watch_backward(self):
        hooks = [] if _global_is_full_backward_hook is None else list(_global_backward_hooks.values())
        hooks += self._backward_hooks.values()
        pre_hooks = list(_global_backward_pre_hooks.values()) + list(self._backward_pre_hooks.values())
        if not hooks and not pre_hooks:
            return None
        from .backward_hooks import Watch
        return Watch(self, hooks, pre_hooks)

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Calls ``hook(module, args)`` before forward; what it returns replaces the arguments."""
        handle = RemovableHandle(self._forward_pre_hooks, hook, self._forward_pre_hooks_with_kwargs, prepend=prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Calls ``hook(module, args, output)`` after forward; what it returns replaces the output."""
        handle = RemovableHandle(self._forward_hooks, hook, self._forward_hooks_with_kwargs,
                                 self._forward_hooks_always_called, prepend=prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_hook(self, hook, prepend=False):
        """Calls ``hook(module, grad_input, grad_output)`` once the gradients of the inputs are known; what it returns
        replaces them."""
        return self._rush_register_backward_hook(hook, True, prepend)

    def register_backward_hook(self, hook):
        """``register_full_backward_hook`` by its old name; RuntimeError where a module has hooks by both names."""
        return self._rush_register_backward_hook(hook, False)

    def _rush_register_backward_hook(self, hook, full, prepend=False):
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module: register all by "
                "register_full_backward_hook.")
        if not full:
            deprecated("register_backward_hook", "register_full_backward_hook", FutureWarning)
        self._is_full_backward_hook = full
        return RemovableHandle(self._backward_hooks, hook, prepend=prepend)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Calls ``hook(module, grad_output)`` before the module's backward."""
        return RemovableHandle(self._backward_pre_hooks, hook, prepend=prepend)

    def register_state_dict_pre_hook(self, hook):
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """Calls ``hook(module, state_dict, prefix, local_metadata)`` once ``state_dict`` is filled, which it may change
        in place."""
        handle = RemovableHandle(self._state_dict_hooks, hook)
        hook._from_public_api = True
        return handle

    def _register_state_dict_hook(self, hook):
        """A hook whose answer replaces the state."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook")
        return RemovableHandle(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook):
        return RemovableHandle(self._load_state_dict_pre_hooks, BoundHook(hook, self))

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return RemovableHandle(self._load_state_dict_pre_hooks, BoundHook(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook):
        return RemovableHandle(self._load_state_dict_post_hooks, hook)

    # --- the tree -----------------------------------------------------------------------------------------------------
    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """(name, module) of this module and all below."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    def modules(self):
        return (m for _, m in self.named_modules())

    def named_children(self):
        """(name, module) of the direct submodules."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        return (m for _, m in self.named_children())

    def _named_members(self, members, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for place, module in modules:
            for name, value in members(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield place + ("." if place else "") + name, value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(name, parameter) of this module and all below."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """(name, buffer) of this module and all below."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target):
        """The submodule at a dotted name."""
        module = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{module._get_name()} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Puts a module at a dotted name."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent, _, name = target.rpartition(".")
        owner = self.get_submodule(parent)
        if strict and not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
        setattr(owner, name, module)

    def get_parameter(self, target):
        """The parameter at a dotted name.  AttributeError where there is none."""
        return self._rush_entry(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target):
        """The buffer at a dotted name.  AttributeError where there is none."""
        return self._rush_entry(target, "_buffers", "a buffer")

    def _rush_entry(self, target, table, kind):
        place, _, name = target.rpartition(".")
        module = self.get_submodule(place)
        if name in getattr(module, table):
            return getattr(module, table)[name]
        raise AttributeError(f"`{name}` is not {kind}" if hasattr(module, name)
                             else f"{module._get_name()} has no attribute `{name}`")

    def apply(self, fn):
        """Calls ``fn`` on every submodule and on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode=True):
        """Sets training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Drops (or zeroes) the gradients of all parameters."""
        for p in self.parameters():
            if p.grad is not None:
                if set_to_none:
                    p.grad = None
                else:
                    unrecorded(p.grad).zero_()

    # --- conversion ---------------------------------------------------------------------------------------------------
    def _apply(self, fn, recurse=True):
        """Replaces the data of every parameter and buffer by ``fn`` of it."""
        Epoch.value += 1
        if recurse:
            for module in self.children():
                module._apply(fn)
        for key, parameter in list(self._parameters.items()):
            if parameter is not None:
                convert_parameter(self, key, parameter, fn)
        for key, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[key] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Moves and casts parameters and buffers (integers keep their dtype); ``memory_format`` is that of 4-D or 5-D
        ones."""
        device, dtype = place_and_dtype(*args, **kwargs)
        form, hurry = kwargs.get("memory_format"), bool(kwargs.get("non_blocking", False))
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")

        def convert(t):
            own = dtype if t.is_floating_point() or t.is_complex() else None
            lying = {"memory_format": form} if form is not None and t.dim() in (4, 5) else {}
            return t.to(device=device, dtype=own, non_blocking=hurry, **lying)

        return self._apply(convert)

    def _rush_cast(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def type(self, dst_type):
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        return self._rush_cast(BY_NAME["float32"])

    def double(self):
        return self._rush_cast(BY_NAME["float64"])

    def half(self):
        return self._rush_cast(BY_NAME["float16"])

    def bfloat16(self):
        return self._rush_cast(BY_NAME["bfloat16"])

    def cpu(self):
        return self._apply(lambda t: t.cpu())

    def cuda(self, device=None):
        return self._apply(lambda t: t.cuda(device))

    def share_memory(self):
        """Moves the memory of parameters and buffers to where child processes see it, too."""
        return self._apply(lambda t: t.share_memory_())

    def to_empty(self, *, device, recurse=True):
        """Parameters and buffers on another device, contents undefined."""
        return self._apply(lambda t: torch.empty_like(t, device=device), recurse)

    # --- state --------------------------------------------------------------------------------------------------------
    def get_extra_state(self):
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state):
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, value in itertools.chain(self._parameters.items(),
                                           ((k, b) for k, b in self._buffers.items()
                                            if k not in self._non_persistent_buffers_set)):
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach() if not is_lazy(value) else value
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """All parameters and persistent buffers by dotted name."""
        if args:
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, local)
            if changed is not None and getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None: it may change the state in place")
            destination = destination if changed is None else changed
        return destination

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        persistent = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, own in itertools.chain(self._parameters.items(), persistent.items()):
            key = prefix + name
            if own is not None and key in state_dict:
                load_tensor(self, name, own, key, state_dict[key], assign, error_msgs)
            elif own is not None and strict:
                missing_keys.append(key)
        extra = prefix + "_extra_state"
        takes_extra = type(self).set_extra_state is not Module.set_extra_state
        if takes_extra and extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif takes_extra and strict:
            missing_keys.append(extra)
        if strict:
            tensors = {**self._parameters, **persistent}
            for key in state_dict:
                if key.startswith(prefix) and not (takes_extra and key == extra):
                    first, dot, _ = key[len(prefix):].partition(".")
                    if first not in (self._modules if dot else tensors):
                        unexpected_keys.append(key)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies (or with ``assign`` takes over) tensors by name; RuntimeError lists what does not fit when strict."""
        return load(self, state_dict, strict, assign)

    # --- printing -----------------------------------------------------------------------------------------------------
    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What ``repr`` shows between the parentheses."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = ["(" + key + "): " + repr(module).replace("\n", "\n  ") for key, module in self._modules.items()]
        text = self._get_name() + "("
        if lines + children:
            if len(lines) == 1 and not children:
                text += lines[0]
            else:
                text += "\n  " + "\n  ".join(lines + children) + "\n"
        return text + ")"
