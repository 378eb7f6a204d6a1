"""A token of GPT-2 (124M parameters, a static cache of 512 places): milliseconds, and the share of memory bandwidth
that it takes, by the dtype of the weights.

A token reads all weights and the cache once.  Bandwidth is that of a sum over a buffer of as many bytes, by our own
kernel, in turns with the tokens.  "int8" calls ``_weight_int8pack_mm``, "int8 cast" writes
``F.linear(x, w.to(x.dtype)) * scale``, "int4" calls ``_weight_int4pack_mm_for_cpu`` with groups of 128 (and a
vocabulary that is filled up to a multiple of 16); all with activations of bfloat16.

    python -m benchmarks.decode --threads 1 --weights float32,int8
"""
import importlib
import time

from .models import load
from .results import keep, parser

WEIGHTS = ("float32", "bfloat16", "int8", "int8 cast", "int4")
CONTEXT = 512


def quantized(t, linear, cast):
    """A module that computes what a Linear does, with weights of bytes and a scale a row."""
    functional = t.nn.functional

    class Quantized(t.nn.Module):
        def __init__(self):
            super().__init__()
            scales = linear.weight.detach().float().abs().amax(1) / 127
            self.register_buffer("weight", (linear.weight.detach().float() / scales[:, None]).round().to(t.int8))
            self.register_buffer("scales", scales.to(t.bfloat16))
            self.bias = linear.bias

        def forward(self, x):
            flat = x.reshape(-1, x.shape[-1])
            out = functional.linear(flat, self.weight.to(x.dtype)) * self.scales if cast else t._weight_int8pack_mm(
                flat, self.weight, self.scales)
            return (out if self.bias is None else out + self.bias).reshape(*x.shape[:-1], -1)

    return Quantized()


def four_bits(t, linear, group=128):
    """A module that computes what a Linear does, with int4 weights, and a scale and a zero point for each group of
    adjacent weights of a row."""
    class FourBits(t.nn.Module):
        def __init__(self):
            super().__init__()
            rows = linear.weight.detach().float()
            rows = t.cat([rows, rows.new_zeros(-len(rows) % 16, rows.shape[1])])
            groups = rows.reshape(len(rows), -1, group)
            least, most = groups.amin(2), groups.amax(2)
            scales = (most - least).clamp(min=1e-6) / 15
            numbers = ((groups - least[:, :, None]) / scales[:, :, None]).round().to(t.int32).reshape(rows.shape)
            self.register_buffer("weight", t._convert_weight_to_int4pack_for_cpu(numbers, 2))
            self.register_buffer("scales", t.stack([scales.T, (least + 8 * scales).T], 2).to(t.bfloat16).contiguous())
            self.bias, self.rows = linear.bias, linear.weight.shape[0]

        def forward(self, x):
            out = t._weight_int4pack_mm_for_cpu(x.reshape(-1, x.shape[-1]), self.weight, group,
                                                self.scales)[:, :self.rows]
            return (out if self.bias is None else out + self.bias).reshape(*x.shape[:-1], -1)

    return FourBits()


def decoder(t, weights):
    """(the model, how many bytes a token reads)."""
    t.manual_seed(0)
    model = load("gpt2", t).Decoder(context=CONTEXT).eval()
    if weights != "float32":
        model = model.to(t.bfloat16)
    found = [(parent, name, child) for parent in model.modules() for name, child in parent.named_children()
             if isinstance(child, t.nn.Linear)]
    if weights.startswith("int"):
        for parent, name, child in found:
            setattr(parent, name, four_bits(t, child) if weights == "int4"
                    else quantized(t, child, weights == "int8 cast"))
        found = [(parent, name, getattr(parent, name)) for parent, name, _ in found]
    read = [child.weight for _, _, child in found] + [b for name, b in model.named_buffers()
                                                      if name.endswith((".keys", ".values", ".scales"))]
    return model, sum(x.numel() * x.element_size() for x in read)


def stepper(t, model, compiled):
    """A function that computes a token."""
    forward = t.compile(model) if compiled else model
    ids, place = t.tensor([[3]]), t.tensor([CONTEXT // 2])

    def step():
        with t.no_grad():
            return forward(ids, place).float().sum().item()

    return step


def measure(weights, systems, threads, rounds):
    """Milliseconds of a token by system, and those of reading as many bytes; printed as well."""
    import rushlight

    clock = time.thread_time if threads == 1 else time.perf_counter
    runs = {}
    for system in systems:
        library, _, compiled = system.partition(".")
        t = importlib.import_module(library)
        t.set_num_threads(threads)
        model, size = decoder(t, weights)
        runs[system] = stepper(t, model, bool(compiled))
    buffer = rushlight.ones(size // 4)
    runs["read"] = lambda: buffer.sum().item()
    least = dict.fromkeys(runs, float("inf"))
    for run in runs.values():
        run()
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            began = clock()
            run()
            least[name] = min(least[name], 1e3 * (clock() - began))
    print(f"{weights}: {size / 1e6:.0f} MB, read in {least['read']:.2f} ms ({size / least['read'] / 1e6:.1f} GB/s)")
    for system in systems:
        print(f"  {system}: {least[system]:.2f} ms, {least['read'] / least[system]:.2f} of bandwidth", flush=True)
    return {"megabytes": size / 1e6, "milliseconds": least}


def main():
    command = parser(__doc__)
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--rounds", type=int, default=10)
    command.add_argument("--weights", default=",".join(WEIGHTS))
    command.add_argument("--systems", default="rushlight.compile,torch")
    options = command.parse_args()
    figures = {weights: measure(weights, options.systems.split(","), options.threads, options.rounds)
               for weights in options.weights.split(",")}
    keep("decode", figures, options)


if __name__ == "__main__":
    main()
