"""Small models whose layers tests split."""
from __future__ import annotations

import dataclasses

from ..... import arange, manual_seed, nn, ones, rsqrt
from .....distributed.tensor import Replicate, Shard
from .....distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput,
                                              RowwiseParallel, SequenceParallel, parallelize_module)
from .....nn import functional
from .....utils.checkpoint import checkpoint


class RMSNormPython(nn.Module):
    """x / sqrt(mean(x²) + eps) · weight over the last dimension."""

    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(ones(dim))

    def forward(self, x):
        return x * rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class MLPModule(nn.Module):
    """10 -> 16 -> 10, with the same weights each time."""

    def __init__(self, device, bias: bool = True):
        super().__init__()
        manual_seed(5)
        self.net1, self.relu = nn.Linear(10, 16, bias, device=device), nn.ReLU()
        self.net2 = nn.Linear(16, 10, bias, device=device)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))

    def reset_parameters(self):
        self.net1.reset_parameters()
        self.net2.reset_parameters()


class MLPStacked(nn.Module):
    """``n_layers`` of ``MLPModule``."""

    def __init__(self, device, n_layers: int = 2):
        super().__init__()
        self.layers = nn.ModuleList([MLPModule(device) for _ in range(n_layers)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@dataclasses.dataclass
class ModelArgs:
    """Sizes of a ``Transformer``."""

    n_layers: int = 2
    vocab_size: int = 8
    max_seq_len: int = 16
    dim: int = 16
    n_heads: int = 4
    dropout_p: float = 0.1
    use_attn_mask: bool = True
    weight_tying: bool = True
    checkpoint_activations: bool = False
    num_experts: int = 0


class Attention(nn.Module):
    """Attention whose number of heads is read at each call: sharded layers have fewer of them in a process."""

    def __init__(self, args: ModelArgs):
        super().__init__()
        self.head_dim, self.n_heads = args.dim // args.n_heads, args.n_heads
        self.dropout_p, self.use_attn_mask = args.dropout_p, args.use_attn_mask
        self.resid_dropout = nn.Dropout(args.dropout_p)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(args.dim, args.dim, bias=False) for _ in range(4))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (layer(x).view(batch, length, self.n_heads, self.head_dim).transpose(1, 2)
                   for layer in (self.wq, self.wk, self.wv))
        y = functional.scaled_dot_product_attention(q, k, v, None, self.dropout_p if self.training else 0.0,
                                                    self.use_attn_mask)
        return self.resid_dropout(self.wo(y.transpose(1, 2).contiguous().view(batch, length, -1)))


class FeedForward(nn.Module):
    """Two layers with GELU between them."""

    def __init__(self, dim: int, hidden_dim: int, dropout_p: float):
        super().__init__()
        self.w1, self.gelu, self.w2 = nn.Linear(dim, hidden_dim), nn.GELU(), nn.Linear(hidden_dim, dim)
        self.resid_dropout = nn.Dropout(dropout_p)

    def forward(self, x):
        return self.resid_dropout(self.w2(self.gelu(self.w1(x))))


class TransformerBlock(nn.Module):
    """Attention and layers, each after a norm and with a residual connection."""

    def __init__(self, args: ModelArgs):
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(args.dim), Attention(args)
        self.ffn_norm, self.feed_forward = nn.LayerNorm(args.dim), FeedForward(args.dim, 4 * args.dim, args.dropout_p)

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    """Tokens [batch, length] to scores [batch, length, vocab_size], in float32."""

    def __init__(self, args: ModelArgs):
        super().__init__()
        if args.num_experts:
            raise NotImplementedError("Transformer: experts")
        self.model_args, self.max_seq_len = args, args.max_seq_len
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.pos_embeddings, self.dropout = nn.Embedding(args.max_seq_len, args.dim), nn.Dropout(args.dropout_p)
        self.layers = nn.ModuleList([TransformerBlock(args) for _ in range(args.n_layers)])
        self.norm, self.output = nn.LayerNorm(args.dim), nn.Linear(args.dim, args.vocab_size, bias=False)
        if args.weight_tying:
            self.output.weight = self.tok_embeddings.weight
        self.checkpoint_activations = args.checkpoint_activations

    def forward(self, tokens):
        h = self.tok_embeddings(tokens) + self.pos_embeddings(arange(tokens.shape[1], device=tokens.device))
        h = self.dropout(h)
        for layer in self.layers:
            h = checkpoint(layer, h, use_reentrant=False) if self.checkpoint_activations else layer(h)
        return self.output(self.norm(h)).float()

    @staticmethod
    def parallelize(module, device_mesh, use_seq_parallel: bool, local_output_for_attn: bool = False):
        """Splits the layers of a model over a row of processes, with sequences split between them where asked; the
        model."""
        if not isinstance(module, Transformer):
            raise AssertionError(f"Requires Transformer but got {module}")
        between = Shard(1) if use_seq_parallel else Replicate()
        plan = {"tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
                "pos_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
                if not use_seq_parallel else ColwiseParallel(output_layouts=Shard(0)),
                "output": ColwiseParallel(input_layouts=between, output_layouts=Replicate())}
        if use_seq_parallel:
            plan["dropout"] = plan["norm"] = SequenceParallel()
        module = parallelize_module(module, device_mesh, plan)
        for layer in module.layers:
            parallelize_module(layer, device_mesh, layer_plan(use_seq_parallel, local_output_for_attn))
            if local_output_for_attn:
                layer.attention.n_heads = module.model_args.n_heads // device_mesh.size()
        if module.model_args.weight_tying:
            module.output.weight = module.tok_embeddings.weight
        return module


def layer_plan(sequence: bool, local: bool) -> dict:
    """Return the sharding plan of a block's layers."""
    plan = {f"attention.{name}": ColwiseParallel(use_local_output=local) for name in ("wq", "wk", "wv")}
    between = Shard(1) if sequence else Replicate()
    plan |= {"attention.wo": RowwiseParallel(output_layouts=between),
             "feed_forward.w1": ColwiseParallel(input_layouts=between),
             "feed_forward.w2": RowwiseParallel(output_layouts=between)}
    if sequence:
        plan |= {"attention_norm": SequenceParallel(), "ffn_norm": SequenceParallel(),
                 "attention": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
                 "attention.resid_dropout": SequenceParallel(),
                 "feed_forward.resid_dropout": SequenceParallel()}
    return plan


__all__ = ["MLPModule", "MLPStacked", "ModelArgs", "RMSNormPython", "Transformer"]
