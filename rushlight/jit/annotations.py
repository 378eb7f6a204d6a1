"""Types by the names under which TorchScript code imports them."""
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = List
__all__ = ["Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Callable", "Dict", "List", "Optional",
           "Tuple", "Union"]
