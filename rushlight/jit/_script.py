"""Private names of scripting that other libraries reach for."""
from .script import RecursiveScriptModule, ScriptFunction, ScriptModule, script
from ..core.later import later

__all__ = ["RecursiveScriptModule", "ScriptFunction", "ScriptModule", "script"]
__getattr__ = later(__name__)
