"""``torch.utils.module_tracker``: within which modules a program is."""
from __future__ import annotations

import weakref

from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


class ModuleTracker:
    """``parents``: the names of the modules that are being called, within ``with tracker:``; "Global" is always among
    them.

    >>> import rushlight as torch
    >>> seen, tracker, model = [], ModuleTracker(), torch.nn.Sequential(torch.nn.ReLU())
    >>> _ = model[0].register_forward_hook(lambda *_: seen.append(sorted(tracker.parents)))
    >>> with tracker:
    ...     _ = model(torch.ones(1))
    >>> seen
    [['Global', 'Sequential']]
    """

    def __init__(self):
        self.parents, self.names, self.handles = {"Global"}, weakref.WeakKeyDictionary(), []

    is_bw = False  # backward passes run outside of modules

    def named(self, module):
        """The name of a module, and those of the modules below it, from the outermost that was called."""
        if module not in self.names:
            for name, below in module.named_modules():
                self.names.setdefault(below, ".".join(filter(None, (type(module).__name__, name))))
        return self.names[module]

    def __enter__(self):
        def before(module, args):
            self.parents.add(self.named(module))

        def after(module, args, result):
            self.parents.discard(self.named(module))

        self.handles = [register_module_forward_pre_hook(before), register_module_forward_hook(after)]
        return self

    def __exit__(self, *exception):
        for handle in self.handles:
            handle.remove()
        self.parents = {"Global"}
