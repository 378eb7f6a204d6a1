"""Models of torch-geometric on a graph of 20 nodes."""
from __future__ import annotations

import numpy as np

from . import Made, numbers, whole

PLAIN = {"pyg_GCN": "GCN", "pyg_GraphSAGE": "GraphSAGE", "pyg_GAT": "GAT", "pyg_GIN": "GIN", "pyg_PNA": "PNA",
         "pyg_EdgeCNN": "EdgeCNN"}
NAMES = [*PLAIN, "pyg_GATv2", "pyg_GPSConvTransformer", "pyg_RGCN", "pyg_dataloader_pool"]


def build(torch, name):
    import torch_geometric.nn as layers

    nodes, edges = numbers(20, 8), whole(0, 20, 2, 60)
    given = {"x": nodes, "edges": edges}
    if name in PLAIN:
        more = {"aggregators": ["mean", "max", "std"], "scalers": ["identity", "amplification"],
                "deg": torch.tensor([1, 4, 8, 7])} if name == "pyg_PNA" else {}
        return Made(getattr(layers, PLAIN[name])(8, 16, 2, 4, **more), given, lambda model, x, edges: model(x, edges))
    if name == "pyg_GATv2":
        return Made(layers.GAT(8, 16, 2, 4, v2=True, heads=2, edge_dim=3), {**given, "attr": numbers(60, 3, seed=5)},
                    lambda model, x, edges, attr: model(x, edges, edge_attr=attr))
    if name == "pyg_GPSConvTransformer":
        inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
        model = layers.GPSConv(8, layers.GINConv(inner), heads=2, dropout=0.0)
        return Made(model, {**given, "batch": np.repeat([0, 1], 10)},
                    lambda model, x, edges, batch: model(x, edges, batch))
    if name == "pyg_RGCN":
        return Made(layers.RGCNConv(8, 6, 3, num_bases=2), {**given, "kind": whole(0, 3, 60, seed=6)},
                    lambda model, x, edges, kind: model(x, edges, kind))
    return Made(Pooled(torch, layers), {}, lambda model: model())


def Pooled(torch, layers):
    """A classifier of whole graphs, fed by a loader of graphs of different sizes."""
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.last = layers.SAGEConv(8, 16), layers.GraphConv(16, 16), torch.nn.Linear(
                32, 3)

        def forward(self):
            dtype = self.last.weight.dtype
            graphs = [Data(x=torch.from_numpy(numbers(k + 3, 8, seed=k)).to(dtype),
                           edge_index=torch.from_numpy(whole(0, k + 3, 2, 2 * k + 4, seed=k))) for k in range(9)]
            results = []
            for batch in DataLoader(graphs, batch_size=4):
                x = self.second(self.first(batch.x, batch.edge_index).relu(), batch.edge_index).relu()
                results.append(self.last(torch.cat([layers.global_mean_pool(x, batch.batch),
                                                    layers.global_max_pool(x, batch.batch)], 1)))
            return torch.cat(results)

    return Classifier()
