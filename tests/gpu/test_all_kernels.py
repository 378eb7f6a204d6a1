"""The same programs as on the processor, against NumPy: kernels, scans, and functions to units of the last place."""
import pytest

from ..compiler.test_kernels import *  # noqa: F401, F403 - pytest finds them here
from ..compiler.test_math import test_float32, test_many_turns, test_special_values  # noqa: F401
from ..compiler.test_scan import *  # noqa: F401, F403

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("by_the_interpreter")]
