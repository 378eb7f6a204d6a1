"""The backend "nccl": collectives between GPUs, carried out by their streams."""
