"""Pruning: parameters with some entries held at 0."""
from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

import rushlight as torch
from .hooked import Computed

__all__ = ["BasePruningMethod", "PruningContainer", "Identity", "RandomUnstructured", "L1Unstructured",
           "RandomStructured", "LnStructured", "CustomFromMask", "identity",
           "random_unstructured", "l1_unstructured", "random_structured", "ln_structured", "global_unstructured",
           "custom_from_mask", "remove", "is_pruned"]


class BasePruningMethod(Computed, ABC):
    """A hook that multiplies a parameter by a mask before each forward; subclasses define ``compute_mask``."""

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask (ones where entries stay) for a tensor, on top of a mask that holds already."""

    def apply_mask(self, module):
        """The original parameter times the mask.  AssertionError before the method was applied to a module."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before its mask is requested")
        original = getattr(module, f"{self._tensor_name}_orig")
        return original * getattr(module, f"{self._tensor_name}_mask").to(original.dtype)

    _value = apply_mask

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes a parameter of a module by a method made of ``args``; where it is pruned already, among the entries
        that are left."""
        return cls(*args, **kwargs)._prune_parameter(module, name, importance_scores)

    def _prune_parameter(self, module, name, importance_scores=None):
        """Gives the hook: this method, or a container of those before and this one."""
        present, key = getattr(module, name), BasePruningMethod._key(module, name)
        scores = _scores_for(present, importance_scores)
        self._tensor_name = name
        if key is None:
            hook, mask = self, torch.ones_like(present.detach())
        else:
            before = module._forward_pre_hooks[key]
            hook = PruningContainer(*(before if isinstance(before, PruningContainer) else [before]), self)
            mask = getattr(module, f"{name}_mask").detach().clone()
        with torch.no_grad():
            mask = hook.compute_mask(scores, default_mask=mask)  # where this fails, the module is as it was
        if key is None:
            module.register_parameter(f"{name}_orig", module._parameters.pop(name))
        else:
            del module._forward_pre_hooks[key]
        module.register_buffer(f"{name}_mask", mask)
        hook._attach(module)
        return hook

    def prune(self, t, default_mask=None, importance_scores=None):
        """A pruned copy of a tensor."""
        mask = torch.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(_scores_for(t, importance_scores), default_mask=mask)

    def remove(self, module):
        """Makes the parameter ordinary again, with its zeros; it stays the same object."""
        parameter, value = getattr(module, f"{self._tensor_name}_orig", None), self.apply_mask(module)
        parameter.data = value.data
        self._settle(module, ("_orig", "_mask"), parameter)


def _scores_for(tensor, importance_scores):
    """Return the scores of entries: their values, or scores of the same shape (AssertionError)."""
    if importance_scores is None:
        return tensor
    if importance_scores.shape != tensor.shape:
        raise AssertionError(
            f"importance_scores have shape {tuple(importance_scores.shape)}, and what is pruned "
            f"{tuple(tensor.shape)}: each entry takes one score")
    return importance_scores


def _validate_pruning_amount_init(amount):
    """TypeError for what is no number, ValueError for a fraction outside of 0 to 1 and a negative count."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount!r} must be an int or a float")
    if amount < 0 or not isinstance(amount, numbers.Integral) and amount > 1:
        raise ValueError(f"amount={amount} must be a fraction from 0.0 to 1.0 or a count of at least 0")


def _validate_pruning_amount(amount, tensor_size):
    """ValueError for a count of more than there are."""
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(f"amount={amount} is more than the {tensor_size} that there are to prune")


def _compute_nparams_toprune(amount, tensor_size) -> int:
    """How many an amount is: a count, or a fraction of ``tensor_size``."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _dims_but(tensor, dim):
    """All dimensions of a tensor but one."""
    return [d for d in range(tensor.dim()) if d != dim % tensor.dim()]


class PruningContainer(BasePruningMethod):
    """Pruning methods of one parameter, one after the other."""

    def __init__(self, *methods):
        self._pruning_methods = ()
        self._tensor_name = next((method._tensor_name for method in methods if method is not None), None)
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """Adds a method (or None).  TypeError for something else, ValueError for a method of another parameter."""
        if method is not None:
            if not isinstance(method, BasePruningMethod):
                raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
            if method._tensor_name != self._tensor_name:
                raise ValueError(
                    f"{self} prunes the parameter named '{self._tensor_name}', and the method to add prunes "
                    f"'{method._tensor_name}'")
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, index):
        return self._pruning_methods[index]

    def compute_mask(self, t, default_mask):
        """The last method's mask among the entries that the others left."""
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        left = self._left(method, mask)
        mask[left] = method.compute_mask(t[left], default_mask=mask[left]).to(mask.dtype)
        return mask

    @staticmethod
    def _left(method, mask):
        """Return the index of what a method may still prune: entries, or slices with an unpruned entry, or all."""
        if method.PRUNING_TYPE == "unstructured":
            return mask == 1
        if method.PRUNING_TYPE == "structured":
            dim = method.dim % mask.dim()
            return (slice(None),) * dim + (mask.sum(_dims_but(mask, dim)) != 0,)
        if method.PRUNING_TYPE == "global":
            return (slice(None),) * mask.dim()
        raise ValueError(
            f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}: it must be 'unstructured', 'structured' or 'global'")


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        if self.mask.shape != default_mask.shape:
            raise AssertionError(
                f"the mask has shape {tuple(self.mask.shape)}, the parameter {tuple(default_mask.shape)}")
        return self.mask.to(default_mask.dtype) * default_mask


