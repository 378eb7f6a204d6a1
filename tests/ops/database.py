"""PyTorch's database of operators: its entries, and their samples as our tensors."""
import functools
import itertools

import numpy as np
import pytest

import rushlight as rl
from rushlight._src.core.settings import settings

from ..drawing import without_test_cases

torch = pytest.importorskip("torch")
without_test_cases()

LOOKED_AT, MOST = 40, 120  # samples of an entry that are considered; elements that one may have
SPELLED = {  # entries whose samples come in another order than the arguments of the function that users call
    "__getitem__": lambda x, index: x[index],
    "einsum": lambda operands, equation: rl.einsum(equation, operands),
    "polygamma": lambda x, n, **how: rl.polygamma(n, x, **how),
    "special.polygamma": lambda x, n, **how: rl.special.polygamma(n, x, **how),
    "zero_": lambda x: x.clone().zero_(),
    "where": lambda x, condition, other, **how: rl.where(condition, x, other, **how),
    "nn.functional.embedding": lambda weight, index, **how: rl.nn.functional.embedding(index, weight, **how),
}


@pytest.fixture(autouse=True)
def by_meaning():
    """Run programs by their NumPy reference implementation, in every file that imports this."""
    with settings.set(kernels=False, store=False):
        yield


class Entry:
    """An operator of the database as ours, with the sample that stands for it."""

    def __init__(self, info):
        self.info, self.call = info, function(info.name)

    @functools.cached_property
    def sample(self):
        """(positional arguments, keywords) with floating tensors in float64 that want gradients, or None where a sample
        has no counterpart."""
        torch.manual_seed(0)
        found = list(itertools.islice(self.info.sample_inputs("cpu", torch.float64,
                                                              requires_grad=self.info.supports_autograd), LOOKED_AT))
        fitting = [s for s in found if 0 < elements((s.input, s.args, s.kwargs)) <= MOST]
        if not fitting:
            return None
        chosen = fitting[len(fitting) // 2]
        try:
            return ours([chosen.input, *chosen.args]), ours(chosen.kwargs)
        except NotImplementedError:
            return None

    def function(self):
        """(function of the tensors that want gradients, those tensors); it returns its floating results as a tuple."""
        arguments = self.sample
        places = [path for path, x in tensors(arguments) if x.requires_grad]
        values = [x.detach() for _, x in tensors(arguments) if x.requires_grad]

        def run(*given):
            args, kwargs = filled(arguments, dict(zip(places, given)))
            return tuple(y for _, y in tensors(self.symmetric(*args, **kwargs)) if y.is_floating_point())

        return run, values

    def symmetric(self, *args, **kwargs):
        """The call; what reads one triangle of a matrix is given a matrix that this triangle tells."""
        if self.info.name.startswith("masked."):  # whose wrapper hides what is undefined, by functions of PyTorch
            return self.call(*args, **kwargs)
        return self.info.gradcheck_wrapper(self.call, *args, **kwargs)


def title(info):
    """The name of an entry and of its variant."""
    return f"{info.name}.{info.variant_test_name}".rstrip(".")


def function(name):
    """Our operator of that name: a function where users find it, or a method."""
    if name in SPELLED:
        return SPELLED[name]
    place = rl
    for part in name.split("."):
        place = getattr(place, part, None)
    if callable(place):
        return place
    method = getattr(rl.Tensor, name, None)
    return method if callable(method) else None


def elements(value):
    if isinstance(value, torch.Tensor):
        return value.numel()
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return sum(map(elements, inner))


def ours(value):
    """What PyTorch's samples hold, as ours."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise NotImplementedError
        made = rl.from_numpy(value.detach().resolve_conj().resolve_neg().numpy().copy())
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(rl, str(value).split(".")[-1])
    if isinstance(value, dict):
        return {k: ours(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [ours(v) for v in value] if isinstance(value, list) else tuple(ours(v) for v in value)
    if type(value).__module__.startswith("torch") or callable(value):
        raise NotImplementedError
    return value


def tensors(value, path=()):
    """(path, tensor) of each tensor among nested values."""
    if isinstance(value, rl.Tensor):
        yield path, value
    elif isinstance(value, (list, tuple, dict)):
        for k, v in value.items() if isinstance(value, dict) else enumerate(value):
            yield from tensors(v, (*path, k))


def filled(value, given, path=()):
    """The nested values with other tensors at some paths."""
    if path in given:
        return given[path]
    if isinstance(value, dict):
        return {k: filled(v, given, (*path, k)) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        made = [filled(v, given, (*path, k)) for k, v in enumerate(value)]
        return made if isinstance(value, list) else tuple(made)
    return value


def draw(x, generator):
    return rl.from_numpy(np.asarray(generator.standard_normal(tuple(x.shape))))
