"""Models from local directories, and files that were downloaded before."""
from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tempfile
import urllib.request
from urllib.parse import urlparse

from .serialization import load as load_file

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 1 << 17
MODULE = "hubconf.py"
_folder: str | None = None


def get_dir() -> str:
    """Return the directory of downloaded files: that of ``set_dir``, else below TORCH_HOME or the cache directory."""
    if _folder is not None:
        return _folder
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """Return the directory of downloads and data sets: TORCH_HOME, or ``torch`` in the cache directory."""
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch")))


class tqdm:
    """The progress bar of the package tqdm; where that is not installed, one that shows nothing."""

    def __new__(cls, *args, **kwargs):
        try:
            from tqdm import tqdm as bar
        except ImportError:
            return super().__new__(cls)
        return bar(*args, **kwargs)

    def __init__(self, iterable=(), *args, **kwargs):
        self.iterable, self.n = iterable, 0

    def __iter__(self):
        return iter(self.iterable)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        """Nothing was opened."""

    def update(self, n=1):
        self.n += n

    def close(self):
        """Nothing was opened."""

    set_description = set_postfix = lambda self, *args, **kwargs: None


def set_dir(d):
    """Set the directory of downloaded files."""
    global _folder
    _folder = os.path.expanduser(d)


def entries(folder, source):
    """Return the module that a directory's hubconf.py defines."""
    if source != "local":
        raise NotImplementedError(
            f"hub: source={source!r} needs a download of program code; download it yourself and use source='local'")
    path = os.path.join(os.path.expanduser(folder), MODULE)
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no {MODULE} in {folder!r}")
    sys.path.insert(0, os.path.dirname(path))
    try:
        spec = importlib.util.spec_from_file_location(MODULE, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(os.path.dirname(path))
    missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def entry(folder, name, source):
    found = getattr(entries(folder, source), name, None)
    if found is None or not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def list(github, force_reload=False, skip_validation=False, trust_repo=None, verbose=True, source="local"):
    """Return the names of the models of a local directory."""
    module = entries(github, source)
    return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo=None, source="local"):
    """Return the docstring of a model of a local directory."""
    return entry(github, model, source).__doc__


def load(repo_or_dir, model, *args, source="github", trust_repo=None, force_reload=False, verbose=True,
         skip_validation=False, **kwargs):
    """Call the function ``model`` of the ``hubconf.py`` in a local directory (``source="local"``).
    NotImplementedError for other sources."""
    return entry(repo_or_dir, model, source)(*args, **kwargs)


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Copies what a URL names into a file; RuntimeError where its SHA-256 does not begin with ``hash_prefix``.
    ``progress`` shows a bar on stderr, where the package tqdm is installed."""
    import hashlib
    sha = hashlib.sha256()
    with urllib.request.urlopen(url) as source, tempfile.NamedTemporaryFile(delete=False,
                                                                            dir=os.path.dirname(
                                                                                os.path.abspath(dst))) as target:
        size = source.headers.get("Content-Length")
        try:
            with tqdm(total=size and int(size), disable=not progress, unit="B", unit_scale=True,
                      unit_divisor=1024) as bar:
                while block := source.read(READ_DATA_CHUNK):
                    target.write(block)
                    sha.update(block)
                    bar.update(len(block))
            target.close()
            if hash_prefix is not None and not sha.hexdigest().startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{sha.hexdigest()}")')
            shutil.move(target.name, dst)
        finally:
            if os.path.exists(target.name):
                os.remove(target.name)


def load_state_dict_from_url(url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None,
                             weights_only=True):
    """Return ``torch.load`` of a URL's file, which is downloaded unless ``model_dir`` has it already."""
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found[1] if found else None, progress)
    return load_file(path, map_location=map_location, weights_only=weights_only)
