"""Ten models that are packaged, with the sizes that may vary in each."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .cases import CASES, Case, clicks, dlrm, images, noised, text, translations, unet


class Packaged(NamedTuple):
    """``varying``: for each input the names of its dimensions that vary; ``batches``: most examples."""

    case: Case
    varying: tuple = ({0: "batch"},)
    batches: int = 16

    def dynamic_shapes(self, t, small=False):
        """What ``export`` takes."""
        dims = {"batch": t.export.Dim("batch", min=1, max=self.batches),
                "length": t.export.Dim("length", min=2, max=24 if small else 512)}
        return tuple({k: dims[name] for k, name in one.items()} for one in self.varying)

    def resized(self, arrays, **sizes):
        """Inputs, NumPy's arrays, whose dimensions of these names have other sizes."""
        made = []
        for x, names in zip(arrays, self.varying):
            for k, name in names.items():
                x = np.take(x, np.arange(sizes.get(name, x.shape[k])) % x.shape[k], axis=k)
            made.append(np.ascontiguousarray(x))
        return made


def lstm(module, small):
    return module.Scorer(101, 16) if small else module.Scorer()


def spoken(small):
    ids, _, hidden, cell = text(small)
    return [ids, hidden, cell]


def t5(module, small):
    return module.Encoder(101, 2, 32, 2, 16, 64) if small else module.Encoder()


def yolo(module, small):
    return module.YOLO(4, 5, (1, 1, 1, 1)) if small else module.YOLO()


TEXT = {0: "batch", 1: "length"}
PACKAGED = {
    "resnet50": Packaged(CASES["resnet50"]),
    "vit": Packaged(CASES["vit"]),
    "bert": Packaged(CASES["bert"], (TEXT, TEXT)),
    "gpt2-decode": Packaged(CASES["gpt2-decode"], ({}, {})),
    "unet": Packaged(Case("unet", unet, lambda small: noised(small)[:2]), ({0: "batch"}, {0: "batch"})),
    "lstm": Packaged(Case("lstm", lstm, spoken), ({1: "batch"}, {1: "batch"}, {1: "batch"}), 32),
    "convnext": Packaged(CASES["convnext"]),
    "dlrm": Packaged(Case("dlrm", dlrm, lambda small: clicks(small)[:2]), ({0: "batch"}, {1: "batch"}),
                     4096),
    "t5-encoder": Packaged(Case("t5", t5, lambda small: translations(small)[:1]), (TEXT,)),
    "yolo": Packaged(Case("yolo", yolo, images(1, 320, 64)))}
