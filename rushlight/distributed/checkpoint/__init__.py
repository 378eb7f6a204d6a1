"""Distributed checkpoints in a directory, in PyTorch's format, and state dicts by parameter name
(docs/sharding.md)."""
from ..._src.core.later import later

HOMES = {
    "metadata": ("BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "TensorStorageMetadata"),
    "api": ("CheckpointException",),
    "default_planner": ("DefaultLoadPlanner", "DefaultSavePlanner"),
    "filesystem": ("FileSystemReader", "FileSystemWriter"),
    "hf_storage": ("HuggingFaceStorageReader", "HuggingFaceStorageWriter"),
    "planner": ("LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner", "WriteItem"),
    "state_dict_loader": ("load", "load_state_dict"), "state_dict_saver": ("async_save", "save", "save_state_dict"),
    "storage": ("StorageReader", "StorageWriter"),
}
__getattr__ = later(__name__, HOMES)
