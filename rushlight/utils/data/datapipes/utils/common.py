"""Files of directories, self-closing streams, and signatures of functions."""
from __future__ import annotations

import fnmatch
import inspect
import os
import warnings

__all__ = ["StreamWrapper", "get_file_binaries_from_pathnames", "get_file_pathnames_from_root", "match_masks",
           "validate_input_col", "validate_pathname_binary_tuple"]


def validate_input_col(fn, input_col):
    """ValueError where a function does not take as many arguments as columns are named (one where there are none)."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (ValueError, TypeError):  # some functions in C do not say it
        return
    kinds = inspect.Parameter
    if any(p.kind is kinds.VAR_POSITIONAL for p in parameters):
        return
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is kinds.empty for p in positional)
    given = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    name = getattr(fn, "__name__", repr(fn))
    if any(p.kind is kinds.KEYWORD_ONLY and p.default is kinds.empty for p in parameters):
        raise ValueError(f"The function {name} takes keyword-only parameters, which is not allowed.")
    if not least <= given <= len(positional):
        raise ValueError(f"The function {name} takes {len(positional)} parameters, but {given} are required.")


def match_masks(name, masks) -> bool:
    """Whether a name matches a pattern, or any of several; an empty pattern matches all.

    >>> match_masks("a.txt", ["*.csv", "*.txt"]), match_masks("a.txt", "b*")
    (True, False)
    """
    if not masks:
        return True
    return any(fnmatch.fnmatch(name, mask) for mask in ([masks] if isinstance(masks, str) else masks))


def get_file_pathnames_from_root(root, masks, recursive=False, abspath=False, non_deterministic=False):
    """Yield the paths of files below a directory whose names match, sorted by name."""
    def failed(error):
        warnings.warn(f"{error.filename}: {error.strerror}", stacklevel=2)
        raise error

    if os.path.isfile(root):
        path = os.path.abspath(root) if abspath else root
        if match_masks(os.path.basename(path), masks):
            yield path
        return
    for folder, folders, files in os.walk(root, onerror=failed):
        folder = os.path.abspath(folder) if abspath else folder
        if not non_deterministic:
            files.sort()
            folders.sort()
        yield from (os.path.join(folder, name) for name in files if match_masks(name, masks))
        if not recursive:
            break


def get_file_binaries_from_pathnames(pathnames, mode, encoding=None):
    """(path, open stream) of each path.  TypeError for a path that is no text."""
    pathnames = pathnames if hasattr(pathnames, "__iter__") and not isinstance(pathnames, str) else [pathnames]
    mode = "r" + mode if mode in ("b", "t") else mode
    for path in pathnames:
        if not isinstance(path, str):
            raise TypeError(f"Expected string type for pathname, but got {type(path)}")
        yield path, StreamWrapper(open(path, mode, encoding=encoding), name=path)


def validate_pathname_binary_tuple(data):
    """TypeError or ValueError for what is not (path, stream)."""
    if not isinstance(data, tuple):
        raise TypeError(f"pathname binary data should be tuple type, but it is type {type(data)}")
    if len(data) != 2:
        raise TypeError(f"pathname binary stream tuple length should be 2, but got {len(data)}")
    if not isinstance(data[0], str):
        raise TypeError(f"pathname within the tuple should have string type pathname, but it is type {type(data[0])}")
    if not (hasattr(data[1], "read") or isinstance(data[1], StreamWrapper)):
        raise TypeError(f"binary stream within the tuple should be readable, but it is type {type(data[1])}")


class StreamWrapper:
    """A stream that is closed when nothing refers to it, nor to streams that were made from it."""

    session_streams: dict = {}
    debug_unclosed_streams = False

    def __init__(self, file_obj, parent_stream=None, name=None):
        if parent_stream is not None and not isinstance(parent_stream, StreamWrapper):
            raise RuntimeError(f"Parent stream should be StreamWrapper, {type(parent_stream)} was given")
        self.file_obj, self.parent_stream, self.name = file_obj, parent_stream, name
        self.child_counter, self.close_on_last_child, self.closed = 0, False, False
        if parent_stream is not None:
            parent_stream.child_counter += 1

    @classmethod
    def close_streams(cls, v, depth=0):
        """Closes every stream in nested lists, tuples and dicts."""
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, (list, tuple, dict)) and depth < 10:
            for one in v.values() if isinstance(v, dict) else v:
                cls.close_streams(one, depth + 1)

    def __getattr__(self, name):
        return getattr(vars(self)["file_obj"], name)

    def close(self, *args, **kwargs):
        """Closes the stream, and its parent once no other stream of it is open."""
        if self.closed:
            return
        self.closed = True
        self.file_obj.close(*args, **kwargs)
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if not parent.child_counter and parent.close_on_last_child:
                parent.close()

    def autoclose(self):
        """Closes the stream, or has it closed with the last that was made from it."""
        self.close_on_last_child = True
        if not self.child_counter:
            self.close()

    def __iter__(self):
        yield from self.file_obj

    def __next__(self):
        return next(self.file_obj)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __del__(self):
        if not vars(self).get("closed", True):
            self.close()

    def __repr__(self):
        name = "" if self.name is None else f"{self.name},"
        return f"StreamWrapper<{name}{self.file_obj!r}>"

    def __getstate__(self):
        return self.file_obj

    def __setstate__(self, obj):
        vars(self).update(file_obj=obj, parent_stream=None, name=None, child_counter=0, close_on_last_child=False,
                          closed=False)
