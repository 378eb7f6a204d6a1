"""Spectral norm by a hook before each forward: the older form, with parameter ``weight_orig`` and buffers ``weight_u``
and ``weight_v``."""
from __future__ import annotations

import rushlight as torch
from ..parameter import Parameter
from .hooked import Computed
from .singular import check_iterations, largest, matrix_of, output_dim, random_unit, unit


class SpectralNorm(Computed):
    """The hook: divides the weight by its largest singular value, which power iteration follows."""

    _version = 1
    name = property(lambda self: self._tensor_name)

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        check_iterations(n_power_iterations)
        self._tensor_name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def reshape_weight_to_matrix(self, weight):
        """The weight as a matrix whose rows are the outputs."""
        return matrix_of(weight, self.dim)

    def compute_weight(self, module, do_power_iteration):
        """The weight over its largest singular value, with the vectors one step further if asked."""
        weight, u, v = [getattr(module, self.name + ending) for ending in ("_orig", "_u", "_v")]
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with torch.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(unit(matrix.T @ u, self.eps))
                    u.copy_(unit(matrix @ v, self.eps))
            u, v = u.clone(), v.clone()  # the buffers move on before backward runs
        return weight / largest(matrix, u, v)

    def _value(self, module):
        return self.compute_weight(module, do_power_iteration=module.training)

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        """Puts the hook on a parameter and gives it.  ValueError for a parameter that is None."""
        SpectralNorm._require_none(module, name)
        hook, weight = SpectralNorm(name, n_power_iterations, dim, eps), module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        SpectralNorm._require_shape(weight)
        matrix = hook.reshape_weight_to_matrix(weight.detach())
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        object.__setattr__(module, name, weight.data)  # until the first forward, the weight as it was
        for ending, side in (("_u", 0), ("_v", 1)):
            module.register_buffer(name + ending, random_unit(matrix, side, eps))
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook

    def remove(self, module):
        """Divides the parameter for good."""
        for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
            for key in [key for key, hook in hooks.items() if isinstance(hook, VersionHook) and hook.norm is self]:
                del hooks[key]
        weight = self.compute_weight(module, do_power_iteration=False).detach()
        self._settle(module, ("_u", "_v", "_orig"), Parameter(weight))


class VersionHook:
    """A hook of state dicts for one SpectralNorm, whose version they note: {"weight.version": 1}."""

    def __init__(self, fn):
        self.norm, self.key = fn, f"{fn.name}.version"


class SpectralNormStateDictHook(VersionHook):
    """Notes the version in the metadata of a state dict."""

    def __call__(self, module, state_dict, prefix, local_metadata):
        known = local_metadata.setdefault("spectral_norm", {})
        if self.key in known:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {self.key} was noted before")
        known[self.key] = self.norm._version


class SpectralNormLoadStateDictPreHook(VersionHook):
    """Converts state dicts without a version, which have the computed weight and no ``weight_v``."""

    def __call__(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        if local_metadata.get("spectral_norm", {}).get(self.key) is not None:
            return
        key = prefix + self.norm.name
        if key not in state_dict and all(key + ending in state_dict for ending in ("_orig", "_u", "_v")):
            return
        absent = [key + ending for ending in ("_orig", "", "_u") if key + ending not in state_dict]
        if absent:
            missing_keys += absent if strict else []
            return
        with torch.no_grad():
            original, computed = state_dict[key + "_orig"], state_dict.pop(key)
            norm = (original / computed).mean()
            state_dict[key + "_v"] = find_right_vector(self.norm.reshape_weight_to_matrix(original),
                                                       state_dict[key + "_u"], norm)


def find_right_vector(matrix, u, norm):
    """Return ``v`` in the row space of a matrix with ``matrix @ v`` along ``u`` as far as possible, scaled so that
    ``u @ matrix @ v`` is ``norm``."""
    v = torch.linalg.pinv(matrix) @ u
    return v * (norm / torch.dot(u, matrix @ v))


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a parameter by its largest singular value, by a hook; ``parametrizations.spectral_norm`` is the newer
    form."""
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module, name="weight"):
    """Makes the parameter ordinary again.  ValueError where there is no spectral norm on it."""
    return SpectralNorm._detach(module, name, f"spectral_norm of '{name}' not found in {module}")
