"""Attention beside torch's, taken in turns in one process: milliseconds and ratios, below 1 where ours is faster.

    python -m benchmarks.attention [sdpa] [decode] [flex] [window] [dropout] [nested] [encoder] [--write]

OMP_NUM_THREADS (2 unless set) threads each. torch computes FlexAttention on the CPU only under torch.compile and
forward; ours is compared with our own scaled_dot_product_attention.
"""
import math
import os
import statistics
import time

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import torch
import torch.nn.functional as TF

import rushlight
import rushlight.nn.functional as F
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention

from .results import keep, parser

SHAPES = [(4, 12, 1024, 64), (8, 6, 256, 64), (1, 16, 2048, 128), (16, 12, 197, 64), (4, 8, 512, 32)]


def interleaved(calls, budget=1.5):
    """Median seconds of each call, taken in turn; processor seconds with one thread, which a busy machine disturbs
    least."""
    clock = time.process_time if os.environ["OMP_NUM_THREADS"] == "1" else time.perf_counter
    times = [[] for _ in calls]
    for call in calls:
        call()
    started = time.perf_counter()
    while len(times[0]) < 5 or time.perf_counter() - started < budget:
        for call, taken in zip(calls, times):
            t = clock()
            call()
            taken.append(clock() - t)
    return [statistics.median(t) for t in times]


def tensors(library, dtype, shapes, recorded=False):
    rng = np.random.default_rng(0)
    made = [library.from_numpy(rng.standard_normal(s).astype(np.float32)).to(getattr(library, dtype)) for s in shapes]
    return [x.requires_grad_() for x in made] if recorded else made


def report(name, ours, theirs, ratios):
    ratios[name] = round(ours / theirs, 3)
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
            pair = [lambda x=tensors(library, dtype, shapes), f=f: f.scaled_dot_product_attention(*x)
                    for library, f in ((rushlight, F), (torch, TF))]
            report(f"{dtype} decode {b}x{h}x{d}, 4096 keys", *interleaved(pair), ratios)


def flex(ratios):
    b, h, s, d = 4, 12, 1024, 64
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, s, s)
    for dtype in ("float32", "bfloat16"):
        for train in (False, True):
            given = tensors(rushlight, dtype, [(b, h, s, d)] * 3, train)
            calls = [lambda *x: flex_attention(*x, block_mask=mask),
                     lambda *x: F.scaled_dot_product_attention(*x, is_causal=True)]
            pair = [both_ways(c, given) if train else lambda c=c: c(*given) for c in calls]
            ours, plain = interleaved(pair)
            print(f"{dtype} flex causal{' and gradients' if train else '':15} {ours * 1e3:9.2f} ms, our sdpa "
                  f"{plain * 1e3:9.2f} ms, ratio {ours / plain:.2f}", flush=True)


def window(ratios):
    s, width = 8192, 256
    shape = (1, 8, s, 64)
    mask = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < width), None, None, s, s)
    given, theirs = tensors(rushlight, "float32", [shape] * 3), tensors(torch, "float32", [shape] * 3)
    at = torch.arange(s)
    dense = (at[:, None] >= at) & (at[:, None] - at < width)
    ours, reference = interleaved([lambda: flex_attention(*given, block_mask=mask),
                                   lambda: TF.scaled_dot_product_attention(*theirs, attn_mask=dense)], 3)
    print(f"sliding window {width} of {s}: {ours * 1e3:.1f} ms, torch's masked sdpa {reference * 1e3:.1f} ms, "
          f"{reference / ours:.1f} times faster", flush=True)


def dropout(ratios):
    for dtype in ("float32", "bfloat16"):
        pair = []
        for library, functional in ((rushlight, F), (torch, TF)):
            given = tensors(library, dtype, [(4, 12, 512, 64)] * 3, True)
            pair.append(both_ways(lambda *x, f=functional: f.scaled_dot_product_attention(*x, dropout_p=0.1), given))
        ours, theirs = interleaved(pair)
        print(f"{dtype} 4x12x512x64 with dropout and gradients: {ours * 1e3:.1f} ms, torch {theirs * 1e3:.1f} ms, "
              f"ratio {ours / theirs:.2f}", flush=True)


def lengths(count, most):
    """So many lengths, half of ``most`` on average."""
    found = np.random.default_rng(0).integers(1, most, count)
    found[0] = most
    return np.maximum(1, (found * (count * most / 2 / found.sum())).astype(int)).clip(max=most)


def nested(ratios):
    each = lengths(16, 1024)
    for dtype in ("float32", "bfloat16"):
        pair = []
        for library, functional in ((rushlight, F), (torch, TF)):
            rows = tensors(library, dtype, [(int(each.sum()), 12 * 64)] * 3)
            starts = library.from_numpy(np.concatenate([[0], np.cumsum(each)]))
            given = [library.nested.nested_tensor_from_jagged(x, starts).unflatten(-1, (12, 64)).transpose(1, 2)
                     for x in rows]
            pair.append(lambda given=given, f=functional: f.scaled_dot_product_attention(*given))
        ours, theirs = interleaved(pair)
        print(f"{dtype} 16 examples of up to 1024, nested: {ours * 1e3:.1f} ms, torch {theirs * 1e3:.1f} ms, ratio "
              f"{ours / theirs:.2f}", flush=True)


def encoder(ratios):
    """Three layers in inference, half of all places padding."""
    batch, most, size = 8, 256, 512
    models = [lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(size, 8, 2048, batch_first=True), 3).eval()
              for lib in (rushlight, torch)]
    models[0].load_state_dict({name: rushlight.from_numpy(value.numpy())
                               for name, value in models[1].state_dict().items()})
    x = np.random.default_rng(0).standard_normal((batch, most, size)).astype(np.float32)
    padding = np.arange(most) >= lengths(batch, most)[:, None]

    def call(library, model, fast):
        given, mask = library.from_numpy(x), library.from_numpy(padding)

        def run():
            library.backends.mha.set_fastpath_enabled(fast)
            with library.no_grad():
                return model(given, src_key_padding_mask=mask)
        return run

    calls = [call(rushlight, models[0], True), call(rushlight, models[0], False), call(torch, models[1], False),
             call(torch, models[1], True)]
    ours, reference = (c().numpy()[~padding] for c in (calls[0], calls[2]))
    difference = np.abs(ours - reference).max()
    fast, slow, theirs_slow, theirs_fast = interleaved(calls)
    print(f"encoder, {padding.mean():.0%} padding: {fast * 1e3:.0f} ms (module by module {slow * 1e3:.0f}), torch "
          f"{theirs_slow * 1e3:.0f} ms (its fast path {theirs_fast * 1e3:.0f}), "
          f"{theirs_slow / fast:.1f} times faster, {theirs_fast / fast:.1f} than its fast path; results differ by at "
          f"most {difference:.1e}", flush=True)


PARTS = {"sdpa": sdpa, "decode": decode, "flex": flex, "window": window, "dropout": dropout, "nested": nested,
         "encoder": encoder}


def main():
    command = parser(__doc__)
    command.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all unless given")
    options, ratios = command.parse_args(), {}
    for name in options.parts or PARTS:
        PARTS[name](ratios)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        print(f"{len(ratios)} cases beside torch: geometric mean {mean:.2f}, worst {max(ratios.values()):.2f}")
    keep("attention", ratios, options)


if __name__ == "__main__":
    main()
