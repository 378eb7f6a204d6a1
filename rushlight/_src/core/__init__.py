"""The core: dtypes, metadata, storage, tensors, operators and the interpreters that give them meaning."""
