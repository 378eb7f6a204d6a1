"""BERT (Devlin and others 2018) with the head that guesses masked words; base by default."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    """Attention written out, as in the models of the time."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.norm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.drop_weights, self.drop = nn.Dropout(dropout), nn.Dropout(dropout)

    def split(self, x):
        return x.view(*x.shape[:-1], self.heads, self.size).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size) + mask
        y = torch.matmul(self.drop_weights(F.softmax(scores, dim=-1)), v)
        y = y.permute(0, 2, 1, 3).contiguous().view(x.shape)
        return self.norm(x + self.drop(self.out(y)))


class Layer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.attention = SelfAttention(width, heads, dropout)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm, self.drop = nn.LayerNorm(width, eps=1e-12), nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.attention(x, mask)
        return self.norm(x + self.drop(self.down(F.gelu(self.up(x)))))


class Embeddings(nn.Module):
    def __init__(self, vocabulary, context, width, dropout):
        super().__init__()
        self.word, self.position = nn.Embedding(vocabulary, width, padding_idx=0), nn.Embedding(context, width)
        self.kind, self.norm, self.drop = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12), nn.Dropout(dropout)
        self.register_buffer("places", torch.arange(context).expand((1, -1)))

    def forward(self, ids, kinds):
        x = self.word(ids) + self.kind(kinds) + self.position(self.places[:, :ids.size(1)])
        return self.drop(self.norm(x))


class BERT(nn.Module):
    def __init__(self, vocabulary=30522, context=512, layers=12, heads=12, width=768, dropout=0.0):
        super().__init__()
        self.embeddings = Embeddings(vocabulary, context, width, dropout)
        self.layers = nn.ModuleList([Layer(width, heads, dropout) for _ in range(layers)])
        self.transform, self.norm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.decoder = nn.Linear(width, vocabulary)
        self.decoder.weight = self.embeddings.word.weight
        self.apply(start)

    def forward(self, ids, attended, targets=None):
        """The scores of all words, or with ``targets`` (-100: not asked) the loss."""
        mask = (1.0 - attended[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        x = self.embeddings(ids, torch.zeros_like(ids))
        for layer in self.layers:
            x = layer(x, mask)
        scores = self.decoder(self.norm(F.gelu(self.transform(x))))
        if targets is None:
            return scores
        return F.cross_entropy(scores.view(-1, scores.shape[-1]), targets.view(-1))


def start(module):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        module.weight.data.normal_(mean=0.0, std=0.02)
