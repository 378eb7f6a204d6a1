"""A part of a dataset for each of several processes."""
from __future__ import annotations

import math

import rushlight as torch
from .sampler import Sampler, _T_co

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[_T_co]):
    """The indices of one of ``num_replicas`` processes: every num_replicas-th, after a shuffle by seed and epoch.

    Number and rank are those of ``torch.distributed`` where they are not given: ValueError before
    ``init_process_group``.
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None or rank is None:
            num_replicas = torch.distributed.get_world_size() if num_replicas is None else num_replicas
            rank = torch.distributed.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, num_replicas, rank, 0
        self.drop_last, self.shuffle, self.seed = drop_last, shuffle, seed
        count = len(dataset)
        self.num_samples = math.ceil((count - num_replicas)
                                     / num_replicas) if drop_last and count % num_replicas else math.ceil(
                                         count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        count = len(self.dataset)
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        indices = torch.randperm(count, generator=generator).tolist() if self.shuffle else list(range(count))
        if not self.drop_last:
            missing = self.total_size - len(indices)
            indices += (indices * math.ceil(missing / len(indices)))[:missing] if indices else []
        return iter(indices[:self.total_size][self.rank::self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Sets the epoch, by which the shuffle varies."""
        self.epoch = epoch
