"""A recommendation model after DLRM (Naumov and others 2019): tables of embeddings, and products of all pairs."""
import torch
from torch import nn
from torch.nn import functional as F


def layers(sizes):
    made = []
    for before, after in zip(sizes, sizes[1:]):
        made += [nn.Linear(before, after), nn.ReLU()]
    return made


class DLRM(nn.Module):
    def __init__(self, tables=26, rows=10000, width=64, dense=13, bottom=(512, 256), top=(512, 256)):
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)])
        self.bottom = nn.Sequential(*layers((dense, *bottom, width)))
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(*layers((width + pairs, *top)), nn.Linear(top[-1], 1))
        at = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        self.register_buffer("row", at[0])
        self.register_buffer("column", at[1])

    def forward(self, dense, sparse):
        """Scores of [batch, dense] numbers and [tables, batch, several] rows."""
        x = self.bottom(dense)
        features = torch.stack([x] + [bag(sparse[k]) for k, bag in enumerate(self.bags)], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))[:, self.row, self.column]
        return self.top(torch.cat([x, products], dim=1)).squeeze(1)
