"""Eager operators beside torch's at GPT-2 small and ResNet-50 sizes, interleaved in one process: ratios of median times
(below 1: ours is faster).

    python -m benchmarks.eager [--only part-of-a-name] [--dtype float32] [--write]

Each case is written once and given either library.
"""
import math
import statistics
import time

import numpy as np
import torch

import rushlight

from .results import keep, parser

ROWS, WIDTH, VOCABULARY = (8, 1024), 768, 50257
IMAGE = (8, 64, 112, 112)
rng = np.random.default_rng(0)


class Library:
    """One of the two libraries, and how it makes the same tensors."""

    def __init__(self, t):
        self.t, self.F, self.made = t, t.nn.functional, {}

    def floats(self, *shape, grad=True):
        name = shape, len(self.made)
        value = self.t.from_numpy(np.random.default_rng(len(self.made))
                                  .standard_normal(shape, np.float32)).to(self.dtype)
        self.made[name] = value
        return value.requires_grad_() if grad else value

    def integers(self, high, *shape):
        return self.t.from_numpy(np.random.default_rng(high).integers(0, high, shape))

    def start(self, dtype):
        self.dtype, self.made = getattr(self.t, dtype), {}
        self.t.manual_seed(0)
        return self


CASES = {}


def case(function):
    """Enters a case: given a library it returns what is timed, and the tensors that want a gradient (none: forward
    only)."""
    CASES[function.__name__.replace("_", " ")] = function
    return function


def hidden(lib, *rest):
    return lib.floats(*ROWS, *(rest or (WIDTH,)))


def elementwise(name, run):
    def made(lib):
        x = hidden(lib)
        return lambda: run(lib, x), [x]
    CASES[name] = made


elementwise("gelu erf", lambda lib, x: lib.F.gelu(x))
elementwise("gelu tanh", lambda lib, x: lib.F.gelu(x, approximate="tanh"))
elementwise("relu", lambda lib, x: lib.F.relu(x))
elementwise("silu", lambda lib, x: lib.F.silu(x))
elementwise("tanh", lambda lib, x: lib.t.tanh(x))
elementwise("sigmoid", lambda lib, x: lib.t.sigmoid(x))
elementwise("exp", lambda lib, x: lib.t.exp(x))
elementwise("sin", lambda lib, x: lib.t.sin(x))
elementwise("cos", lambda lib, x: lib.t.cos(x))
elementwise("square root", lambda lib, x: lib.t.sqrt(x))
elementwise("square", lambda lib, x: x.pow(2))
elementwise("times 2", lambda lib, x: x * 2)
elementwise("dropout", lambda lib, x: lib.F.dropout(x, 0.1, True))
elementwise("softmax", lambda lib, x: lib.t.softmax(x, -1))
elementwise("log softmax", lambda lib, x: lib.F.log_softmax(x, -1))
elementwise("sum all", lambda lib, x: x.sum())
elementwise("sum rows", lambda lib, x: x.sum(-1))
elementwise("sum columns", lambda lib, x: x.sum((0, 1)))
elementwise("mean rows", lambda lib, x: x.mean(-1))
elementwise("max rows", lambda lib, x: x.amax(-1))
elementwise("argmax rows", lambda lib, x: x.detach().argmax(-1))
elementwise("running sum", lambda lib, x: x.cumsum(-1))
elementwise("heads apart", lambda lib, x: x.view(*ROWS, 12, 64).transpose(1, 2).contiguous())
elementwise("transpose", lambda lib, x: x.transpose(1, 2).contiguous())
elementwise("three parts side by side", lambda lib, x: lib.t.cat((x, x, x), -1))
elementwise("layer norm", lambda lib, x: lib.F.layer_norm(x, (WIDTH,)))


@case
def layer_norm_affine(lib):
    x, w, b = hidden(lib), lib.floats(WIDTH), lib.floats(WIDTH)
    return lambda: lib.F.layer_norm(x, (WIDTH,), w, b), [x, w, b]


@case
def rms_norm(lib):
    x, w = hidden(lib), lib.floats(WIDTH)
    return lambda: lib.F.rms_norm(x, (WIDTH,), w), [x, w]


@case
def add(lib):
    x, y = hidden(lib), hidden(lib)
    return lambda: x + y, [x, y]


@case
def add_bias(lib):
    x, b = hidden(lib), lib.floats(WIDTH)
    return lambda: x + b, [x, b]


@case
def chain(lib):
    x, y = hidden(lib), hidden(lib)
    mask = x.detach() > 0
    return lambda: lib.t.where(mask, x * y + x, y), [x, y]


@case
def attention_mask_softmax(lib):
    x = lib.floats(2, 12, 512, 512)
    mask = lib.t.ones(512, 512).tril() == 0
    return lambda: lib.t.softmax(x.masked_fill(mask, -math.inf), -1), [x]


@case
def cross_entropy(lib):
    x, target = lib.floats(1024, VOCABULARY), lib.integers(VOCABULARY, 1024)
    return lambda: lib.F.cross_entropy(x, target), [x]


@case
def embedding(lib):
    table, ids = lib.floats(VOCABULARY, WIDTH), lib.integers(VOCABULARY, *ROWS)
    return lambda: lib.F.embedding(ids, table), [table]


