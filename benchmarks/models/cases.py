"""The models that compiled code is measured and tested on: what to build, what to feed it, and the loss of a training
step."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import load


@dataclass(frozen=True)
class Case:
    """``build(module, small)`` makes a model of the module ``file``; ``inputs(small)`` gives its inputs and, after
    ``given`` of them, the targets.  ``loss(functional, output, *targets)`` is what a training step minimises, None for
    inference.  ``random``: whether a step draws random numbers, so that libraries differ."""

    file: str
    build: Callable
    inputs: Callable
    loss: Callable | None = None
    given: int | None = None
    random: bool = False

    def model(self, library, small=False):
        """The model for a library, in the mode that the case asks for."""
        made = self.build(load(self.file, library), small)
        return made.train(self.loss is not None)

    def data(self, library, small=False):
        """Inputs and targets, as tensors of a library."""
        values = [library.tensor(x) for x in self.inputs(small)]
        given = len(values) if self.given is None else self.given
        return values[:given], values[given:]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(below, *shape, seed=1):
    return np.random.default_rng(seed).integers(0, below, shape)


def returned(functional, output):
    """The model returns the loss."""
    return output


def classified(functional, output, targets):
    return functional.cross_entropy(output, targets)


def nanogpt(dropout):
    def build(module, small):
        return module.GPT(65, 16, 2, 2, 32, dropout) if small else module.GPT(65, 256, 6, 6, 384, dropout)

    return Case("gpt", build, lambda small: [whole(65, *((2, 16) if small else (8, 256)), seed=k) for k in (1, 2)],
                returned, random=dropout > 0)


SMALL_GPT2 = {"vocabulary": 101, "context": 32, "layers": 2, "heads": 2, "width": 32}


def gpt2(module, small):
    return module.GPT2(**SMALL_GPT2) if small else module.GPT2()


def decoder(module, small):
    return module.Decoder(**SMALL_GPT2) if small else module.Decoder(context=512)


def bert(module, small):
    return module.BERT(101, 32, 2, 2, 32) if small else module.BERT()


def sentences(small, targets):
    """Words, which of them count, and the words asked for (about one in seven)."""
    shape, words = ((2, 16), 101) if small else ((4, 128), 30522)
    attended = np.ones(shape, np.int64)
    attended[-1, shape[1] * 3 // 4:] = 0
    asked = np.where(whole(7, *shape, seed=3) == 0, whole(words, *shape, seed=2), -100)
    return [whole(words, *shape), attended, *([asked] if targets else [])]


def images(count, size=224, small=32):
    return lambda is_small: [numbers(2, 3, small, small) if is_small else numbers(count, 3, size, size)]


def labelled(count, size=224, small=32):
    given = images(count, size, small)
    return lambda is_small: [*given(is_small), whole(10, 2) if is_small else whole(1000, count)]


def resnet(blocks, bottleneck):
    return lambda module, small: module.ResNet((1, 1, 1, 1), bottleneck, 10,
                                               8) if small else module.ResNet(blocks, bottleneck)


def vit(module, small):
    return module.VisionTransformer(2, 32, 2, 32, 8, 10) if small else module.VisionTransformer()


def convnext(module, small):
    return module.ConvNeXt((1, 1, 2, 1), (8, 16, 24, 32), 10) if small else module.ConvNeXt()


def t5(module, small):
    return module.T5(101, 2, 32, 2, 16, 64) if small else module.T5()


def translations(small):
    return [whole(101, 2, 12), whole(101, 2, 7, seed=2)] if small else [whole(32128, 8, 128),
                                                                        whole(32128, 8, 64, seed=2)]


def lstm(module, small):
    return module.LanguageModel(101, 16) if small else module.LanguageModel()


def text(small):
    (length, batch), words, width = ((5, 3), 101, 16) if small else ((35, 20), 10000, 650)
    return [whole(words, length, batch), whole(words, length, batch, seed=2), numbers(2, batch, width) * 0.1,
            numbers(2, batch, width, seed=4) * 0.1]


def mobilenet(module, small):
    return module.MobileNetV3(module.LARGE[2:6], 32, 10) if small else module.MobileNetV3()


def dlrm(module, small):
    return module.DLRM(3, 50, 8, bottom=(16,), top=(16,)) if small else module.DLRM()


def clicks(small):
    batch, tables, rows = (6, 3, 50) if small else (2048, 26, 10000)
    return [numbers(batch, 13), whole(rows, tables, batch, 4), whole(2, batch, seed=2).astype(np.float32)]


def unet(module, small):
    return module.UNet(8, (1, 2), 1, (1,), 4) if small else module.UNet()


def noised(small):
    batch, size = (2, 8) if small else (8, 32)
    return [numbers(batch, 3, size, size), whole(1000, batch), numbers(batch, 3, size, size, seed=5)]


CASES = {
    "nanogpt": nanogpt(0.0),
    "nanogpt-dropout": nanogpt(0.2),
    "gpt2": Case("gpt2", gpt2, lambda small: [whole(101, 1, 24) if small else whole(50257, 1, 512)]),
    "gpt2-decode": Case("gpt2", decoder, lambda small: [whole(101, 1, 1) if small else whole(50257, 1, 1),
                                                        np.array([20 if small else 400])]),
    "bert": Case("bert", bert, lambda small: sentences(small, False)),
    "bert-train": Case("bert", bert, lambda small: sentences(small, True), returned),
    "resnet50": Case("resnet", resnet((3, 4, 6, 3), True), images(8)),
    "resnet18-train": Case("resnet", resnet((2, 2, 2, 2), False), labelled(8), classified, 1),
    "vit": Case("vit", vit, images(8)),
    "vit-train": Case("vit", vit, labelled(8), classified, 1),
    "convnext": Case("convnext", convnext, images(8)),
    "t5-train": Case("t5", t5, translations, returned),
    "lstm-train": Case("lstm", lstm, text, lambda functional, output: output[0]),
    "mobilenet": Case("mobilenet", mobilenet, images(8)),
    "dlrm-train": Case("dlrm", dlrm, clicks,
                       lambda functional, output, targets: functional.binary_cross_entropy_with_logits(output, targets),
                       2),
    "unet-train": Case("unet", unet, noised, lambda functional, output, targets: functional.mse_loss(output, targets),
                       2),
}
