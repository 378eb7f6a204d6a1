"""Weights that are made sparse while they are trained: sparsifiers make masks, schedulers change how sparse."""
from .scheduler.base_scheduler import BaseScheduler
from .scheduler.cubic_scheduler import CubicSL
from .scheduler.lambda_scheduler import LambdaSL
from .sparsifier.base_sparsifier import BaseSparsifier
from .sparsifier.nearly_diagonal_sparsifier import NearlyDiagonalSparsifier
from .sparsifier.utils import FakeSparsity, fqn_to_module, get_arg_info_from_tensor_fqn, module_to_fqn
from .sparsifier.weight_norm_sparsifier import WeightNormSparsifier
