"""Tables of embeddings beside PyTorch's: how they are made, frozen and shown."""
import pytest
import torch

import rushlight

BOTH = (rushlight, torch)


@pytest.mark.parametrize("make", [
    lambda nn, table: nn.Embedding(5, 3, padding_idx=-1), lambda nn, table: nn.Embedding(5, 3, _freeze=True),
    lambda nn, table: nn.Embedding(5, 3, max_norm=2.0, sparse=True),
    lambda nn, table: nn.Embedding.from_pretrained(table),
    lambda nn, table: nn.Embedding.from_pretrained(table, freeze=False, padding_idx=1, norm_type=1.0),
    lambda nn, table: nn.EmbeddingBag(5, 3, mode="sum", padding_idx=2),
    lambda nn, table: nn.EmbeddingBag.from_pretrained(table),
    lambda nn, table: nn.EmbeddingBag.from_pretrained(table, freeze=False, scale_grad_by_freq=True, mode="max")])
def test_how_tables_are_made(make):
    ours, theirs = [make(framework.nn, framework.arange(15.0).reshape(5, 3)) for framework in BOTH]
    assert repr(ours) == repr(theirs)
    assert (ours.weight.requires_grad, ours.padding_idx, tuple(ours.weight.shape)) == (theirs.weight.requires_grad,
                                                                                       theirs.padding_idx,
                                                                                       tuple(theirs.weight.shape))
    assert (ours.weight == 0).all(1).tolist() == (theirs.weight == 0).all(1).tolist()


@pytest.mark.parametrize("wrong", [lambda nn, x: nn.Embedding(5, 3, padding_idx=5),
                                   lambda nn, x: nn.Embedding(4, 3, _weight=x),
                                   lambda nn, x: nn.EmbeddingBag(5, 2, _weight=x)])
def test_wrong_tables(wrong):
    for framework in BOTH:
        with pytest.raises(AssertionError):
            wrong(framework.nn, framework.zeros(5, 3))
