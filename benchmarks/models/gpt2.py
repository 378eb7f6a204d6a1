"""GPT-2 (Radford and others 2019), small by default, and the same model writing one token at a time into a cache."""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def heads_of(self, x):
        b, t, c = x.shape
        return [y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).split(c, dim=2)]

    def forward(self, x):
        q, k, v = self.heads_of(x)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class CachedAttention(Attention):
    """Keeps keys and values of all places; ``place`` tells where the new ones go."""

    def __init__(self, width, heads, context):
        super().__init__(width, heads)
        self.register_buffer("keys", torch.zeros(1, heads, context, width // heads))
        self.register_buffer("values", torch.zeros(1, heads, context, width // heads))

    def forward(self, x, place, mask):
        q, k, v = self.heads_of(x)
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, attention, width):
        super().__init__()
        self.attention = attention
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, *where):
        x = x + self.attention(self.norm1(x), *where)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, vocabulary=50257, context=1024, layers=12, heads=12, width=768, cached=False):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([
            Block(CachedAttention(width, heads, context) if cached else Attention(width, heads), width)
            for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight
        self.register_buffer("places", torch.arange(context))
        self.apply(start)

    def forward(self, ids):
        x = self.token(ids) + self.position(self.places[:ids.shape[1]])
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Decoder(GPT2):
    """Reads one token at a place (a tensor of one element) and knows those before."""

    def __init__(self, **sizes):
        super().__init__(cached=True, **sizes)

    def forward(self, ids, place):
        x = self.token(ids) + self.position(place)
        mask = (self.places <= place)[None, None, None]
        for block in self.blocks:
            x = block(x, place, mask)
        return self.head(self.norm(x))


def start(module):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
