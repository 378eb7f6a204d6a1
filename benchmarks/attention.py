"""Time of our attention over torch's, forward and backward, interleaved in one process: below 1 we are faster.

    python benchmarks/attention.py [float32] [bfloat16]

Clocks and threads are as in benchmarks/contract.py.
"""

import math
import sys

import torch

from benchmarks.contract import THREADS, interleaved, report
from rushlight.compiler.llvm import pool
from rushlight.compiler.templates.attention import Attention, plan_attention, plan_attention_backward
from tests.compiler.contractions import Runner

# name, batch, heads, heads that share keys, queries, keys, size, causal, mask
SHAPES = [
    ("full", 4, 12, 1, 1024, 1024, 64, False, ""), ("causal", 4, 12, 1, 1024, 1024, 64, True, ""),
    ("gpt", 8, 6, 1, 256, 256, 64, True, ""), ("bert", 4, 12, 1, 128, 128, 64, False, ""),
    ("bert, padded", 4, 12, 1, 128, 128, 64, False, "bool"), ("vit", 8, 6, 1, 197, 197, 64, False, ""),
    ("llama", 1, 16, 4, 512, 512, 128, True, ""), ("unet", 2, 8, 1, 1024, 77, 40, False, ""),
    ("added mask", 2, 8, 1, 512, 512, 64, False, "float"), ("decode", 4, 12, 1, 1, 2048, 64, False, ""),
    ("tiny", 2, 4, 1, 16, 16, 16, True, ""),
]


def attention(dtype):
    forward, backward = [], []
    kind = getattr(torch, dtype)
    for name, batch, heads, sharing, queries, keys, size, causal, mask in SHAPES:
        q, grad = (torch.randn(batch, heads, queries, size).to(kind) for _ in range(2))
        k, v = (torch.randn(batch, heads // sharing, keys, size).to(kind) for _ in range(2))
        bias = torch.rand(batch, 1, 1, keys) > 0.2 if mask == "bool" else torch.randn(queries, keys).to(kind) if mask else None
        bias_strides = (0, 0, 0, 1) if bias is None else bias.expand(batch, heads, queries, keys).stride()
        problem = Attention(batch, heads, sharing, queries, keys, size, size, q.stride(), k.stride(), v.stride(), q.stride(), dtype,
                            1 / math.sqrt(size), causal, dtype if mask == "float" else mask, bias_strides,
                            grad.stride(), q.stride(), k.stride(), v.stride())
        out, lse = torch.empty_like(q), torch.empty(batch, heads, queries)
        gradients = {f"grad_{name}": torch.empty_like(x) for name, x in (("q", q), ("k", k), ("v", v))}
        operands = {"q": q, "k": k, "v": v, "out": out, "lse": lse, **({} if bias is None else {"mask": bias})}
        addresses = {name: x.data_ptr() for name, x in {**operands, **gradients, "grad": grad}.items()}
        ours = Runner(plan_attention(problem), **{name: addresses[name] for name in operands})
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]

        def theirs(leaves=(q, k, v)):
            return torch.nn.functional.scaled_dot_product_attention(*leaves, bias, is_causal=causal, enable_gqa=sharing > 1)

        label = f"{name} {batch}x{heads}x{queries}x{keys}x{size}" + (f" shared by {sharing}" if sharing > 1 else "")
        flops = 4 * batch * heads * queries * keys * size // (2 if causal else 1)
        forward.append((label, flops, *interleaved(ours, theirs)))
        wanted = theirs(leaves)
        check(label, out, wanted)
        ours = Runner(plan_attention_backward(problem), **addresses)
        backward.append((label, flops * 5 // 2, *interleaved(ours, lambda: torch.autograd.grad(wanted, leaves, grad, retain_graph=True))))
        for (name, got), expected in zip(gradients.items(), torch.autograd.grad(wanted, leaves, grad)):
            check(f"{label} {name}", got, expected)
    report(forward, f"Attention forward, {dtype}")
    report(backward, f"Attention backward, {dtype}")


def check(label, got, wanted):
    error = (got.float() - wanted.float()).abs().max() / wanted.float().abs().max()
    if not error < (3e-2 if got.dtype is torch.bfloat16 else 1e-4):
        print(f"wrong result for {label}: relative error {error:.2g}")


def main():
    torch.set_num_threads(THREADS)
    pool.set_num_threads(THREADS)
    for dtype in sys.argv[1:] or ["float32", "bfloat16"]:
        attention(dtype)


if __name__ == "__main__":
    main()
