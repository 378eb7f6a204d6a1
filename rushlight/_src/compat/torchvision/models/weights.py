"""Trained weights: this package has none and downloads nothing; load a file with ``load_state_dict``."""
from __future__ import annotations


class Weights:
    """Names of weights that torchvision would download: builders raise an error for them."""

    def __init__(self, model: str, name: str):
        self.model, self.name = model, name

    def __repr__(self):
        return f"{self.model}.{self.name}"


def weights_class(name: str, *versions: str):
    """Class with the names of a model's weights; the last one is the default."""
    made = {version: Weights(name, version) for version in versions or ("IMAGENET1K_V1",)}
    return type(name, (Weights,),
                {**made, "DEFAULT": list(made.values())[-1], "__doc__": "Names of weights that are not here."})


def check(weights, model: str):
    """NotImplementedError if a builder should start from trained weights."""
    if weights not in (None, False):
        raise NotImplementedError(
            f"{model}(weights={weights!r}): trained weights are not part of this torchvision substitute, and nothing "
            "is downloaded; "
            f"make the model with weights=None and load_state_dict(torch.load(file))")
