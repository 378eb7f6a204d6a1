"""PyTorch as the judge: without what only its own test cases and devices need."""


def without_test_cases():
    """Samples are drawn without a search for a test case on the stack, which took a third of the time."""
    from torch.testing._internal import common_utils
    from torch.testing._internal.opinfo import core
    core.extract_test_fn = common_utils.extract_test_fn = lambda: None


def without_other_devices():
    """Seeds are those of the processor: for each kind of device that might yet come, PyTorch notes the stack of every
    call of ``manual_seed``, which took a twentieth of the time of what draws samples."""
    import torch
    for kind in (torch.cuda, torch.xpu, torch.mtia):
        if not kind.is_available():
            kind._lazy_call = lambda callable, **when: None
