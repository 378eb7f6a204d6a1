"""Attention beside torch's, taken in turns in one process: milliseconds and ratios, below 1 where ours is faster.

    python benchmarks/attention.py [sdpa] [decode] [flex] [window]

OMP_NUM_THREADS (2 unless set) threads each. torch computes FlexAttention on the CPU only under torch.compile and forward; ours is compared with our
own scaled_dot_product_attention.
"""
import math
import os
import statistics
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import torch
import torch.nn.functional as TF

import rushlight
import rushlight.nn.functional as F
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention

SHAPES = [(4, 12, 1024, 64), (8, 6, 256, 64), (1, 16, 2048, 128), (16, 12, 197, 64), (4, 8, 512, 32)]


def interleaved(calls, budget=1.5):
    """Median seconds of each call, taken in turn."""
    times = [[] for _ in calls]
    for call in calls:
        call()
    started = time.perf_counter()
    while len(times[0]) < 5 or time.perf_counter() - started < budget:
        for call, taken in zip(calls, times):
            t = time.perf_counter()
            call()
            taken.append(time.perf_counter() - t)
    return [statistics.median(t) for t in times]


def tensors(library, dtype, shapes, recorded=False):
    rng = np.random.default_rng(0)
    made = [library.from_numpy(rng.standard_normal(s).astype(np.float32)).to(getattr(library, dtype)) for s in shapes]
    return [x.requires_grad_() for x in made] if recorded else made


def report(name, ours, theirs, ratios):
    ratios.append(ours / theirs)
    print(f"{name:58} {ours * 1e3:9.2f} ms  torch {theirs * 1e3:9.2f} ms  ratio {ours / theirs:.2f}", flush=True)


def both_ways(call, given):
    """A call that computes the result and the gradients."""
    def run():
        call(*given).sum().backward()
        for x in given:
            x.grad = None
    return run


def sdpa(ratios):
    for dtype in ("float32", "bfloat16"):
        for b, h, s, d in SHAPES:
            for causal in (False, True):
                for train in (False, True):
                    pair = []
                    for library, functional in ((rushlight, F), (torch, TF)):
                        given = tensors(library, dtype, [(b, h, s, d)] * 3, train)
                        call = lambda *x, f=functional: f.scaled_dot_product_attention(*x, is_causal=causal)
                        pair.append(both_ways(call, given) if train else lambda call=call, given=given: call(*given))
                    name = f"{dtype} {b}x{h}x{s}x{d}{' causal' if causal else ''}{' and gradients' if train else ''}"
                    report(name, *interleaved(pair), ratios)


def decode(ratios):
    for dtype in ("float32", "bfloat16"):
        for b, h, d in ((1, 12, 64), (4, 32, 128)):
            shapes = [(b, h, 1, d), (b, h, 4096, d), (b, h, 4096, d)]
            pair = [lambda x=tensors(library, dtype, shapes), f=f: f.scaled_dot_product_attention(*x) for library, f in ((rushlight, F), (torch, TF))]
            report(f"{dtype} decode {b}x{h}x{d}, 4096 keys", *interleaved(pair), ratios)


def flex(ratios):
    b, h, s, d = 4, 12, 1024, 64
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, s, s)
    for dtype in ("float32", "bfloat16"):
        for train in (False, True):
            given = tensors(rushlight, dtype, [(b, h, s, d)] * 3, train)
            calls = [lambda *x: flex_attention(*x, block_mask=mask), lambda *x: F.scaled_dot_product_attention(*x, is_causal=True)]
            pair = [both_ways(c, given) if train else lambda c=c: c(*given) for c in calls]
            ours, plain = interleaved(pair)
            print(f"{dtype} flex causal{' and gradients' if train else '':15} {ours * 1e3:9.2f} ms, our sdpa {plain * 1e3:9.2f} ms, ratio {ours / plain:.2f}", flush=True)


def window(ratios):
    s, width = 8192, 256
    shape = (1, 8, s, 64)
    mask = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < width), None, None, s, s)
    given, theirs = tensors(rushlight, "float32", [shape] * 3), tensors(torch, "float32", [shape] * 3)
    at = torch.arange(s)
    dense = (at[:, None] >= at) & (at[:, None] - at < width)
    ours, reference = interleaved([lambda: flex_attention(*given, block_mask=mask), lambda: TF.scaled_dot_product_attention(*theirs, attn_mask=dense)], 3)
    print(f"sliding window {width} of {s}: {ours * 1e3:.1f} ms, torch's masked sdpa {reference * 1e3:.1f} ms, {reference / ours:.1f} times faster", flush=True)


def main():
    chosen, ratios = sys.argv[1:] or ["sdpa", "decode", "flex", "window"], []
    for name in chosen:
        {"sdpa": sdpa, "decode": decode, "flex": flex, "window": window}[name](ratios)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{len(ratios)} cases beside torch: geometric mean {mean:.2f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
