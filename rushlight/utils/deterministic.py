"""``torch.utils.deterministic``: memory without contents is zero in deterministic mode, if this is set."""

fill_uninitialized_memory = True
