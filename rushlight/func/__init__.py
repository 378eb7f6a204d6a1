"""Function transforms: each takes a function and gives another one; they compose in any nesting."""
from .._src.transforms.functional import functionalize  # noqa: F401
from .._src.transforms.vmap import vmap  # noqa: F401
from .derivatives import grad, grad_and_value, jvp, linearize, vjp  # noqa: F401
from .jacobians import hessian, jacfwd, jacrev  # noqa: F401
from .modules import functional_call, replace_all_batch_norm_modules_, stack_module_state  # noqa: F401
from .wrappers import debug_unwrap  # noqa: F401
