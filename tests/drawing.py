"""PyTorch as the judge: without what only its own test cases and devices need."""


def without_test_cases():
    """Samples are drawn without a search for a test case on the stack, which took a third of the time."""
    from torch.testing._internal import common_utils
    from torch.testing._internal.opinfo import core
    core.extract_test_fn = common_utils.extract_test_fn = lambda: None


def without_other_devices():
    """Let ``manual_seed`` seed the CPU alone: for each kind of device that is not initialized PyTorch formats the stack
    of the call and keeps it, which takes 0.7 ms a call and memory without end."""
    import torch
    for kind in (torch.cuda, torch.xpu, torch.mtia):
        if not kind.is_available():
            for module in (kind, getattr(kind, "random", kind)):  # which import it by name
                module._lazy_call = lambda callable, **when: None
