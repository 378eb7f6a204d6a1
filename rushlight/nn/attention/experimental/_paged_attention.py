"""Keys and values of many examples in pages of one cache, for FlexAttention."""
from __future__ import annotations

from ...._src import flat as torch
from ..flex_attention import BlockMask, _identity, noop_mask

__all__ = ["PagedAttention"]


class PagedAttention:
    """A cache of ``n_pages`` pages of ``page_size`` places, which at most ``max_batch_size`` examples share.

    ``page_table`` [examples, pages]: the page in the cache of each page of an example, -1 for none;
    ``physical_to_logical`` [examples, pages]: the other way round; ``capacity`` [examples]: how many places an example
    has.

    >>> import rushlight as torch
    >>> pages = PagedAttention(n_pages=4, page_size=2, max_batch_size=2, device="cpu")
    >>> pages.reserve(torch.tensor(0), torch.tensor(3))
    >>> pages.page_table
    tensor([[ 1,  0, -1, -1],
            [-1, -1, -1, -1]])
    """

    def __init__(self, n_pages: int, page_size: int, max_batch_size: int, device="cuda"):
        self.n_pages, self.page_size = n_pages, page_size
        self.page_table = torch.full((max_batch_size, n_pages), -1, device=device)
        self.physical_to_logical = torch.full((max_batch_size, n_pages), -1, device=device)
        self.capacity = torch.zeros(max_batch_size, dtype=torch.int64, device=device)
        self.empty_pages = list(range(n_pages))[::-1]

    def reserve(self, batch_idx, seq_len) -> None:
        """Gives an example pages for at least ``seq_len`` places.  AssertionError where too few are free."""
        batch_idx, have = int(batch_idx), int(self.capacity[batch_idx])
        if int(seq_len) <= have:
            return
        wanted, first = -(-(int(seq_len) - have) // self.page_size), have // self.page_size
        if len(self.empty_pages) < wanted:
            raise AssertionError(f"requested {wanted} pages but there are only {len(self.empty_pages)} empty pages")
        pages = torch.tensor(self.empty_pages[-wanted:], device=self.page_table.device)
        del self.empty_pages[-wanted:]
        self.page_table[batch_idx, first:first + wanted] = pages
        self.physical_to_logical[batch_idx, pages] = torch.arange(first, first + wanted, device=pages.device)
        self.capacity[batch_idx] += wanted * self.page_size

    def erase(self, batch_idx) -> None:
        """Gives the pages of an example back."""
        batch_idx = int(batch_idx)
        row = self.page_table[batch_idx]
        self.empty_pages += row[row != -1].tolist()
        self.capacity[batch_idx] = 0
        self.physical_to_logical[batch_idx] = -1
        self.page_table[batch_idx] = -1

    def assign(self, batch_idx, input_pos, k_val, v_val, k_cache, v_cache) -> None:
        """Writes keys [b, h, s, e] and values [b, h, s, v] of the examples ``batch_idx`` [b] at their places
        ``input_pos`` [b, s], or [s] for all of them, into the caches [1, h, places, e] and [1, h, places, v]."""
        if k_val.requires_grad:
            raise RuntimeError("val must not require gradient")
        batch, heads, length, _ = k_val.shape
        input_pos = input_pos if input_pos.dim() == 2 else input_pos.expand(batch, -1)
        for what, have, want in (("batch size", batch_idx.shape[0], batch),
                                 ("number of heads", k_cache.shape[1], heads),
                                 ("length", input_pos.shape[1], length),
                                 ("hidden dim of keys", k_cache.shape[3], k_val.shape[3]),
                                 ("hidden dim of values", v_cache.shape[3], v_val.shape[3])):
            if have != want:
                raise RuntimeError(f"Expect val and what it is written to to have the same {what}, but got {want} "
                                   f"and {have}.")
        pages = self.page_table[batch_idx].gather(1, (input_pos // self.page_size).to(torch.int64))
        places = (pages * self.page_size + input_pos % self.page_size).reshape(-1)
        for cache, val in ((k_cache, k_val), (v_cache, v_val)):
            cache[:, :, places, :] = val.permute(1, 0, 2, 3).reshape(1, heads, batch * length, val.shape[3]).to(
                cache.dtype)

    def convert_logical_block_mask(self, block_mask: BlockMask, batch_idx=None, kv_len=None) -> BlockMask:
        """The BlockMask for the cache that stands for one over the places of examples.

        ``batch_idx`` [b]: which example each row of the mask is (None: in order); ``kv_len`` [b]: places from there on
        are not seen.  RuntimeError where blocks are not pages.
        """
        if block_mask.BLOCK_SIZE[1] != self.page_size:
            raise RuntimeError("Expect block_mask has the same column block size as page_size, but got size="
                               f"{block_mask.BLOCK_SIZE[1]} and size={self.page_size}")
        batch = block_mask.kv_indices.shape[0]
        table = self.page_table[torch.arange(batch) if batch_idx is None else batch_idx]

        def paged(indices):
            if indices is None:
                return None
            found = table.gather(1, indices.reshape(batch, -1).to(torch.int64)).view(indices.shape).to(torch.int32)
            made = torch.zeros((*indices.shape[:-1], self.n_pages), dtype=torch.int32, device=indices.device)
            made[..., :indices.shape[-1]] = found
            return made

        counts = block_mask.kv_num_blocks, block_mask.full_kv_num_blocks
        counts = [None if n is None else n.clone() for n in counts]
        return BlockMask.from_kv_blocks(counts[0], paged(block_mask.kv_indices), counts[1],
                                        paged(block_mask.full_kv_indices), block_mask.BLOCK_SIZE,
                                        self.get_mask_mod(block_mask.mask_mod, kv_len),
                                        seq_lengths=(block_mask.seq_lengths[0], self.n_pages * self.page_size))

    def logical(self, b, physical_kv_idx, kv_len):
        """(the place of an example that a place of the cache holds, whether it is one of it)."""
        page = self.physical_to_logical[b, physical_kv_idx // self.page_size]
        place = page * self.page_size + physical_kv_idx % self.page_size
        there = page >= 0
        return place, there if kv_len is None else there & (place < kv_len[b])

    def get_mask_mod(self, mask_mod, kv_len=None):
        """A mask_mod over places of examples (None: everything is seen) as one over places of the cache."""
        mask_mod = mask_mod or noop_mask

        def paged(b, h, q_idx, physical_kv_idx):
            place, there = self.logical(b, physical_kv_idx, kv_len)
            return torch.where(there, mask_mod(b, h, q_idx, place), False)

        return paged

    def get_score_mod(self, score_mod, kv_len=None):
        """A score_mod over places of examples (None: as it is) as one over places of the cache."""
        score_mod = score_mod or _identity

        def paged(score, b, h, q_idx, physical_kv_idx):
            place, there = self.logical(b, physical_kv_idx, kv_len)
            return torch.where(there, score_mod(score, b, h, q_idx, place), float("-inf"))

        return paged
