"""PyTorch's random operators on the CPU with numbers from Rushlight's stream: one seed means the same numbers in both.

The offset in the stream belongs to the state of PyTorch's generator: a table holds the offset of each state,
so copies of a state, forks and seeds mean what they mean in the program.
"""

from __future__ import annotations

import contextlib
import sys
import warnings


class Streams:
    """Which place of which stream each state of a generator of PyTorch's stands for."""

    def __init__(self, torch, rushlight):
        self.torch, self.rushlight, self.places = torch, rushlight, {}

    def __call__(self, generator, draw):
        """``draw(stream)``: a tensor of Rushlight's, at the generator's place, as one of PyTorch's."""
        generator = generator or self.torch.default_generator
        stream = self.rushlight.Generator()
        stream._place(*self.places.get(self.state(generator), (signed(generator.initial_seed()), 0)))
        drawn = self.torch.from_numpy(draw(stream).numpy())
        self.torch.empty(1).geometric_(0.5, generator=generator)  # to a state that was not seen before
        self.places[self.state(generator)] = stream.place
        return drawn

    @staticmethod
    def state(generator):
        return generator.get_state().numpy().tobytes()

    def like(self, tensor, fill=0):
        return self.rushlight.full(tuple(tensor.shape), fill, dtype=self.dtype(tensor))

    def dtype(self, tensor):
        name = str(tensor.dtype).removeprefix("torch.")
        return getattr(self.rushlight, name if name not in ("bfloat16", "float16") else "float32")

    def values(self, tensor):
        return self.rushlight.from_numpy(
            tensor.detach().to(tensor.dtype if tensor.dtype.itemsize > 2 else self.torch.float32).contiguous().numpy()
        )


def signed(seed):
    return seed - (1 << 64) if seed >= 1 << 63 else seed


def share(root):
    """Replaces the random kernels of PyTorch in this process; Rushlight lies at ``root``."""
    import torch

    sys.path.append(root)
    import rushlight

    sys.path.remove(root)
    warnings.filterwarnings("ignore", message="Warning only once for all operators", category=UserWarning)
    streams = Streams(torch, rushlight)
    library = torch.library.Library("aten", "IMPL")
    share.library = library  # lives as long as the process
    share_draws(streams, library)
    for name in ("dropout", "feature_dropout"):
        share_dropout(streams, library, name)
    share_attention(streams)
    share_habits()


def share_draws(streams, library):
    """The operators that fill a tensor with random numbers, or draw for each element."""
    torch, rushlight = streams.torch, streams.rushlight

    def kernel(name):
        return lambda function: library.impl(name, function, "CPU")

    def inplace(name, method=None):
        def body(self, *arguments, generator=None):
            arguments = [streams.values(a) if isinstance(a, torch.Tensor) else a for a in arguments]
            return self.copy_(
                streams(generator, lambda stream: getattr(streams.like(self), method)(*arguments, generator=stream))
            )

        method = method or name.partition(".")[0]
        kernel(name)(body)

    for name in (
        "uniform_",
        "normal_",
        "random_",
        "random_.from",
        "random_.to",
        "exponential_",
        "cauchy_",
        "log_normal_",
        "bernoulli_.float",
        "bernoulli_.Tensor",
    ):
        inplace(name)

    @kernel("bernoulli")
    def bernoulli(self, *, generator=None):
        return streams(generator, lambda stream: rushlight.bernoulli(streams.values(self), generator=stream)).to(
            self.dtype
        )

    @kernel("randperm.generator_out")
    def randperm(n, *, generator=None, out):
        out.resize_(n)
        return out.copy_(streams(generator, lambda stream: rushlight.randperm(n, generator=stream)))

    @kernel("multinomial")
    def multinomial(self, num_samples, replacement=False, *, generator=None):
        return streams(
            generator,
            lambda stream: rushlight.multinomial(streams.values(self), num_samples, replacement, generator=stream),
        )

    def normal(mean, std, generator):
        like = mean if isinstance(mean, torch.Tensor) else std
        shape = torch.broadcast_shapes(*(v.shape for v in (mean, std) if isinstance(v, torch.Tensor)))
        return like.new_empty(shape).normal_(generator=generator).mul_(std).add_(mean)

    kernel("normal.Tensor_Tensor")(lambda mean, std, *, generator=None: normal(mean, std, generator))
    kernel("normal.Tensor_float")(lambda mean, std=1.0, *, generator=None: normal(mean, std, generator))
    kernel("normal.float_Tensor")(lambda mean, std, *, generator=None: normal(mean, std, generator))
    for name in ("poisson", "_standard_gamma", "_sample_dirichlet"):

        def drawn(self, generator=None, *, name=name):
            return streams(
                generator, lambda stream: getattr(rushlight, name)(streams.values(self), generator=stream)
            ).to(self.dtype)

        kernel(name)(drawn)
    for name in ("_standard_gamma_grad", "_dirichlet_grad"):  # PyTorch's are approximations, right to 1e-3

        def slope(*inputs, name=name):
            return torch.from_numpy(getattr(rushlight, name)(*map(streams.values, inputs)).numpy()).to(inputs[0].dtype)

        kernel(name)(slope)
    kernel("binomial")(
        lambda count, prob, generator=None: streams(
            generator, lambda stream: rushlight.binomial(streams.values(count), streams.values(prob), generator=stream)
        ).to(count.dtype)
    )


