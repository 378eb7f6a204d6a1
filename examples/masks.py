"""Seven kinds of attention, each a line or two of Python given to FlexAttention, and a picture of what each query
attends to.

    python -m rushlight examples/masks.py          # or: python examples/masks.py, with PyTorch
"""
import argparse
import math
import os
import tempfile

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

LENGTH, DEPTH, WINDOW, PREFIX, CAP = 256, 32, 48, 80, 2.0
# which text a token belongs to
DOCUMENT = torch.bucketize(torch.arange(LENGTH), torch.tensor([70, 90, 180]), right=True)
DISTANCE = torch.sin(torch.arange(2 * LENGTH) / 9.0)  # a bias for every distance between two tokens


def causal(b, h, q, k):
    return q >= k


def sliding_window(b, h, q, k):
    return (q >= k) & (q - k < WINDOW)


def prefix(b, h, q, k):
    return (k < PREFIX) | (q >= k)


def documents(b, h, q, k):
    return (DOCUMENT[q] == DOCUMENT[k]) & (q >= k)


def alibi(score, b, h, q, k):
    """Attention falls with distance, faster in some heads (Press et al. 2021)."""
    return score - (q - k).abs() * torch.exp2(-(h + 3.0))


def soft_cap(score, b, h, q, k):
    """Scores are bent into a range (Gemma 2, 2024)."""
    return CAP * torch.tanh(score / CAP)


def relative(score, b, h, q, k):
    """A bias by distance (Raffel et al. 2019)."""
    return score + 2 * DISTANCE[q - k + LENGTH]


KINDS = {"causal": (None, causal), "sliding window": (None, sliding_window), "prefix": (None, prefix),
         "documents": (None, documents),
         "ALiBi": (alibi, causal), "soft cap": (soft_cap, None), "relative position": (relative, None)}


def weights(score_mod, mask_mod, query, key):
    """What every query attends to, LENGTH by LENGTH: with the identity for values, attention returns its weights."""
    mask = mask_mod and create_block_mask(mask_mod, None, None, LENGTH, LENGTH, device="cpu")
    return flex_attention(query, key, torch.eye(LENGTH).expand(1, 1, LENGTH, LENGTH), score_mod=score_mod,
                          block_mask=mask), mask


def reference(score_mod, mask_mod, query, key):
    """The same by the formula, with all scores in memory."""
    q, k = torch.arange(LENGTH)[:, None], torch.arange(LENGTH)[None, :]
    scores = query @ key.transpose(-1, -2) / math.sqrt(DEPTH)
    if score_mod:
        scores = score_mod(scores, 0, torch.zeros(()), q, k)
    if mask_mod:
        scores = scores.masked_fill(~mask_mod(0, 0, q, k), -math.inf)
    return scores.softmax(-1)


def picture(path, found):
    """One panel a kind, written in one go."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("(no picture: matplotlib is not installed)")
        return
    figure, axes = plt.subplots(2, 4, figsize=(11, 6))
    for place in axes.flat:
        place.axis("off")
    for place, (name, matrix) in zip(axes.flat, found.items()):
        place.imshow((matrix / matrix.amax(-1, keepdim=True)).sqrt().tolist(), cmap="magma", interpolation="nearest")
        place.set_title(name, fontsize=10)
    handle, temporary = tempfile.mkstemp(suffix=".png", dir=os.path.dirname(os.path.abspath(path)))
    os.close(handle)
    figure.savefig(temporary, dpi=110, bbox_inches="tight")
    os.replace(temporary, path)
    print(f"picture: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--picture", default="masks.png")
    options = parser.parse_args()
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 1, LENGTH, DEPTH)
    found = {}
    for name, (score_mod, mask_mod) in KINDS.items():
        out, mask = weights(score_mod, mask_mod, query, key)
        error = (out - reference(score_mod, mask_mod, query, key)).abs().max().item()
        assert error < 1e-5, (name, error)
        found[name] = out[0, 0]
        print(f"{name:18} {f'{mask.sparsity():.0f} % of the blocks skipped' if mask else 'every block':28} "
              f"{(out > 1e-4).float().mean():.0%} of the weights above 0.0001")
    picture(options.picture, found)


if __name__ == "__main__":
    main()
