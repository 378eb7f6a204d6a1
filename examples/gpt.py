"""Trains a character-level GPT on real text and writes some text of its own.

    python -m rushlight examples/gpt.py            # or: python examples/gpt.py, with PyTorch
    python -m rushlight examples/gpt.py --text book.txt --steps 2000 --layers 6 --width 384

The matrices of the blocks are trained by Muon, all else by AdamW; ``--no-compile`` trains without ``torch.compile``.
"""
import argparse
import math
import os
import pathlib
import random
import sys
import sysconfig
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Causal self-attention and a feed-forward network, each on a normalised residual stream."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x):
        b, t, c = x.shape
        parts = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + F.dropout(self.out(y.transpose(1, 2).reshape(b, t, c)), self.dropout, self.training)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A decoder-only transformer over characters (Radford et al. 2019)."""

    def __init__(self, vocabulary, context, layers, heads, width, dropout):
        super().__init__()
        self.context = context
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.apply(self.init_weights)

    def init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, ids, targets=None):
        x = self.drop(self.token(ids) + self.position(torch.arange(ids.shape[1])))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))

    @torch.no_grad()
    def write(self, ids, count, temperature=0.8):
        """``count`` more characters, drawn one at a time."""
        for _ in range(count):
            logits = self(ids[:, -self.context:])[:, -1] / temperature
            ids = torch.cat([ids, torch.multinomial(F.softmax(logits, -1), 1)], dim=1)
        return ids


def read_text(path, limit):
    """The text to learn: a file, or the source of Python's standard library."""
    if path:
        try:
            return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise SystemExit(f"gpt.py: can't read the text: {error}") from None
    files = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    random.Random(0).shuffle(files)  # what is held out is the end: any files
    text, total = [], 0
    for file in files:
        piece = file.read_text(encoding="utf-8", errors="replace")
        piece = "".join(c for c in piece if c == "\n" or " " <= c <= "~")
        text.append(piece)
        total += len(piece)
        if total > limit:
            break
    return "".join(text)


def batch(data, size, context):
    at = torch.randint(len(data) - context - 1, (size,)).tolist()
    return torch.stack([data[k:k + context] for k in at]), torch.stack([data[k + 1:k + 1 + context] for k in at])


@torch.no_grad()
def held_out(model, data, size, context, batches):
    model.eval()
    losses = [model(*batch(data, size, context)).item() for _ in range(batches)]
    model.train()
    return sum(losses) / len(losses)


def optimizers(model, lr):
    """Muon for the matrices of the blocks, AdamW for embeddings, the head, norms and biases."""
    matrices = [p for p in model.blocks.parameters() if p.dim() == 2]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    return [torch.optim.Muon(matrices, lr=lr, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.95), weight_decay=0.01)]


class Progress:
    """A line that is drawn again on a terminal; elsewhere a line every twentieth of the steps."""

    def __init__(self, total, width=24):
        self.total, self.width, self.drawn = total, width, sys.stdout.isatty()

    def show(self, done, text):
        if self.drawn:
            full = self.width * done // self.total
            print(f"\r{'█' * full}{'·' * (self.width - full)} {done}/{self.total}  {text} ", end="", flush=True)
        elif done % max(1, self.total // 20) == 0 or done == self.total:
            print(f"{done}/{self.total}  {text}", flush=True)

    def note(self, text):
        print(f"\n{text}" if self.drawn else text, flush=True)


def plot(path, losses, checks):
    """The loss curve as a picture, written in one go."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("(no picture: matplotlib is not installed)")
        return
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(range(1, len(losses) + 1), losses, label="training", linewidth=0.9)
    axes.plot([k for k, _ in checks], [v for _, v in checks], "o-", label="held out")
    axes.set(xlabel="step", ylabel="loss (nats per character)", title="Character-level GPT")
    axes.grid(alpha=0.3)
    axes.legend()
    handle, temporary = tempfile.mkstemp(suffix=".png", dir=os.path.dirname(os.path.abspath(path)))
    os.close(handle)
    figure.savefig(temporary, dpi=120)
    os.replace(temporary, path)
    print(f"loss curve: {path}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", help="a text file (default: the source of Python's standard library)")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=300, help="characters to write at the end")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--picture", default="gpt_loss.png")
    options = parser.parse_args()
    if options.steps < 1 or options.width % options.heads:
        parser.error("--steps is at least 1 and --width a multiple of --heads")
    return options


def trained(model, train, test, options):
    """The loss of each step, and (step, held-out loss) now and then."""
    computed = torch.compile(model) if options.compile else model
    stepped = optimizers(model, options.lr)

    def rate(k):
        """A short rise, then a plateau, then down to nearly nothing."""
        return min(1.0, (k + 1) / 20, 1.3 * (1 - k / options.steps) + 0.02)

    schedules = [torch.optim.lr_scheduler.LambdaLR(o, rate) for o in stepped]
    losses, checks, spent, progress = [], [], 0.0, Progress(options.steps)
    every = max(1, options.steps // 5)
    for step in range(1, options.steps + 1):
        began = time.perf_counter()
        loss = computed(*batch(train, options.batch, options.context))
        model.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for each in (*stepped, *schedules):
            each.step()
        losses.append(loss.item())
        spent += time.perf_counter() - began
        progress.show(step, f"loss {losses[-1]:.3f}  {step * options.batch * options.context / spent:,.0f} tokens/s")
        if step % every == 0 or step == options.steps:
            checks.append((step, held_out(model, test, options.batch, options.context, 32)))
            progress.note(f"held out {checks[-1][1]:.3f}")
    return losses, checks


def main():
    options = arguments()
    torch.manual_seed(options.seed)
    text = read_text(options.text, limit=2_000_000)
    if len(text) < 20 * options.context:
        raise SystemExit(f"gpt.py: {len(text)} characters are too few for a context of {options.context}")
    letters = sorted(set(text))
    number = {c: k for k, c in enumerate(letters)}
    data = torch.tensor([number[c] for c in text])
    cut = int(0.9 * len(data))
    train, test = data[:cut], data[cut:]
    model = GPT(len(letters), options.context, options.layers, options.heads, options.width, options.dropout)
    count = sum(p.numel() for p in model.parameters())
    print(f"{len(text):,} characters, {len(letters)} different; {count:,} parameters; torch {torch.__version__}")
    losses, checks = trained(model, train, test, options)
    model.eval()
    written = model.write(data[:1].view(1, 1), options.sample)[0].tolist()
    print("\n" + "".join(letters[k] for k in written))
    plot(options.picture, losses, checks)
    if not math.isfinite(losses[-1]):
        sys.exit("the loss is not finite")


if __name__ == "__main__":
    main()
