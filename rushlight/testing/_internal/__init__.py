"""Names that test suites of PyTorch's users import: ``common_utils`` works, the rest are names."""
