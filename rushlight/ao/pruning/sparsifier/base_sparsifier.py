"""Base class of sparsifiers: their tensors, masks, and state."""
from __future__ import annotations

import abc
import copy
from collections import defaultdict

from ...._src.autograd.mode import no_grad
from ...._src.flat import ones_like
from .... import nn
from ....nn.utils import parametrize
from .utils import FakeSparsity, get_arg_info_from_tensor_fqn, module_contains_param, module_to_fqn, swap_module

__all__ = ["BaseSparsifier"]

SUPPORTED_MODULES = {nn.Linear}
KEYS_NOT_IN_STATE_DICT = ["module", "module_fqn", "tensor_name"]


class BaseSparsifier(abc.ABC):
    """Masks tensors of a model.  Subclasses define ``update_mask(module, tensor_name, **config)``, which writes into
    ``module.parametrizations[tensor_name][0].mask``.

    ``defaults``: options of every tensor that gives no others.
    """

    def __init__(self, defaults=None):
        self.defaults = dict(defaults or {})
        self.state, self.groups, self.enable_mask_update = defaultdict(dict), [], True

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "groups": self.groups}

    def __setstate__(self, state):
        vars(self).update({"enable_mask_update": True, **state})

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for k, group in enumerate(self.groups):
            lines += [f"\tGroup {k}", f"\t    module: {group['module']}"]
            lines += [f"\t    {key}: {group[key]}" for key in sorted(group) if key != "module"]
        return "\n".join([*lines, ")"])

    def state_dict(self) -> dict:
        """The masks by tensor, and the options of each tensor."""
        masks = {g["tensor_fqn"]: {**self.state[g["tensor_fqn"]], "mask": self._mask(g)} for g in self.groups}
        return {"state": masks, "groups": [{k: v for k, v in g.items() if k not in KEYS_NOT_IN_STATE_DICT}
                                           for g in self.groups]}

    def _mask(self, group):
        found = getattr(group["module"], "parametrizations", {})
        return next((p.mask for p in found[group["tensor_name"]] if isinstance(p, FakeSparsity)), None) if (
            group["tensor_name"] in found) else None

    def load_state_dict(self, state_dict: dict, strict: bool = True):
        """Puts masks where they were.  RuntimeError for a tensor that the model does not have, if ``strict``."""
        state_dict, groups = copy.deepcopy(state_dict), []
        for group in state_dict["groups"]:
            info = get_arg_info_from_tensor_fqn(self.model, group["tensor_fqn"])
            if info["module"] is None:
                if strict:
                    raise RuntimeError(f"Error loading {group['tensor_fqn']} into the model")
                continue
            mask = state_dict["state"].get(group["tensor_fqn"], {}).pop("mask", None)
            module, name = info["module"], info["tensor_name"]
            if not module_contains_param(module, FakeSparsity):
                parametrize.register_parametrization(module, name, FakeSparsity(ones_like(getattr(module, name))))
            if mask is not None:
                module.parametrizations[name][0].mask = mask
            groups.append({**group, **info})
        self.__setstate__({"state": defaultdict(dict, state_dict["state"]), "groups": groups,
                           "defaults": self.defaults})

    def make_config_from_model(self, model, SUPPORTED_MODULES=SUPPORTED_MODULES):  # noqa: N803 - PyTorch's name
        """Lists the weights of every module of some classes, as ``config``."""
        self.config = [{"tensor_fqn": f"{module_to_fqn(model, module)}.weight".removeprefix(".")}
                       for module in model.modules() if type(module) in SUPPORTED_MODULES]

    def prepare(self, model, config=None):
        """Gives tensors masks of ones.  ``config``: dicts with ``tensor_fqn`` and options; None for the weights of all
        linear layers."""
        self.model, self.config = model, config
        if config is None:
            self.make_config_from_model(model)
        for entry in self.config:
            if not isinstance(entry, dict):
                raise AssertionError("config elements should be dicts not modules i.e.:[{`tensor_fqn`: "
                                     "`foo.bar.weight`}, ...]")
            info = get_arg_info_from_tensor_fqn(model, entry["tensor_fqn"])
            for key, value in info.items():
                if key in entry and entry[key] is not value and entry[key] != value:
                    raise AssertionError(f"Given both `{key}` and `tensor_fqn` in the config, it is expected them to "
                                         "agree!")
            self.groups.append({**self.defaults, **entry, **info})
        self._prepare()

    def _prepare(self, *args, **kwargs):
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            parametrization = group.get("parametrization", FakeSparsity)
            mask = group.get("mask", ones_like(getattr(module, name)))
            self.state[group["tensor_fqn"]]["mask"] = mask
            parametrize.register_parametrization(module, name, parametrization(mask))

    def squash_mask(self, params_to_keep=None, params_to_keep_per_layer=None, *args, **kwargs):
        """Writes zeros into the tensors and removes the masks.  Options in ``params_to_keep``, or by tensor, are kept
        in ``module.sparse_params``."""
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            parametrize.remove_parametrizations(module, name, leave_parametrized=True)
            kept = {k: group[k] for k in (*(params_to_keep or ()),
                                          *((params_to_keep_per_layer or {}).get(group["module_fqn"]) or ()))}
            if kept:
                module.sparse_params = {**getattr(module, "sparse_params", {}), **kept}

    def convert(self, module, mapping=None, inplace=False, parameterization=FakeSparsity):
        """The model with masked layers replaced, by class, by sparse ones.  NotImplementedError without a mapping."""
        if mapping is None:
            raise NotImplementedError("Need to auto generate mapping ")
        module = module if inplace else copy.deepcopy(module)
        for name, child in list(module.named_children()):
            masked = module_contains_param(child, parameterization)
            setattr(module, name, swap_module(child, mapping) if masked
                    else self.convert(child, mapping, True, parameterization))
        return module

    def step(self, use_path: bool = True):
        """Recompute the masks."""
        if not self.enable_mask_update:
            return
        with no_grad():
            for group in self.groups:
                self.update_mask(**group)

    @abc.abstractmethod
    def update_mask(self, module, tensor_name, **kwargs):
        """Writes the mask of one tensor."""
