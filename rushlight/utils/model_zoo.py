"""``load_url``: a state dict from a URL's file."""
from ..hub import load_state_dict_from_url as load_url
from ..hub import tqdm
from ..core.later import later

__all__ = ["load_url", "tqdm"]
__getattr__ = later(__name__)
