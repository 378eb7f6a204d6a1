"""PyTorch's databases of operators and modules, read outside of its test cases."""


def without_test_cases():
    """Samples are drawn without a search for a test case on the stack, which took a third of the time."""
    from torch.testing._internal import common_utils
    from torch.testing._internal.opinfo import core
    core.extract_test_fn = common_utils.extract_test_fn = lambda: None
