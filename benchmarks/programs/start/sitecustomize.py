"""For processes that a program spawns (``process.py`` puts this folder into PYTHONPATH): devices are pretended before
the program's file is imported again."""
import os
import sys

if "--multiprocessing-fork" in sys.orig_argv:
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path.insert(0, folder)
    import torch
    from devices import pretend

    pretend(torch, int(os.environ["PRETENDED_DEVICES"]))
    sys.path.remove(folder)
