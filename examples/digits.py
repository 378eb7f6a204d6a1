"""Trains a small residual network on scikit-learn's handwritten digits and shows its mistakes.

    python -m rushlight examples/digits.py         # or: python examples/digits.py, with PyTorch
"""
import argparse
import os
import tempfile
import time

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    """Two convolutions around a shortcut (He et al. 2015)."""

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                                                 nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


def network():
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Residual(16, 16),
                         Residual(16, 32, 2), Residual(32, 64, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def picture(path, images, truth, guess):
    """The mistakes, as a picture written in one go."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("(no picture: matplotlib is not installed)")
        return
    wrong = [k for k in range(len(truth)) if truth[k] != guess[k]][:16]
    figure, axes = plt.subplots(2, 8, figsize=(9, 3))
    for place in axes.flat:
        place.axis("off")
    for place, k in zip(axes.flat, wrong):
        place.imshow(images[k][0], cmap="gray_r")
        place.set_title(f"{truth[k]} taken for {guess[k]}", fontsize=7)
    figure.suptitle(f"{len(wrong)} mistakes")
    handle, temporary = tempfile.mkstemp(suffix=".png", dir=os.path.dirname(os.path.abspath(path)))
    os.close(handle)
    figure.savefig(temporary, dpi=120)
    os.replace(temporary, path)
    print(f"mistakes: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="digits_mistakes.png")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels))
    test, train = order[:360], order[360:]
    loader = DataLoader(TensorDataset(images[train], labels[train]), batch_size=64, shuffle=True)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=options.epochs, steps_per_epoch=len(loader))
    for epoch in range(1, options.epochs + 1):
        model.train()
        began, total = time.perf_counter(), 0.0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(y)
        model.eval()
        with torch.no_grad():
            guess = model(images[test]).argmax(1)
        accuracy = (guess == labels[test]).float().mean().item()
        print(f"epoch {epoch:2d}  loss {total / len(train):.4f}  test accuracy {accuracy:.2%}  "
              f"{time.perf_counter() - began:.1f} s", flush=True)
    picture(options.picture, images[test].tolist(), labels[test].tolist(), guess.tolist())


if __name__ == "__main__":
    main()
