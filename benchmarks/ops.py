"""Every family of operators beside torch's eager mode at three sizes, interleaved in one process: ratios of times
(below 1: ours is faster).

    python -m benchmarks.ops [--family part-of-a-name] [--case part-of-a-name] [--threads 1] [--verbose] [--write]

A case is written once and given either library with its inputs: ``x`` a matrix, ``y`` another, ``i`` positions in a
row, ``s`` a square one.
"""
import collections
import math
import statistics
import time

import numpy as np
import torch

import rushlight

from .results import keep, parser

SIZES = {"small": (8, 16), "medium": (64, 256), "large": (512, 2048)}
MOST = 1.1  # the geometric mean that is wanted


class Inputs:
    """The arrays of one size."""

    def __init__(self, size):
        rows, columns = SIZES[size]
        draw = np.random.default_rng(0)
        self.x, self.y = (draw.standard_normal((rows, columns), np.float32) for _ in range(2))
        self.p = np.abs(self.x) + np.float32(0.1)
        self.u = draw.random((rows, columns), np.float32) * np.float32(0.98) + np.float32(0.01)
        self.m = self.x > 0
        self.k = draw.integers(-100, 100, (rows, columns))
        self.i, self.r = draw.integers(0, columns, (rows, columns)), draw.integers(0, rows, 2 * rows)
        self.j = draw.integers(0, columns, columns)
        self.b = np.sort(draw.standard_normal(columns).astype(np.float32))
        side = {"small": 4, "medium": 32, "large": 192}[size]
        self.s = draw.standard_normal((side, side)).astype(np.float32)
        self.a = (self.s @ self.s.T + side * np.eye(side)).astype(np.float32)
        self.many = draw.standard_normal((max(rows // 4, 2), 8, 8)).astype(np.float32)
        self.image = draw.standard_normal((2, 4, *{"small": (4, 4), "medium": (48, 48),
                                                   "large": (256, 256)}[size])).astype(np.float32)
        self.c = (self.x + 1j * self.y).astype(np.complex64)

    def given(self, library):
        """The same arrays as tensors of a library."""
        return {name: library.from_numpy(value.copy()) for name, value in vars(self).items()}


FAMILIES = {
    "elementwise": {
        "add": lambda t, x, y: x + y, "add number": lambda t, x: x + 1.5, "mul row": lambda t, x: x * x[0],
        "div": lambda t, x, p: x / p, "pow": lambda t, p: p ** 1.5,
        "where": lambda t, m, x, y: t.where(m, x, y), "clamp": lambda t, x: x.clamp(-0.5, 0.5),
        "lerp": lambda t, x, y: t.lerp(x, y, 0.3),
        "addcmul": lambda t, x, y, p: t.addcmul(x, y, p), "fmod": lambda t, x, p: t.fmod(x, p),
        "remainder": lambda t, x, p: t.remainder(x, p),
        "maximum": lambda t, x, y: t.maximum(x, y), "compare": lambda t, x, y: x < y,
        "floor divide": lambda t, k: k // 7, "bits": lambda t, k: k & 31,
        "atan2": lambda t, x, y: t.atan2(x, y), "hypot": lambda t, x, y: t.hypot(x, y),
        "to double": lambda t, x: x.double(), "to int": lambda t, x: x.long(),
        "isclose": lambda t, x, y: t.isclose(x, y), "nan_to_num": lambda t, x: t.nan_to_num(x),
        "round": lambda t, x: x.round(), "sign": lambda t, x: x.sign()},
    "transcendental": {
        name: (lambda t, x, name=name: getattr(t, name)(x))
        for name in ("exp", "sin", "cos", "tan", "tanh", "sigmoid", "expm1", "atan", "sinh", "cosh", "asinh", "erf",
                     "erfc")}
    | {name: (lambda t, p, name=name: getattr(t, name)(p))
       for name in ("log", "log1p", "log2", "sqrt", "rsqrt", "lgamma", "digamma")}
    | {name: (lambda t, u, name=name: getattr(t, name)(u)) for name in ("asin", "acos", "atanh", "erfinv", "logit")},
    "activation": {
        name: (lambda t, x, name=name: getattr(t.nn.functional, name)(x))
        for name in ("relu", "gelu", "silu", "elu", "selu", "celu", "softplus", "mish", "hardswish", "hardsigmoid",
                     "leaky_relu", "logsigmoid", "softsign", "tanhshrink", "relu6")}
    | {"softmax": lambda t, x: t.softmax(x, -1), "log_softmax": lambda t, x: t.log_softmax(x, -1),
       "softmax columns": lambda t, x: t.softmax(x, 0), "glu": lambda t, x: t.nn.functional.glu(x)},
    "reduction": {
        "sum": lambda t, x: x.sum(), "sum rows": lambda t, x: x.sum(-1), "sum columns": lambda t, x: x.sum(0),
        "mean": lambda t, x: x.mean(-1), "prod": lambda t, u: u.prod(-1),
        "amax": lambda t, x: x.amax(-1), "max": lambda t, x: x.max(-1), "argmax": lambda t, x: x.argmax(-1),
        "argmin columns": lambda t, x: x.argmin(0), "var": lambda t, x: x.var(-1), "std": lambda t, x: x.std(),
        "norm": lambda t, x: t.linalg.vector_norm(x), "logsumexp": lambda t, x: x.logsumexp(-1),
        "any": lambda t, m: m.any(), "all": lambda t, m: m.all(-1),
        "count_nonzero": lambda t, m: t.count_nonzero(m), "aminmax": lambda t, x: t.aminmax(x),
        "median": lambda t, x: x.median(-1), "nanmean": lambda t, x: x.nanmean(-1),
        "integer sum": lambda t, k: k.sum()},
    "scan": {
        "cumsum": lambda t, x: x.cumsum(-1), "cumsum columns": lambda t, x: x.cumsum(0),
        "cumprod": lambda t, u: u.cumprod(-1), "cummax": lambda t, x: x.cummax(-1), "cummin": lambda t, x: x.cummin(0),
        "logcumsumexp": lambda t, x: x.logcumsumexp(-1), "diff": lambda t, x: x.diff()},
    "sorting": {
        "sort": lambda t, x: x.sort(-1), "sort columns": lambda t, x: x.sort(0), "argsort": lambda t, x: x.argsort(-1),
        "sort integers": lambda t, k: k.sort(-1), "topk": lambda t, x: x.topk(5),
        "kthvalue": lambda t, x: x.kthvalue(3),
        "unique": lambda t, k: k.unique(), "unique_consecutive": lambda t, k: k.unique_consecutive(),
        "searchsorted": lambda t, b, x: t.searchsorted(b, x), "bucketize": lambda t, x, b: t.bucketize(x, b),
        "histc": lambda t, x: t.histc(x, 50), "bincount": lambda t, r: t.bincount(r),
        "quantile": lambda t, x: x.quantile(0.3, -1), "isin": lambda t, k, r: t.isin(k, r),
        "nonzero": lambda t, m: m.nonzero(), "mode": lambda t, k: k.mode(-1)},
    "indexing": {
        "gather": lambda t, x, i: x.gather(1, i), "index_select": lambda t, x, j: x.index_select(1, j),
        "rows": lambda t, x, r: x[r], "take_along": lambda t, x, i: t.take_along_dim(x, i, 1),
        "take": lambda t, x, i: x.take(i),
        "masked_select": lambda t, x, m: x.masked_select(m), "masked_fill": lambda t, x, m: x.masked_fill(m, 0.0),
        "scatter": lambda t, x, i, y: x.scatter(1, i, y), "scatter_add": lambda t, x, i, y: x.scatter_add(1, i, y),
        "index_add": lambda t, x, r, y: x.index_add(0, r[:len(y)], y),
        "index_put": lambda t, x, j: x.index_put((j % len(x), j), x[0]),
        "index_copy": lambda t, x, r, y: x.index_copy(0, r[:len(y)], y),
        "index_fill": lambda t, x, r: x.index_fill(0, r, 1.0),
        "embedding": lambda t, x, r: t.nn.functional.embedding(r, x),
        "one_hot": lambda t, j: t.nn.functional.one_hot(j, 2048),
        "scatter_reduce": lambda t, x, i, y: x.scatter_reduce(1, i, y, "amax"),
        "slice": lambda t, x: x[1:, ::2].clone(), "step write": lambda t, x: x.clone()[::2].fill_(1.0)},
    "shape": {
        "transpose": lambda t, x: x.t().contiguous(), "cat": lambda t, x, y: t.cat((x, y), 1),
        "stack": lambda t, x, y: t.stack((x, y)), "flip": lambda t, x: x.flip(-1), "roll": lambda t, x: x.roll(3, -1),
        "repeat": lambda t, x: x.repeat(2, 1),
        "repeat_interleave": lambda t, x: x.repeat_interleave(2, 0), "tril": lambda t, x: x.tril(),
        "diag": lambda t, s: s.diagonal().clone(), "pad": lambda t, x: t.nn.functional.pad(x, (1, 2)),
        "reflect pad": lambda t, image: t.nn.functional.pad(image, (1, 1, 1, 1), "reflect"),
        "unfold": lambda t, x: x.unfold(1, 4, 2).contiguous(), "expand": lambda t, x: x[:1].expand_as(x).contiguous(),
        "chunk": lambda t, x: t.chunk(x, 4, 1)[1] + 1,
        "meshgrid": lambda t, b: t.meshgrid(b, b, indexing="ij")[0].clone(), "rot90": lambda t, x: x.rot90(),
        "permute": lambda t, image: image.permute(0, 2, 3, 1).contiguous()},
    "creation": {
        "zeros": lambda t, x: t.zeros(x.shape), "full": lambda t, x: t.full(tuple(x.shape), 2.0),
        "arange": lambda t, x: t.arange(x.numel()), "linspace": lambda t, x: t.linspace(0, 1, x.numel()),
        "eye": lambda t, s: t.eye(len(s)), "ones_like": lambda t, x: t.ones_like(x),
        "tril_indices": lambda t, s: t.tril_indices(len(s), len(s))},
    "random": {
        "rand": lambda t, x: t.rand(x.shape), "randn": lambda t, x: t.randn(x.shape),
        "randint": lambda t, x: t.randint(0, 10, x.shape), "bernoulli": lambda t, u: t.bernoulli(u),
        "randperm": lambda t, x: t.randperm(x.numel()), "multinomial": lambda t, u: t.multinomial(u, 3),
        "dropout": lambda t, x: t.nn.functional.dropout(x), "exponential": lambda t, x: x.clone().exponential_(),
        "poisson": lambda t, p: t.poisson(p)},
    "products": {
        "matmul": lambda t, s: s @ s, "linear": lambda t, x, y: t.nn.functional.linear(x, y),
        "bmm": lambda t, many: t.bmm(many, many), "matvec": lambda t, s: s @ s[0], "dot": lambda t, b: t.dot(b, b),
        "outer": lambda t, b: t.outer(b, b), "einsum": lambda t, many: t.einsum("bij,bkj->bik", many, many),
        "addmm": lambda t, s: t.addmm(s, s, s), "kron": lambda t, many: t.kron(many[0], many[1]),
        "cdist": lambda t, s: t.cdist(s, s)},
    "linalg": {
        name: (lambda t, a, name=name: getattr(t.linalg, name)(a))
        for name in ("inv", "det", "cholesky", "qr", "svd", "eigh", "eigvalsh", "lu_factor", "slogdet", "pinv",
                     "matrix_exp")}
    | {"solve": lambda t, a, s: t.linalg.solve(a, s),
       "triangular": lambda t, a, s: t.linalg.solve_triangular(a, s, upper=True),
       "batched inverse": lambda t, many: t.linalg.inv(many),
       "batched determinant": lambda t, many: t.linalg.det(many)},
    "spectral": {
        "fft": lambda t, x: t.fft.fft(x), "rfft": lambda t, x: t.fft.rfft(x), "irfft": lambda t, c: t.fft.irfft(c),
        "fft2": lambda t, x: t.fft.fft2(x), "fftshift": lambda t, x: t.fft.fftshift(x)},
    "complex": {
        "add": lambda t, c: c + c, "mul": lambda t, c: c * c, "div": lambda t, c: c / (c + 1),
        "abs": lambda t, c: c.abs(), "exp": lambda t, c: c.exp(), "conj": lambda t, c: c.conj().clone(),
        "angle": lambda t, c: c.angle(), "real": lambda t, c: c.real.clone(), "sum": lambda t, c: c.sum(),
        "matmul": lambda t, c: c @ c.mT},
    "image": {
        "max_pool": lambda t, image: t.nn.functional.max_pool2d(image, 2),
        "avg_pool": lambda t, image: t.nn.functional.avg_pool2d(image, 2),
        "adaptive pool": lambda t, image: t.nn.functional.adaptive_avg_pool2d(image, 3),
        "bilinear": lambda t, image: t.nn.functional.interpolate(image, scale_factor=2, mode="bilinear"),
        "nearest": lambda t, image: t.nn.functional.interpolate(image, scale_factor=2),
        "bicubic": lambda t, image: t.nn.functional.interpolate(image, scale_factor=2, mode="bicubic"),
        "grid_sample": lambda t, image: t.nn.functional.grid_sample(image, image.permute(0, 2, 3, 1)[..., :2].tanh(),
                                                                    align_corners=False),
        "unfold": lambda t, image: t.nn.functional.unfold(image, 2),
        "pixel_shuffle": lambda t, image: t.nn.functional.pixel_shuffle(image, 2)},
    "norm and loss": {
        "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, x.shape[1:]),
        "group_norm": lambda t, image: t.nn.functional.group_norm(image, 2),
        "batch_norm": lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True),
        "normalize": lambda t, x: t.nn.functional.normalize(x), "mse": lambda t, x, y: t.nn.functional.mse_loss(x, y),
        "cross_entropy": lambda t, x, i: t.nn.functional.cross_entropy(x, i[:, 0]),
        "bce": lambda t, x, u: t.nn.functional.binary_cross_entropy_with_logits(x, u),
        "huber": lambda t, x, y: t.nn.functional.huber_loss(x, y),
        "cosine": lambda t, x, y: t.nn.functional.cosine_similarity(x, y),
        "kl_div": lambda t, x, u: t.nn.functional.kl_div(x, u, reduction="batchmean")},
}


def milliseconds(runs, budget):
    """The least time of each call, taken in turns until ``budget`` seconds are spent."""
    for run in runs:
        run(), run()
    best, start, rounds = [math.inf] * len(runs), time.perf_counter(), 0
    while rounds < 3 or time.perf_counter() - start < budget:
        rounds += 1
        for k, run in enumerate(runs):
            for _ in range(3):
                began = time.perf_counter()
                result = run()
                best[k] = min(best[k], time.perf_counter() - began)
                del result
    return [b * 1e3 for b in best]


def call(library, inputs, case):
    names = case.__code__.co_varnames[1:case.__code__.co_argcount - len(case.__defaults__ or ())]
    tensors = [inputs[n] for n in names]
    return lambda: case(library, *tensors)


def main():
    command = parser(__doc__)
    command.add_argument("--family", default="")
    command.add_argument("--case", default="")
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--budget", type=float, default=0.02, help="seconds for each case and size")
    command.add_argument("--verbose", action="store_true")
    options = command.parse_args()
    torch.set_num_threads(options.threads)
    rushlight.set_num_threads(options.threads)
    libraries = (rushlight, torch)
    inputs = {size: [Inputs(size).given(library) for library in libraries] for size in SIZES}
    ratios = collections.defaultdict(dict)
    for family, cases in FAMILIES.items():
        if options.family not in family:
            continue
        for name, case in cases.items():
            if options.case not in name:
                continue
            for size in SIZES:
                ours, theirs = milliseconds([call(lib, given, case) for lib, given in zip(libraries, inputs[size])],
                                            options.budget)
                ratios[family][name, size] = ours / theirs
                if options.verbose:
                    print(f"{family:16s} {name:20s} {size:8s} {ours:9.4f} {theirs:9.4f} {ours / theirs:7.2f}",
                          flush=True)
    report(ratios)
    keep("ops", {family: {" ".join(case): round(ratio, 3) for case, ratio in found.items()}
                 for family, found in ratios.items()}, options)


def mean(values):
    return math.exp(statistics.mean(map(math.log, values)))


def report(ratios):
    """A line for each family, the mean over all, and the ten worst."""
    print(f"{'family':16s} {'mean':>6s} " + " ".join(f"{size:>7s}" for size in SIZES))
    for family, found in ratios.items():
        print(f"{family:16s} {mean(found.values()):6.2f} "
              + " ".join(f"{mean([r for (_, s), r in found.items() if s == size]):7.2f}" for size in SIZES))
    everything = {(family, *key): ratio for family, found in ratios.items() for key, ratio in found.items()}
    print(f"geometric mean of {len(everything)}: {mean(everything.values()):.2f} (wanted: {MOST})")
    for key in sorted(everything, key=everything.get)[:-11:-1]:
        print(f"{everything[key]:8.2f}  {', '.join(key)}")


if __name__ == "__main__":
    main()
