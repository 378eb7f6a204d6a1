"""What it saves that weights are packed once: calls with copies that are kept beside calls that pack.

    python -m benchmarks.packed                      matmuls, convolutions, models; one thread, processor time
    python -m benchmarks.packed --models             models alone
"""
import argparse
import time

import rushlight as torch
from rushlight import nn
from rushlight._src.core.native.weights import kept

from .models.cases import CASES

PRODUCTS = [(rows, depth, columns) for rows in (32, 128, 512) for depth, columns in ((768, 768), (768, 3072),
                                                                                     (3072, 768))]
CONVOLUTIONS = [(64, 64, 56, 3), (256, 256, 14, 3), (512, 512, 7, 3), (2048, 512, 7, 1), (512, 2048, 7, 1)]
MODELS = {"resnet50": 1, "bert": 1, "vit": 1, "mobilenet": 1}


def compared(call, rounds=15):
    """Least milliseconds of a call in turns: (with copies that are kept, packing at each call)."""
    for _ in range(4):
        call()
    most, least = kept.most, [float("inf")] * 2
    for _ in range(rounds):
        for k, kept.most in enumerate((most, 0)):
            started = time.process_time()
            call()
            least[k] = min(least[k], time.process_time() - started)
    kept.most = most
    return [seconds * 1e3 for seconds in least]


def report(name, call):
    with_copies, without = compared(call)
    print(f"{name:48} {with_copies:9.3f} {without:9.3f} {with_copies / without:6.2f}", flush=True)


def layers():
    for dtype in (torch.float32, torch.bfloat16):
        for rows, depth, columns in PRODUCTS:
            x, w = torch.randn(rows, depth).to(dtype), torch.randn(columns, depth).to(dtype)
            report(f"{dtype} {rows} x {depth} x {columns}", lambda: nn.functional.linear(x, w))
        for channels, outputs, size, kernel in CONVOLUTIONS:
            w = torch.randn(outputs, channels, kernel, kernel).to(dtype)
            for name, form in (("", torch.contiguous_format), (" last", torch.channels_last)):
                x = torch.randn(1, channels, size, size).to(dtype, memory_format=form)
                report(f"{dtype} {channels} to {outputs} on {size}, {kernel} x {kernel}{name}",
                       lambda: nn.functional.conv2d(x, w, padding=kernel // 2))


def small_steps():
    """A step of an LSTM for 20 sequences, and two linear layers for few rows, compiled."""
    for dtype in (torch.float32, torch.bfloat16):
        lstm, x = nn.LSTM(650, 650, 2).to(dtype).eval(), torch.randn(1, 20, 650).to(dtype)
        report(f"a step of an LSTM, {dtype}", lambda: lstm(x))
        layers = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768)).to(dtype).eval()
        compiled = torch.compile(layers)
        for rows in (1, 8, 24, 64):
            x = torch.randn(rows, 768).to(dtype)
            report(f"two layers, {rows} rows, {dtype}", lambda: compiled(x))


def models():
    for name, batch in MODELS.items():
        case = CASES[name]
        model, inputs = case.model(torch), [x[:batch] for x in case.data(torch)[0]]
        for form, call in (("", model), (", compiled", torch.compile(model))):
            report(f"{name}, batch of {batch}{form}", lambda: call(*inputs))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        if not given.models:
            layers()
            small_steps()
        models()


if __name__ == "__main__":
    main()
