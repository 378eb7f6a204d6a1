"""Higher-order operators: data-dependent control flow, and loops over a dimension."""
from .associative_scan import associative_scan
from .cond import cond
from .map import map
from .out_dtype import out_dtype
from .scan import scan
from .while_loop import while_loop
from .wrap import wrap

__all__ = ["associative_scan", "cond", "map", "out_dtype", "scan", "while_loop", "wrap"]