@case
def gather_tokens(lib):
    x, ids = lib.floats(1024, VOCABULARY), lib.integers(VOCABULARY, 1024, 1)
    return lambda: x.gather(1, ids), [x]


@case
def batch_norm_training(lib):
    x, w, b = lib.floats(*IMAGE), lib.floats(64), lib.floats(64)
    mean, var = lib.t.zeros(64, dtype=lib.dtype), lib.t.ones(64, dtype=lib.dtype)
    return lambda: lib.F.batch_norm(x, mean, var, w, b, True), [x, w, b]


@case
def batch_norm_inference(lib):
    x, w, b = lib.floats(*IMAGE), lib.floats(64, grad=False), lib.floats(64, grad=False)
    mean, var = lib.t.zeros(64, dtype=lib.dtype), lib.t.ones(64, dtype=lib.dtype)
    return lambda: lib.F.batch_norm(x, mean, var, w, b, False), [x]


@case
def max_pool(lib):
    x = lib.floats(*IMAGE)
    return lambda: lib.F.max_pool2d(x, 3, 2, 1), [x]


@case
def average_pool(lib):
    x = lib.floats(*IMAGE)
    return lambda: lib.F.avg_pool2d(x, 2), [x]


@case
def global_average_pool(lib):
    x = lib.floats(8, 2048, 7, 7)
    return lambda: lib.F.adaptive_avg_pool2d(x, 1), [x]


@case
def nearest_upsampling(lib):
    x = lib.floats(8, 64, 56, 56)
    return lambda: lib.F.interpolate(x, scale_factor=2), [x]


@case
def channels_last(lib):
    x = lib.floats(*IMAGE)
    return lambda: x.contiguous(memory_format=lib.t.channels_last), []


@case
def padding(lib):
    x = lib.floats(*IMAGE)
    return lambda: lib.F.pad(x, (1, 1, 1, 1)), [x]


@case
def sort(lib):
    x = lib.floats(256, 4096, grad=False)
    return lambda: x.sort(-1), []


@case
def top_values(lib):
    x = lib.floats(64, VOCABULARY, grad=False)
    return lambda: x.topk(50), []


def optimizer(name, make):
    def made(lib):
        parameters = [lib.floats(*shape) for shape in [(768, 768), (768, 3072), (3072, 768), (768,), (2304, 768)]]
        for p in parameters:
            p.grad = p.detach() * 0.01
        step = make(lib.t.optim, parameters)
        return step.step, []
    CASES[name] = made


optimizer("AdamW", lambda optim, p: optim.AdamW(p, lr=1e-4))
optimizer("SGD with momentum", lambda optim, p: optim.SGD(p, lr=1e-4, momentum=0.9))


def backward_of(lib, run, wanted):
    """The backward pass alone, of a forward pass that is kept."""
    y = run()
    g = lib.t.ones_like(y)
    return lambda: lib.t.autograd.grad(y, wanted, g, retain_graph=True)


def forward_of(lib, run):
    def forward():
        with lib.t.no_grad():
            return run()
    return forward


def seconds(run):
    start = time.perf_counter()
    result = run()
    took = time.perf_counter() - start
    del result
    return took


def compare(ours, theirs, count):
    """Median seconds of both, taken in turns."""
    for run in (ours, theirs, ours, theirs):
        run()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(count)]
    return [statistics.median(side) for side in zip(*pairs)]


def rows(name, dtype, libraries, count):
    """(direction, our milliseconds, torch's) of a case."""
    made = [CASES[name](lib.start(dtype)) for lib in libraries]
    times = compare(*(forward_of(lib, run) for lib, (run, _) in zip(libraries, made)), count)
    yield "forward", *times
    if made[0][1]:
        if name == "argmax rows":
            return
        times = compare(*(backward_of(lib, *one) for lib, one in zip(libraries, made)), count)
        yield "backward", *times


def main():
    command = parser(__doc__)
    command.add_argument("--only", default="")
    command.add_argument("--dtype", action="append")
    command.add_argument("--count", type=int, default=7)
    options = command.parse_args()
    torch.set_num_threads(2)
    libraries, ratios = [Library(rushlight), Library(torch)], {}
    print(f"{'case':28s} {'dtype':9s} {'':9s} {'ours ms':>9s} {'torch ms':>9s} {'ratio':>6s}")
    for dtype in options.dtype or ["float32", "bfloat16"]:
        for name in CASES:
            if options.only not in name:
                continue
            for direction, ours, theirs in rows(name, dtype, libraries, options.count):
                ratios[name, dtype, direction] = ours / theirs
                print(f"{name:28s} {dtype:9s} {direction:9s} {ours * 1e3:9.3f} {theirs * 1e3:9.3f} "
                      f"{ours / theirs:6.2f}",
                      flush=True)
    print(f"geometric mean {math.exp(statistics.mean(map(math.log, ratios.values()))):.2f} of {len(ratios)}")
    worst = sorted(ratios, key=ratios.get)[-1]
    print(f"worst {ratios[worst]:.2f}: {' '.join(worst)}")
    keep("eager", {" ".join(case): round(ratio, 3) for case, ratio in ratios.items()}, options)


if __name__ == "__main__":
    main()
