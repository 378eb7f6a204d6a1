"""Hook slots of the hot path: functions and values of the packages above, as fields of ``state``.

Native code imports no package above it. For work of higher layers it calls a field of ``state``, which one file sets
when it is imported. ``HOOKS`` lists that file, the hook's parameters and result, and when it is called.
"""
from __future__ import annotations

from typing import NamedTuple

from .objects import state


class Hook(NamedTuple):
    """A field of ``state``: its parameters ("" for a value), its result, the file below ``rushlight`` that sets it, and
    when it is called or read."""

    takes: str
    gives: str
    setter: str
    when: str


ARGUMENTS, BACKWARD = "_src/eager/activation.py", "_src/autograd/backward.py"
HOOKS = {
    # calls
    "tensor": Hook("", "the class of tensors", ARGUMENTS, "the class of an argument is compared: others are slow"),
    "parameter": Hook("", "a second class that takes the fast path", "nn/parameter.py", "likewise"),
    "static_types": Hook("", "types whose values are parts of keys as they are", ARGUMENTS, "a key is built"),
    "slow": Hook("op, args, names", "the results", ARGUMENTS, "an argument is no plain tensor, number or static value"),
    "keyword_mask": Hook("op, names", "the bits of keywords that are run-time scalars", ARGUMENTS,
                         "an operator first gets keywords of these names"),
    "whole_mask": Hook("words", "their bits as one number", ARGUMENTS, "gradient bits need more than one word"),
    "plan": Hook("op, args, names, key, mask", "a Plan", ARGUMENTS, "no plan is known for a key"),
    "choose": Hook("choice, args, names, key, mask", "a Plan", ARGUMENTS, "a key has several plans, by its numbers"),
    "shared": Hook("plan, args, names", "other arguments", ARGUMENTS,
                   "an argument that is read shares memory with the one that is written"),
    "failed": Hook("plan, args, flag", "nothing: it raises", ARGUMENTS, "a program has reported an error"),
    "cast": Hook("op, args, names", "the results", "_src/eager/casts.py",
                 "autocast is on for devices on which the operator has a precision of its own"),
    "elsewhere": Hook("plan, args, values, used", "the fresh results", "_src/eager/elsewhere.py",
                      "a device runs the program"),
    "launch_elsewhere": Hook("plan, args, values, used", "nothing", "_src/eager/elsewhere.py",
                             "a device runs a program that writes into an argument"),
    "launch_failed": Hook("plan, status", "nothing: it raises", "_src/eager/elsewhere.py",
                          "a device's driver has refused a launch"),
    "far_storage": Hook("queue, nbytes", "a Storage", "_src/eager/elsewhere.py",
                        "a queue has no free block of a class, or no class is large enough"),
    "leave_out": Hook("plan, packing", "nothing: it gives the Packing its code and forms", "_src/eager/weights.py",
                      "operands that a program packs have stayed as they were"),
    "copied": Hook("found", "nothing", "_src/core/copies.py", "a packed copy of an operand was cached"),
    "make_room": Hook("nbytes", "nothing", "_src/core/copies.py", "there is no room for one more"),
    "drop_copies": Hook("", "nothing", "_src/core/copies.py", "there is no memory for one"),
    # tensors
    "metas": Hook("", "(shape, strides, dtype, device) -> Meta, of all that there are", ARGUMENTS,
                  "a result of data-dependent length is made: Metas are interned"),
    "meta": Hook("key", "a Meta", ARGUMENTS, "a Meta is not among these"),
    "weak": Hook("", "weakref.ref", ARGUMENTS, "a tensor is referred to without being kept"),
    "unwritable": Hook("tensor", "nothing: it raises", "_src/core/tensor.py",
                       "an inference tensor is written outside of inference mode"),
    "unsaveable": Hook("tensor", "nothing: it raises", "_src/core/tensor.py",
                       "an inference tensor would be saved for a backward pass"),
    # recording
    "mutate": Hook("plan, target, args, values, used", "the target", BACKWARD, "a tensor with a history is written"),
    "refresh": Hook("view", "its node", BACKWARD, "the memory that a view shares was changed in place"),
    "pack": Hook("node", "nothing", "_src/autograd/saved.py", "a node has saved values and hooks for these are active"),
    "watch": Hook("node, results", "nothing", "_src/autograd/anomaly.py",
                  "anomalies are looked for: a node is made or begins (results: None), or has given results"),
    "copy_lent": Hook("storage", "nothing", "_src/autograd/lending.py",
                      "memory with saved values that users may write, or with an exposed address, is about to be "
                      "written"),
    # backward passes
    "add": Hook("", "the operator that sums gradients", BACKWARD, "a value gets a second gradient"),
    "zeros": Hook("meta", "a tensor of zeros", BACKWARD, "an unused result has no gradient"),
    "conform": Hook("producer, node, slot, gradient", "the gradient", BACKWARD,
                    "a node has expected metadata of its gradients: the metadata of a result were replaced"),
    "accumulate": Hook("leaf, gradient, create", "nothing", BACKWARD, "a leaf has its gradient"),
    "run_hooks": Hook("node, gradients", "gradients", BACKWARD, "hooks of tensors are there, before a node runs"),
    "run_prehooks": Hook("node, gradients", "gradients", BACKWARD, "hooks of the node are there, before it runs"),
    "run_posthooks": Hook("node, results, gradients", "results", BACKWARD, "likewise, after it has run"),
    "unreached": Hook("node", "a list of None", BACKWARD, "a node runs that no gradient has reached"),
    "partly_reached": Hook("node, gradients, results", "results", BACKWARD,
                           "a node has run, and only some of its results have gradients"),
    "call_function": Hook("node, gradients, retain", "gradients", BACKWARD, "a FUNCTION node runs"),
    "freed": Hook("node", "nothing: it raises", BACKWARD, "what a node saved is gone"),
    "stale": Hook("node, k", "nothing: it raises", BACKWARD, "saved value k was changed in place"),
    "derive_recorded": Hook("node, gradients, retain", "gradients", BACKWARD, "a backward pass is itself recorded"),
}


def connect(setter: str, **functions):
    """Sets hooks: each by the file that the table names, once.  TypeError for any other."""
    for name, function in functions.items():
        hook = HOOKS.get(name)
        if hook is None or hook.setter != setter:
            raise TypeError(f"{setter} sets {name!r}, which is {'no hook' if hook is None else f'for {hook.setter}'}")
        if getattr(state, name) not in (None, function):
            raise TypeError(f"{setter} sets {name!r} a second time")
        setattr(state, name, function)
