"""Trains the network of ``digits.py`` and packages it as WebAssembly, for the page beside this file.

    python -m rushlight examples/web/make.py
    python -m http.server --directory examples/web     # then open http://localhost:8000
"""
import argparse
import pathlib
import sys
import zipfile

import torch
from sklearn.datasets import load_digits
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from digits import network  # noqa: E402


def data():
    """(pictures from -1 to 1, digits), in an order by chance."""
    digits = load_digits()
    images, labels = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1, torch.tensor(digits.target)
    order = torch.randperm(len(labels))
    return images[order], labels[order]


def moved(images):
    """Pictures moved by up to one pixel, so that it matters less where a digit was drawn."""
    down, right = torch.randint(0, 3, (2,)).tolist()
    return F.pad(images, (1, 1, 1, 1), value=-1.0)[:, :, down:down + 8, right:right + 8]


def trained(images, labels, epochs):
    """The network after so many epochs."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=epochs, steps_per_epoch=-(-len(labels) // 64))
    for _ in range(epochs):
        for x, y in zip(images.split(64), labels.split(64)):
            loss = F.cross_entropy(model(moved(x)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--folder", type=pathlib.Path, default=HERE)
    options = parser.parse_args()
    torch.manual_seed(0)
    images, labels = data()
    model = trained(images[360:], labels[360:], options.epochs)
    with torch.no_grad():
        right = (model(images[:360]).argmax(1) == labels[:360]).float().mean().item()
        program = torch.export.export(model, (images[:1],))
    package = options.folder / "digits.pt2"
    torch._inductor.aoti_compile_and_package(program, package_path=str(package), target="wasm32")
    with zipfile.ZipFile(package) as file:
        for name, entry in (("digits.wasm", "data/aotinductor/model/model.wasm"),
                            ("rushlight.mjs", "include/rushlight.mjs")):
            (options.folder / name).write_bytes(file.read(f"package/{entry}"))
    size = (options.folder / "digits.wasm").stat().st_size
    print(f"test accuracy {right:.2%}, digits.wasm {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
