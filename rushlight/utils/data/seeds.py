"""Seeds for passes, workers and shuffled pipes."""
from ..._src import flat as torch


def base_seed(generator=None) -> int:
    """A number of 63 bits from a random stream."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
