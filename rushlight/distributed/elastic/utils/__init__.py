"""Variables of the environment, and ports."""
from __future__ import annotations

import os

from .distributed import get_socket_with_port


def get_env_variable_or_raise(env_name: str) -> str:
    """Return an environment variable.  ValueError if it is not set."""
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value
