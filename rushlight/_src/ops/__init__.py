"""The operators: declarations only, each operator in one place."""
