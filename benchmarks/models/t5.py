"""T5 (Raffel and others 2019): an encoder and a decoder with relative positions; small by default."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class RootMeanNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def bucket(distance, both_ways, buckets=32, furthest=128):
    """Near distances have a bucket each, farther ones share."""
    found = 0
    if both_ways:
        buckets //= 2
        found = (distance > 0).to(torch.long) * buckets
        distance = torch.abs(distance)
    else:
        distance = -torch.min(distance, torch.zeros_like(distance))
    exact = buckets // 2
    far = exact + (torch.log(distance.float() / exact) / math.log(furthest / exact) * (buckets - exact)).to(torch.long)
    far = torch.min(far, torch.full_like(far, buckets - 1))
    return found + torch.where(distance < exact, distance, far)


class Attention(nn.Module):
    def __init__(self, width, heads, size, relative=False, both_ways=True):
        super().__init__()
        self.heads, self.size, self.both_ways = heads, size, both_ways
        self.q, self.k, self.v = (nn.Linear(width, heads * size, bias=False) for _ in range(3))
        self.o = nn.Linear(heads * size, width, bias=False)
        self.relative = nn.Embedding(32, heads) if relative else None

    def bias(self, queries, keys):
        distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
        return self.relative(bucket(distance, self.both_ways)).permute(2, 0, 1).unsqueeze(0)

    def split(self, x):
        return x.view(x.shape[0], -1, self.heads, self.size).transpose(1, 2)

    def forward(self, x, memory=None, bias=None):
        """The result and the bias that later layers share."""
        given = x if memory is None else memory
        q, k, v = self.split(self.q(x)), self.split(self.k(given)), self.split(self.v(given))
        scores = torch.matmul(q, k.transpose(3, 2))
        if bias is None and self.relative is not None:
            bias = self.bias(scores.shape[2], scores.shape[3])
            if not self.both_ways:
                later = torch.ones(scores.shape[2], scores.shape[3]).triu(1)
                bias = bias + later * torch.finfo(scores.dtype).min
        if bias is not None:
            scores = scores + bias
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        y = torch.matmul(weights, v).transpose(1, 2).contiguous().view(x.shape[0], -1, self.heads * self.size)
        return self.o(y), bias


class Layer(nn.Module):
    def __init__(self, width, heads, size, inner, decoder, first):
        super().__init__()
        self.itself, self.norm1 = Attention(width, heads, size, first, not decoder), RootMeanNorm(width)
        self.other, self.norm2 = (Attention(width, heads, size), RootMeanNorm(width)) if decoder else (None, None)
        self.up, self.down, self.norm3 = nn.Linear(width, inner, bias=False), nn.Linear(inner, width,
                                                                                        bias=False), RootMeanNorm(width)

    def forward(self, x, memory, bias):
        y, bias = self.itself(self.norm1(x), bias=bias)
        x = x + y
        if self.other is not None:
            x = x + self.other(self.norm2(x), memory)[0]
        return x + self.down(F.relu(self.up(self.norm3(x)))), bias


class Stack(nn.Module):
    def __init__(self, embedding, layers, width, heads, size, inner, decoder):
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList([Layer(width, heads, size, inner, decoder, k == 0) for k in range(layers)])
        self.norm = RootMeanNorm(width)

    def forward(self, ids, memory=None):
        x, bias = self.embedding(ids), None
        for layer in self.layers:
            x, bias = layer(x, memory, bias)
        return self.norm(x)


class T5(nn.Module):
    def __init__(self, vocabulary=32128, layers=6, width=512, heads=8, size=64, inner=2048):
        super().__init__()
        self.width = width
        self.shared = nn.Embedding(vocabulary, width)
        self.encoder = Stack(self.shared, layers, width, heads, size, inner, False)
        self.decoder = Stack(self.shared, layers, width, heads, size, inner, True)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.shared.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.05)

    def forward(self, ids, targets):
        """The loss of the targets, which the decoder reads shifted by one."""
        given = targets.new_zeros(targets.shape)
        given[:, 1:] = targets[:, :-1].clone()
        x = self.decoder(given, self.encoder(ids)) * self.width ** -0.5
        scores = self.head(x)
        return F.cross_entropy(scores.view(-1, scores.size(-1)), targets.view(-1))


class Encoder(T5):
    """What the encoder makes of words: [batch, length] -> [batch, length, width]."""

    def forward(self, ids):
        return self.encoder(ids)
