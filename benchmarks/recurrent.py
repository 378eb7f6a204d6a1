"""Recurrent layers beside PyTorch's: processor milliseconds of a training step and of inference, uncompiled and
compiled, in turns on one thread.

    python -m benchmarks.recurrent --layers LSTM,GRU --sizes 35x20x650x2     steps x batch x size x layers
"""
import importlib
import time

from .results import keep, parser

LAYERS, SIZES = "LSTM,GRU,RNN", "35x20x650x2,50x32x256x1,20x1x512x1"
SYSTEMS = {"torch": ("torch", False), "uncompiled": ("rushlight", False), "compiled": ("rushlight", True)}


def runs(layer, steps, batch, size, layers):
    """{part: {system: a function that does it once}}."""
    found = {"training": {}, "inference": {}}
    for name, (library, compiled) in SYSTEMS.items():
        t = importlib.import_module(library)
        t.set_num_threads(1)
        t.manual_seed(0)
        module = getattr(t.nn, layer)(size, size, layers)
        call, x = t.compile(module) if compiled else module, t.randn(steps, batch, size)

        def training(module=module, call=call, x=x.clone().requires_grad_()):
            call(x)[0].square().sum().backward()
            for tensor in (x, *module.parameters()):
                tensor.grad = None

        def inference(t=t, call=call, x=x):
            with t.no_grad():
                call(x)

        found["training"][name], found["inference"][name] = training, inference
    return found


def measure(layer, sizes, rounds):
    """Least milliseconds by part and system; printed as ratios as well."""
    figures = {}
    for part, systems in runs(layer, *sizes).items():
        least = dict.fromkeys(systems, float("inf"))
        for turn in range(rounds + 3):
            for name, run in systems.items():
                began = time.thread_time()
                run()
                if turn >= 3:
                    least[name] = min(least[name], 1e3 * (time.thread_time() - began))
        ratios = ", ".join(f"{name} {ms:.2f} ({ms / least['torch']:.2f})" for name, ms in least.items())
        print(f"{layer} {'x'.join(map(str, sizes))} {part}: {ratios}", flush=True)
        figures[part] = least
    return figures


def main():
    command = parser(__doc__)
    command.add_argument("--layers", default=LAYERS)
    command.add_argument("--sizes", default=SIZES)
    command.add_argument("--rounds", type=int, default=6)
    options = command.parse_args()
    figures = {f"{layer} {sizes}": measure(layer, tuple(map(int, sizes.split("x"))), options.rounds)
               for layer in options.layers.split(",") for sizes in options.sizes.split(",")}
    keep("recurrent", figures, options)


if __name__ == "__main__":
    main()
