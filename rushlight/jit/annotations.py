"""Types by the names under which TorchScript code imports them."""
from typing import Any, Callable, Dict, List, Optional, Tuple, Union  # noqa: F401

BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = List
