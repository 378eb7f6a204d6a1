"""Models of PyTorch that are written as TorchScript: {name: () -> (the module, its arguments)}."""
from typing import Dict, List, Optional

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6)
        self.first, self.second = nn.Conv2d(6, 6, 3, 1, 1, bias=False), nn.BatchNorm2d(6)
        self.relu, self.pool, self.last = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), nn.Linear(6, 4)

    def forward(self, x):
        x = self.pool(F.relu(self.norm(self.stem(x))))
        y = self.second(self.first(x))
        y += x
        return self.last(torch.flatten(F.adaptive_avg_pool2d(self.relu(y), (1, 1)), 1))


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU6(inplace=True), nn.Conv2d(8, 8, 3, 2, 1, groups=8),
                                  nn.Hardswish(), nn.Dropout(0.2))

    def forward(self, x):
        return self.body(x).mean([2, 3])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(20, 8), nn.LayerNorm(8)
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.inner = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)

    def forward(self, ids, mask: Optional[torch.Tensor] = None):
        x = self.words(ids)
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / 4 ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        x = self.norm(x + torch.matmul(F.softmax(scores, -1), v).transpose(1, 2).contiguous().view(x.shape))
        return self.norm(x + self.inner(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.cells, self.last = nn.Embedding(9, 4), nn.LSTM(4, 5, 2, batch_first=True), nn.Linear(5, 9)

    def forward(self, ids):
        y, (h, c) = self.cells(self.words(ids))
        return self.last(y), h, c


class Head(nn.Module):
    """Boxes of which those are kept that overlap no better one: what is computed depends on data."""

    def __init__(self):
        super().__init__()
        self.limit, self.layer = 0.2, nn.Conv2d(3, 5, 3, padding=1)
        self.register_buffer("anchor", torch.tensor([1.0, 2.0]))

    def kept(self, boxes: torch.Tensor, scores: torch.Tensor, limit: float) -> torch.Tensor:
        order = torch.argsort(scores, descending=True)
        found: List[int] = []
        gone = torch.zeros(boxes.shape[0], dtype=torch.bool)
        for k in range(order.numel()):
            i = int(order[k].item())
            if bool(gone[i]):
                continue
            found.append(i)
            low, high = torch.max(boxes[i, :2], boxes[:, :2]), torch.min(boxes[i, 2:], boxes[:, 2:])
            size = (high - low).clamp(min=0)
            both = size[:, 0] * size[:, 1]
            area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
            gone = gone | (both / (area + area[i] - both) > limit)
        return torch.tensor(found, dtype=torch.long)

    def forward(self, x: torch.Tensor) -> Dict[str, torch.Tensor]:
        out: Dict[str, torch.Tensor] = {}
        y = self.layer(x)[0].flatten(1).t()
        scores = y[:, 4].sigmoid()
        if not bool((y[:, 4] < 100.0).all()):
            raise RuntimeError("scores are too large")
        boxes = torch.cat([y[:, :2], y[:, :2] + y[:, 2:4].abs() * self.anchor[0]], 1)
        found = self.kept(boxes, scores, self.limit)
        n = 0
        while n < 3 and n < found.numel():
            n += 1
        if found.numel() == 0:
            out["none"] = boxes
        else:
            out["boxes"], out["scores"] = boxes[found[:n]], scores[found[:n]]
        assert n >= 0, f"{n} is negative"
        return out


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    return nn.Sequential(nn.Embedding(20, 8), nn.TransformerEncoder(layer, 2))


IMAGE, WORDS = (2, 3, 16, 16), (2, 5)
MODELS = {"residual": lambda: (Residual(), (torch.randn(IMAGE),)),
          "mobile": lambda: (Mobile(), (torch.randn(IMAGE),)),
          "attention": lambda: (Attention(), (torch.randint(0, 20, WORDS),)),
          "encoder": lambda: (encoder(), (torch.randint(0, 20, WORDS),)),
          "recurrent": lambda: (Recurrent(), (torch.randint(0, 9, WORDS),)),
          "head": lambda: (Head(), (torch.randn(1, 3, 6, 6),))}
