"""Compile the kernels of usual models in advance for this CPU, so that programs that use them start faster.  Kernels
depend on dtypes, strides and register tiles but not on sizes, so those of a small stack serve models of other depths
and sizes.

    python -m rushlight.tools.warm                       all kinds of model, in float32 and under autocast
    python -m rushlight.tools.warm decoder --float32     some of it
    python -m rushlight.tools.warm --choices             measures choices for the matmuls and convolutions that programs
                                                         have run on this host, 50 ms each

The results are in the cache on disk (``RUSHLIGHT_CACHE``); run it when a host or an image is set up.
"""
from __future__ import annotations

import argparse
import os
import time

import rushlight as torch
from rushlight._src.core import cache
from rushlight._src.devices.cpu.templates import learned

F, nn = torch.nn.functional, torch.nn


class Layer(nn.Module):
    """A transformer's layer: norms before attention and MLP, or after them."""

    def __init__(self, width: int, heads: int, causal: bool, approximate: str):
        super().__init__()
        self.heads, self.causal, self.approximate = heads, causal, approximate
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.joined, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        parts = [part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.joined(x).split(width, 2)]
        found = F.scaled_dot_product_attention(*parts, is_causal=self.causal)
        return self.out(found.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        if self.causal:
            x = x + self.attention(self.norm1(x))
            return x + self.narrow(F.gelu(self.wide(self.norm2(x)), approximate=self.approximate))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.narrow(F.gelu(self.wide(x), approximate=self.approximate)))


class Transformer(nn.Module):
    """Words in, numbers for each word out."""

    def __init__(self, causal: bool, width: int = 768, words: int = 1024):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
        self.layers = nn.Sequential(*(Layer(width, width // 64, causal, how)
                                      for how in ("none", "none", "tanh", "tanh")))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.layers(x))).flatten(0, 1)


class WithLoss(nn.Module):
    """A model and its loss, as one program."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x, wanted):
        return F.cross_entropy(self.body(x), wanted)


class Bottleneck(nn.Module):
    """A residual block of three convolutions."""

    def __init__(self, channels: int, inner: int, stride: int):
        super().__init__()
        out = 4 * inner
        self.body = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.shortcut(x) + self.body(x))


def residual():
    """A stem, two residual blocks and a classifier."""
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                         Bottleneck(64, 64, 1), Bottleneck(256, 128, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, 1000))


class Recurrent(nn.Module):
    """Two layers of LSTM over words."""

    def __init__(self):
        super().__init__()
        self.words, self.body = nn.Embedding(1024, 256), nn.LSTM(256, 256, 2)
        self.head = nn.Linear(256, 1024)

    def forward(self, ids):
        return self.head(self.body(self.words(ids))[0]).flatten(0, 1)


def words(batch: int, length: int, count: int = 1024):
    """Words of a text [batch, length], and those that are wanted [batch * length]."""
    ids = torch.randint(0, count, (batch, length))
    return ids, ids.flatten()


def images():
    """Images [4, 3, 128, 128], and their classes [4]."""
    return torch.randn(4, 3, 128, 128), torch.randint(0, 1000, (4,))


# what is built, and (inputs, classes that are wanted)
KINDS = {"decoder": (lambda: Transformer(True), lambda: words(4, 256)),
         "encoder": (lambda: Transformer(False), lambda: words(4, 128)),
         "convolution": (residual, images),
         "recurrent": (Recurrent, lambda: words(35, 20)),
         # few words: what is computed from their rows, which stay in caches, is computed again rather than kept
         "characters": (lambda: WithLoss(Transformer(True, 384, 65)), lambda: words(8, 256, 65))}


def train(model, forward, data, halves: bool):
    """A step of training with AdamW."""
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=halves):
        loss = forward(*data) if isinstance(model, WithLoss) else F.cross_entropy(forward(data[0]), data[1])
    loss.backward()
    optimizer.step()


def infer(model, forward, data, halves: bool):
    """A result without gradients."""
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=halves):
        forward(*data[:2 if isinstance(model, WithLoss) else 1])
    model.train()


def warm(kind: str, halves: bool):
    """Runs a kind of model, compiled and uncompiled, for training and for inference.

    Raises KeyError for a kind that is not in KINDS.
    """
    build, given = KINDS[kind]
    model, data = build(), given()
    for forward in (torch.compile(model), model):
        for run in (infer, train):
            run(model, forward, data, halves)


def objects() -> int:
    """How many pieces of machine code the cache has."""
    folder = cache.directory()
    return sum(len(names) for _, _, names in os.walk(os.path.join(folder, "object"))) if folder else 0


def main(arguments=None):
    """Compile the kernels, kind by kind, and print how many there are."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("kinds", nargs="*", metavar="kind", help=f"of {', '.join(KINDS)}; all where none is given")
    command.add_argument("--float32", action="store_true", help="without autocast")
    command.add_argument("--choices", action="store_true", help="measures choices instead, for what programs have met")
    options = command.parse_args(arguments)
    unknown = [kind for kind in options.kinds if kind not in KINDS]
    if unknown:
        command.error(f"there is no kind {unknown[0]!r} of model; there are {', '.join(KINDS)}")
    if cache.current() is None:
        command.error("the cache on disk is switched off, so nothing would be kept")
    if options.choices:
        for name, chosen in learned.learn_all():
            print(f"{name}: {chosen or 'as estimated'}", flush=True)
        return
    for kind in options.kinds or KINDS:
        for halves in (False, True)[:1 if options.float32 else 2]:
            began, before = time.perf_counter(), objects()
            warm(kind, halves)
            print(f"{kind}{', bfloat16' if halves else ''}: {objects() - before} kernels made in "
                  f"{time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
