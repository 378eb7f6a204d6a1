"""Checkpoints of several processes in a folder, in PyTorch's format, and states by names of parameters
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