class ByScore(BasePruningMethod):
    """Prunes an amount (a fraction or a count) of entries or slices: those of the lowest score."""

    def __init__(self, amount):
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, size) -> int:
        """How many of ``size`` are pruned; ValueError for more than there are."""
        _validate_pruning_amount(self.amount, size)
        return _compute_nparams_toprune(self.amount, size)

    def _scores(self, t):
        raise NotImplementedError(f"{type(self).__name__} does not say what its scores are")


class Unstructured(ByScore):
    """Prunes single entries."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        lowest = torch.topk(self._scores(t).flatten(), self._count(t.numel()), largest=False).indices
        mask = default_mask.clone()
        mask.view(-1)[lowest] = 0
        return mask


class RandomUnstructured(Unstructured):
    """Prunes entries at random."""

    def _scores(self, t):
        return torch.rand(t.shape)


class L1Unstructured(Unstructured):
    """Prunes the entries nearest to 0."""

    def _scores(self, t):
        return t.abs()

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        return cls(amount)._prune_parameter(module, name, importance_scores)


class Structured(ByScore):
    """Prunes whole slices along ``dim``.  ValueError for vectors, IndexError for a dimension that is not there."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t, default_mask):
        if t.dim() < 2:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors, not to one of shape "
                f"{tuple(t.shape)}")
        if self.dim not in range(-t.dim(), t.dim()):
            raise IndexError(f"Invalid index {self.dim} for tensor of size {tuple(t.shape)}")
        size = t.size(self.dim)
        kept = torch.topk(self._scores(t), size - self._count(size)).indices
        return default_mask * torch.zeros_like(default_mask).index_fill(self.dim, kept, 1)


class RandomStructured(Structured):
    """Prunes slices at random."""

    def _scores(self, t):
        return torch.rand(t.size(self.dim))


class LnStructured(Structured):
    """Prunes the slices of smallest norm."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t):
        return torch.norm(t, p=self.n, dim=_dims_but(t, self.dim))

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        return cls(amount, n, dim)._prune_parameter(module, name, importance_scores)


def _pruned(module, name, method, importance_scores=None):
    method._prune_parameter(module, name, importance_scores)
    return module


def identity(module, name):
    """Gives a parameter a mask of ones."""
    return _pruned(module, name, Identity())


def custom_from_mask(module, name, mask):
    """Prunes by a mask: 1 where entries stay."""
    return _pruned(module, name, CustomFromMask(mask))


def random_unstructured(module, name, amount):
    """Prunes an amount (a fraction or a count) of a parameter's entries at random."""
    return _pruned(module, name, RandomUnstructured(amount))


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prunes the entries of smallest size (or importance)."""
    return _pruned(module, name, L1Unstructured(amount), importance_scores)


def random_structured(module, name, amount, dim):
    """Prunes slices along ``dim`` at random."""
    return _pruned(module, name, RandomStructured(amount, dim))


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prunes the slices along ``dim`` of smallest n-norm."""
    return _pruned(module, name, LnStructured(amount, n, dim), importance_scores)


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes several parameters, (module, name) pairs, as if they were one.  TypeError for a method that does not prune
    single entries."""
    if not isinstance(parameters, Iterable):
        raise TypeError(f"parameters must be an iterable of (module, name) pairs, not {type(parameters).__name__}")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError(f"importance_scores must be a dict of tensors by (module, name), not {type(scores).__name__}")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'parameters are pruned as one by a method of PRUNING_TYPE "unstructured", and {pruning_method.__name__} '
            f'is "{method.PRUNING_TYPE}"')
    places = [(module, name, getattr(module, name)) for module, name in parameters]
    whole = torch.cat([scores.get((module, name), tensor).detach().flatten() for module, name, tensor in places])
    masks = torch.cat([getattr(module, f"{name}_mask", torch.ones_like(tensor.detach())).flatten()
                       for module, name, tensor in places])
    parts = PruningContainer(method).compute_mask(whole, masks).split([tensor.numel() for *_, tensor in places])
    for (module, name, tensor), mask in zip(places, parts):
        custom_from_mask(module, name, mask.view_as(tensor))


def remove(module, name):
    """Makes pruning final: the parameter is ordinary again.  ValueError for one that is not pruned."""
    return BasePruningMethod._detach(module, name,
                                     f"Parameter '{name}' of module {module} has to be pruned before pruning can be "
                                     "removed")


def is_pruned(module) -> bool:
    """Whether a module or one within it has a pruned parameter."""
    hooks = [hook for part in module.modules() for hook in part._forward_pre_hooks.values()]
    return any([isinstance(hook, BasePruningMethod) for hook in hooks])
