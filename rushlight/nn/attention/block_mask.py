"""BlockMask: a block-sparse attention mask, so that attention skips fully masked blocks."""
from __future__ import annotations

from ..._src.core.devices import placed
from ..._src.core.dtypes import bool_, int32, int64, uint8
from ..._src.core.op import OPS, make
from ..._src.core.tensor import Tensor
from .mods import WHERE, ScalarGraph

BLOCK = 128  # queries, and keys, of a block unless said otherwise


def noop_mask(batch, head, token_q, token_kv):
    """Every query may look at every key."""
    return OPS["full"]((), True)


def and_masks(*mask_mods):
    """A mask_mod that allows what all of these allow."""
    check_functions(mask_mods)

    def and_mask(b, h, q_idx, kv_idx):
        result = OPS["full"]((), True)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return and_mask


def or_masks(*mask_mods):
    """A mask_mod that allows what any of these allows."""
    check_functions(mask_mods)

    def or_mask(b, h, q_idx, kv_idx):
        result = OPS["full"]((), False)
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return or_mask


def check_functions(mask_mods):
    if not all(callable(mask) for mask in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


class BlockMask:
    """A mask in blocks: of each row of blocks of queries, which blocks of keys to visit.

    ``kv_num_blocks`` [b, h, rows] int32 and ``kv_indices`` [b, h, rows, columns] int32 list the blocks where
    ``mask_mod`` decides for every score; ``full_kv_num_blocks`` and ``full_kv_indices`` those where every query may
    look. b and h may be 1, for all. ``BLOCK_SIZE``: queries and keys of a block. The q_ tensors are the same, listed by
    blocks of keys.
    """

    def __init__(self, seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None,
                 q_num_blocks=None, q_indices=None,
                 full_q_num_blocks=None, full_q_indices=None, BLOCK_SIZE=(BLOCK, BLOCK), mask_mod=None):
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        self.seq_lengths, self.kv_num_blocks, self.kv_indices = tuple(seq_lengths), kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
        self.mask_mod = mask_mod or noop_mask
        self.states = states_of(kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None, BLOCK_SIZE=BLOCK,
                       mask_mod=None,
                       seq_lengths=None, compute_q_blocks=True):
        """A BlockMask from what to visit by rows; the lists by blocks of keys are computed."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1]
        across = [None] * 4
        if compute_q_blocks:
            across[:2] = listed(visited(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_num_blocks is not None:
                across[2:] = listed(visited(full_kv_num_blocks, full_kv_indices).transpose(-2, -1))
        return cls(seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *across, size, mask_mod)

    # what compiled attention reads
    captured_attributes = ("seq_lengths", "BLOCK_SIZE", "mask_mod", "states", "full_kv_num_blocks")
    TENSORS = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
               "full_q_num_blocks",
               "full_q_indices")

    def as_tuple(self, flatten=True):
        """The lengths, the eight tensors, the block sizes and the mask_mod; ``flatten``: lengths and sizes as single
        values."""
        lengths, sizes = (self.seq_lengths, self.BLOCK_SIZE) if flatten else ((self.seq_lengths,), (self.BLOCK_SIZE,))
        return (*lengths, *(getattr(self, name) for name in self.TENSORS), *sizes, self.mask_mod)

    @property
    def shape(self):
        """[b, h, queries, keys]."""
        return (*self.states.shape[:2], *self.seq_lengths)

    def to_dense(self) -> Tensor:
        """[b, h, rows, columns] int32: 1 for blocks that are visited."""
        return (self.states > 0).to(int32).reshape(self.kv_indices.shape)

    def numel(self):
        """How many scores there are."""
        count = 1
        for n in self.shape:
            count *= n
        return count

    def sparsity(self) -> float:
        """Percentage of the scores in skipped blocks."""
        visits = int(self.to_dense().sum()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - visits / self.numel())

    def to(self, device):
        """The same on a device."""
        tensors = {name: t if t is None else t.to(device)
                   for name, t in ((name, getattr(self, name)) for name in self.TENSORS)}
        return BlockMask(self.seq_lengths, **tensors, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)

    def __getitem__(self, index):
        """Some batches, heads or rows of blocks; queries keep their numbers, so mask_mod may want an offset."""
        index = index if isinstance(index, tuple) else (index,)
        index = tuple(slice(i + n if i < 0 else i, (i + n if i < 0 else i) + 1) if isinstance(i, int) else i
                      for i, n in zip(index, self.kv_num_blocks.shape))
        rows = {name: t if t is None else t[index]
                for name, t in ((name, getattr(self, name)) for name in self.TENSORS[:4])}
        lengths = rows["kv_num_blocks"].shape[-1] * self.BLOCK_SIZE[0], self.seq_lengths[1]
        if len(index) < 3 or isinstance(index[2], slice) and index[2] == slice(None):
            lengths = self.seq_lengths
        return BlockMask.from_kv_blocks(**rows, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod, seq_lengths=lengths,
                                        compute_q_blocks=self.q_indices is not None)

    def to_string(self, grid_size=(20, 20), limit=4):
        """A picture of each head: full blocks, visited ones, and gaps, in a grid of at most this size."""
        states = self.states.cpu().numpy()
        high, wide = states.shape[-2:] if grid_size == -1 else grid_size
        lines = []
        for place, head in enumerate(states.reshape(-1, *states.shape[-2:])[:limit]):
            lines.append(str((place // states.shape[1], place % states.shape[1])))
            lines += picture(head, min(high, head.shape[0]), min(wide, head.shape[1]))
        if len(states.reshape(-1, *states.shape[-2:])) > limit:
            lines.append("...")
        return "\n".join(lines)

    def __str__(self):
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%,\n{self.to_string()}\n)"

    def __repr__(self):
        shapes = ", ".join(f"{name}={None if t is None else tuple(t.shape)}"
                           for name, t in ((n, getattr(self, n)) for n in self.TENSORS))
        return (f"BlockMask(shape={self.shape}, {shapes}, BLOCK_SIZE={self.BLOCK_SIZE}, "
                f"sparsity={self.sparsity():.2f}%, mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)})")


def picture(states, high, wide):
    """Lines of a grid; a place that stands for several blocks shows the fullest of what they have in common."""
    rows, columns = states.shape
    for i in range(high):
        part = states[i * rows // high:max((i + 1) * rows // high, i * rows // high + 1)]
        cells = (part[:, j * columns // wide:max((j + 1) * columns // wide, j * columns // wide + 1)]
                 for j in range(wide))
        yield "".join("██" if cell.min() == 2 else "░░" if cell.max() > 0 else "  " for cell in cells).rstrip()


def states_of(kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices) -> Tensor:
    """Return [b, h, rows, columns] uint8: 0, fully masked; 1, the mask decides; 2, full."""
    states = visited(kv_num_blocks, kv_indices).to(uint8)
    if full_kv_num_blocks is not None:
        states = states.maximum(visited(full_kv_num_blocks, full_kv_indices).to(uint8) * 2)
    return states.reshape(*([1] * (4 - states.dim())), *states.shape).contiguous()


def listed(visits):
    """(how many blocks each row visits, which: those first), both int32, from [.., rows, columns] bools."""
    order = visits.to(int32).argsort(dim=-1, descending=True, stable=True)
    return visits.sum(-1).to(int32), order.to(int32).contiguous()


def visited(counts, indices):
    """[.., rows, columns] bools from how many blocks each row visits and which; what else a row lists means nothing."""
    columns = indices.shape[-1]
    there = OPS["arange"](columns, device=counts.device) < counts.unsqueeze(-1)
    # what means nothing, as pages that are not there do, goes to a column of its own
    places = OPS["where"](there & (indices >= 0), indices.to(int64), columns)
    found = OPS["zeros"]((*indices.shape[:-1], columns + 1), dtype=bool_, device=counts.device)
    return found.scatter(-1, places, True)[..., :columns]


_counters: dict = {}


def counts_of(mask: ScalarGraph, captured, extents, block):
    """Return the number of scores of each block that the mask allows: [b, h, rows, columns] int64, without
    materializing the mask."""
    key = str(mask.graph), extents, block
    counter = _counters.get(key)
    if counter is None:
        counter = _counters[key] = make("block_counts", lambda at, captured: count(mask, at, captured, extents, block))
    rows, columns = (-(-n // size) * size for n, size in zip(extents[2:], block))
    return counter([OPS["arange"](n) for n in (*extents[:2], rows, columns)], captured)


def count(mask, at, captured, extents, block):
    """``at``: the numbers of batches, of heads, and of queries and keys up to the ends of blocks."""
    b, h, queries, keys = extents
    rows, columns = (-(-n // size) for n, size in zip((queries, keys), block))
    at = list(at)
    inside = OPS["logical_and"]((at[2] < queries).unsqueeze(-1), at[3] < keys)
    at[2:] = at[2].clamp(max=queries - 1), at[3].clamp(max=keys - 1)
    allowed = OPS["logical_and"](mask.everywhere(mask.graph, [], at, captured), inside)
    return allowed.reshape(b, h, rows, block[0], columns, block[1]).sum((3, 5))


def where_of(device, captured):
    """A block with this default device; None: that of the tensors that functions read, if any."""
    return placed(captured[0].device if device is None and captured else device)


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """[b, h, queries, keys] bools of a mask_mod (or a score_mod, of zeros), for people to look at; B and H None: 1."""
    from .mods import Mods

    extents = B or 1, H or 1, Q_LEN, KV_LEN
    if takes_score(mod_fn):
        mods, captured = Mods.of(mod_fn, None, extents)
        with where_of(device, captured):
            return mods.scores(OPS["zeros"](extents), captured) != float("-inf")
    captured: list = []
    mask = ScalarGraph(mod_fn, WHERE, captured, bool_)
    with where_of(device, captured):
        return mask.everywhere(mask.graph, [], [OPS["arange"](n) for n in extents], captured).expand(extents)


def takes_score(function) -> bool:
    """Whether a function is a score_mod: five positions rather than four. ValueError for anything else."""
    import inspect

    positions = [p for p in inspect.signature(function).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    if len(positions) not in (4, 5):
        raise ValueError(
            "a score_mod takes (score, b, h, q_idx, kv_idx) and a mask_mod (b, h, q_idx, kv_idx); this function "
            f"takes {len(positions)} arguments")
    return len(positions) == 5


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=BLOCK, _compile=False,
                      separate_full_blocks=True):
    """The BlockMask of a mask_mod. B and H None: the same mask for all batches or heads. ``separate_full_blocks``
    False: full blocks are listed among the partial ones.

    >>> from rushlight.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256).sparsity()
    25.0
    """
    if takes_score(mask_mod):
        raise AssertionError("create-block_mask requires a mask_mod function! Got a score_mod")
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    extents = B or 1, H or 1, Q_LEN, KV_LEN
    captured: list = []
    mask = ScalarGraph(mask_mod, WHERE, captured, bool_)
    with where_of(device, captured):
        counts = counts_of(mask, captured, extents, block)
    full = counts == block[0] * block[1]
    if not separate_full_blocks:
        return BlockMask.from_kv_blocks(*listed(counts > 0), BLOCK_SIZE=BLOCK_SIZE, mask_mod=mask_mod,
                                        seq_lengths=(Q_LEN, KV_LEN))
    partial, whole = listed((counts > 0) & ~full), listed(full)
    return BlockMask.from_kv_blocks(*partial, *whole, BLOCK_SIZE=block, mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN))
