"""Checkpoints in the files of Hugging Face: not here."""
from ...compat.absent import absent

globals().update(absent("torch.distributed.checkpoint.hf_storage", "this build runs in one process", "HuggingFaceStorageReader HuggingFaceStorageWriter"))
