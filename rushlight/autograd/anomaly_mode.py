"""``torch.autograd.anomaly_mode``: where a NaN came from, by the name of PyTorch's file."""
from .._src.autograd.anomaly import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
