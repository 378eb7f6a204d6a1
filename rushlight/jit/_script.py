"""Private names of scripting that other libraries reach for."""
from .script import RecursiveScriptModule, ScriptFunction, ScriptModule, script

__all__ = ["RecursiveScriptModule", "ScriptFunction", "ScriptModule", "script"]
