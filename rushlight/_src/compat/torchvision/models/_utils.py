"""Utilities for torchvision models: submodules by their results, and counts of channels."""
from rushlight import Tensor
from rushlight.nn import Module, ModuleDict


class IntermediateLayerGetter(ModuleDict):
    """The children of a module, in their order, up to the last whose result is wanted.

    ``return_layers``: {name of a child: name of its result}.  Calling it gives {name of the result: result}.
    ValueError for a name that no child has.

    >>> import rushlight as torch
    >>> from rushlight._src.compat.torchvision.models._utils import IntermediateLayerGetter
    >>> body = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 5))
    >>> parts = IntermediateLayerGetter(body, {"0": "low", "1": "high"})
    >>> list(parts), {name: tuple(x.shape) for name, x in parts(torch.zeros(2, 3)).items()}
    (['0', '1'], {'low': (2, 4), 'high': (2, 4)})
    """

    def __init__(self, model: Module, return_layers: dict[str, str]):
        children = dict(model.named_children())
        wanted = {str(name): str(result) for name, result in return_layers.items()}
        if not set(wanted) <= set(children):
            raise ValueError("return_layers are not present in model")
        names = list(children)
        last = max((names.index(name) for name in wanted), default=-1)
        super().__init__({name: children[name] for name in names[:last + 1]})
        self.return_layers = wanted

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        found = {}
        for name, child in self.items():
            x = child(x)
            if name in self.return_layers:
                found[self.return_layers[name]] = x
        return found


def _make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """Nearest multiple of ``divisor`` to a number of channels, at least nine tenths of it."""
    least = divisor if min_value is None else min_value
    found = max(least, int(v + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * v else found
