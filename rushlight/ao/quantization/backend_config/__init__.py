"""BackendConfigs: descriptions of the operators that a backend quantizes."""
from __future__ import annotations

from ...._src.core.later import later


class BackendConfig:
    """Patterns of a backend, each with what it says: entries of ``configs``, which have a ``pattern``.

    >>> BackendConfig("mine").set_name("yours").name
    'yours'
    """

    def __init__(self, name: str = ""):
        self.name, self._pattern_complex_format_to_config = name, {}

    def __repr__(self):
        return f"BackendConfig({self.__dict__})"

    def set_name(self, name: str) -> "BackendConfig":
        self.name = name
        return self

    def set_backend_pattern_config(self, config) -> "BackendConfig":
        """Adds what is said of one pattern, in place of what was said of it before."""
        self._pattern_complex_format_to_config[config.pattern] = config
        return self

    def set_backend_pattern_configs(self, configs) -> "BackendConfig":
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    configs = property(lambda self: list(self._pattern_complex_format_to_config.values()))


def get_native_backend_config() -> BackendConfig:
    """The backend of this framework: which layers its own FX form quantizes is said in ``quantize_fx``, and programs
    quantized after their export say it themselves, so that it has no entries."""
    return BackendConfig("native")


__getattr__ = later(__name__, {})
