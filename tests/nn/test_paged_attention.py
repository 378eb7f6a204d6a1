"""Attention over a cache in pages gives what attention over each example's own keys and values gives."""
import pytest

import rushlight as torch
from rushlight.nn.attention.experimental._paged_attention import PagedAttention
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention

PAGE, BATCH, HEADS, LENGTH, SIZE = 16, 3, 2, 48, 8


def causal(b, h, q, kv):
    return q >= kv


def shifted(score, b, h, q, kv):
    return score + (q - kv) * 0.01 * (h + 1)


def filled(k, v, pages):
    """Caches with the keys and values of all examples, reserved in turns, so that pages lie mixed."""
    caches = [torch.zeros(1, HEADS, pages.n_pages * PAGE, SIZE) for _ in range(2)]
    for length in range(PAGE, LENGTH + 1, PAGE):
        for b in (2, 0, 1):
            pages.reserve(torch.tensor(b), torch.tensor(length))
    pages.assign(torch.arange(BATCH), torch.arange(LENGTH).expand(BATCH, LENGTH), k, v, *caches)
    return caches


@pytest.mark.parametrize("score_mod", [None, shifted])
@pytest.mark.parametrize("lengths", [None, [48, 20, 33]])
def test_pages_hold_what_examples_hold(score_mod, lengths):
    q, k, v = (torch.randn(BATCH, HEADS, LENGTH, SIZE) for _ in range(3))
    pages = PagedAttention(12, PAGE, BATCH, device="cpu")
    caches = filled(k, v, pages)
    mask = create_block_mask(causal, BATCH, HEADS, LENGTH, LENGTH, BLOCK_SIZE=PAGE)
    wanted_mask, kv_len = mask, None
    if lengths is not None:
        kv_len = torch.tensor(lengths)
        wanted_mask = create_block_mask(lambda b, h, q, kv: (q >= kv) & (kv < kv_len[b]), BATCH, HEADS, LENGTH, LENGTH,
                                        BLOCK_SIZE=PAGE)
    found = flex_attention(q, *caches, pages.get_score_mod(score_mod, kv_len),
                           block_mask=pages.convert_logical_block_mask(mask, kv_len=kv_len))
    torch.testing.assert_close(found, flex_attention(q, k, v, score_mod, wanted_mask), atol=1e-5, rtol=1e-5)


def test_pages_are_given_back():
    pages = PagedAttention(4, PAGE, 2, device="cpu")
    pages.reserve(torch.tensor(0), torch.tensor(3 * PAGE))
    with pytest.raises(AssertionError, match="requested 2 pages but there are only 1"):
        pages.reserve(torch.tensor(1), torch.tensor(PAGE + 1))
    pages.erase(torch.tensor(0))
    assert sorted(pages.empty_pages) == [0, 1, 2, 3] and (pages.page_table == -1).all() and not pages.capacity.any()
    pages.reserve(torch.tensor(1), torch.tensor(4 * PAGE))
    assert pages.empty_pages == [] and sorted(pages.page_table[1].tolist()) == [0, 1, 2, 3]


def test_blocks_that_are_not_pages_are_refused():
    pages = PagedAttention(4, PAGE, 2, device="cpu")
    with pytest.raises(RuntimeError, match="column block size"):
        pages.convert_logical_block_mask(create_block_mask(causal, 2, 1, 32, 32, BLOCK_SIZE=8))


def test_what_a_row_of_blocks_lists_beyond_its_number_means_nothing():
    from rushlight.nn.attention.flex_attention import BlockMask
    q, k, v = (torch.randn(1, 1, 48, SIZE) for _ in range(3))
    counts = torch.tensor([[[1, 2, 3]]], dtype=torch.int32)
    rows = [[0, 0, 0], [1, 0, 0], [0, 1, 2]], [[0, 2, 1], [1, 0, 2], [0, 1, 2]]
    found = [flex_attention(q, k, v, block_mask=BlockMask.from_kv_blocks(
        counts, torch.tensor([[listed]], dtype=torch.int32), BLOCK_SIZE=PAGE, mask_mod=causal)) for listed in rows]
    torch.testing.assert_close(found[0], found[1])
    absent = BlockMask.from_kv_blocks(counts, torch.tensor([[[[0, 0, 0], [1, -1, 0], [0, 1, 2]]]], dtype=torch.int32))
    assert absent.to_dense().tolist() == [[[[1, 0, 0], [0, 1, 0], [1, 1, 1]]]]
    torch.testing.assert_close(found[0], flex_attention(q, k, v, block_mask=create_block_mask(causal, 1, 1, 48, 48)),
                               atol=1e-5, rtol=1e-5)


def test_pages_that_are_free():
    q, k, v = (torch.randn(BATCH, HEADS, LENGTH, SIZE) for _ in range(3))
    pages = PagedAttention(20, PAGE, BATCH + 2, device="cpu")
    caches = filled(k, v, pages)
    mask = create_block_mask(causal, BATCH, 1, LENGTH, LENGTH, BLOCK_SIZE=PAGE)
    assert (pages.convert_logical_block_mask(mask).to_dense().sum((2, 3)) == mask.to_dense().sum((2, 3))).all()
    for call in (flex_attention, torch.compile(flex_attention)):
        found = call(q, *caches, score_mod=pages.get_score_mod(None), block_mask=pages.convert_logical_block_mask(mask))
        torch.testing.assert_close(found, flex_attention(q, k, v, block_mask=mask), atol=1e-5, rtol=1e-5)