def share_dropout(streams, library, name):
    """Dropout of elements or, as ``feature_dropout``, of whole channels."""
    rushlight = streams.rushlight
    ours = getattr(rushlight.nn.functional, "dropout" if name == "dropout" else "dropout1d")

    def mask(input, p):
        like = streams.like(input, 1) if name == "dropout" else rushlight.ones(*input.shape[:2], 1)

        def draw(stream):
            with borrowed(rushlight, stream):
                return ours(like, p, True)

        drawn = streams(None, draw).to(input.dtype)
        return drawn if name == "dropout" else drawn.reshape(*input.shape[:2], *(1,) * (input.dim() - 2))

    def fresh(input, p, train):
        return input * mask(input, p) if train and p and input.numel() else input

    def within(input, p, train):
        return input.mul_(mask(input, p)) if train and p and input.numel() else input

    library.impl(name, fresh, "AutogradCPU")
    library.impl(name + "_", within, "AutogradCPU")


@contextlib.contextmanager
def borrowed(rushlight, stream):
    """The default stream is where ``stream`` is, which moves with it."""
    default = rushlight.default_generator
    kept = default.place
    default._place(*stream.place)
    try:
        yield
    finally:
        stream._place(*default.place)
        default._place(*kept)


def share_attention(streams):
    """Attention with dropout: weights all equal, times rows of the identity, show what is kept."""
    import torch
    import torch.nn.functional as F

    plain, rushlight = F.scaled_dot_product_attention, streams.rushlight

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **named):
        if not dropout_p:
            return plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **named)
        *lead, rows, width = query.shape
        columns = key.shape[-2]

        def draw(stream):
            with borrowed(rushlight, stream):
                zeros = rushlight.zeros(*lead, columns, width)
                return rushlight.nn.functional.scaled_dot_product_attention(
                    rushlight.zeros(*lead, rows, width),
                    zeros,
                    rushlight.eye(columns).expand(*lead, columns, columns),
                    dropout_p=dropout_p,
                )

        kept = streams(None, draw).mul_(columns).to(query.dtype)
        scores = query @ key.transpose(-1, -2) * (width**-0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(rows, columns, dtype=torch.bool).tril()
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype is torch.bool else scores + attn_mask
        return scores.softmax(-1) * kept @ value

    F.scaled_dot_product_attention = attention


def share_habits():
    """What the two draw by another formula: PyTorch goes our way."""
    import torch

    def truncated(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
        with torch.no_grad():
            low, high = (
                0.5 * (1 + torch.erf(torch.tensor((x - mean) / std / 2**0.5, dtype=torch.float64))).item()
                for x in (a, b)
            )
            tensor.uniform_(2 * low - 1, 2 * high - 1, generator=generator).erfinv_().mul_(std * 2**0.5).add_(mean)
            return tensor.clamp_(a, b)

    torch.nn.init.trunc_normal_ = truncated
