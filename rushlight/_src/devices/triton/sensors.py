"""Utilization, temperature and power of a GPU, from NVIDIA's management library or Linux's driver for AMD's GPUs."""

from __future__ import annotations

import ctypes
import glob
import os
from typing import NamedTuple

from ...core.errors import NotBuiltError
from .vendor import finding

FILES = "libnvidia-ml.so.1", "nvml.dll"  # they come with the driver
U, P = ctypes.c_uint, ctypes.c_void_p
SM, SENSOR = 1, 0  # the clock of multiprocessors, the sensor of the GPU
TOO_SMALL = 7  # the status of a table without enough room
FOLDER = "/sys/bus/pci/devices"


class Rates(ctypes.Structure):
    """Percent of the last period in which kernels ran, and in which memory was read or written."""

    _fields_ = [("gpu", U), ("memory", U)]


class Process(ctypes.Structure):
    """A process that computes on a GPU."""

    _fields_ = [("number", U), ("bytes", ctypes.c_ulonglong), ("instance", U), ("compute_instance", U)]


class Figures(NamedTuple):
    """A measurement: the entry of NVIDIA's library, the file of Linux, and the divisor of the file's value."""

    entry: str
    more: tuple
    file: str
    divisor: int


FIGURES = {  # in degrees, milliwatts and megahertz
    "temperature": Figures("nvmlDeviceGetTemperature", (SENSOR,), "hwmon/hwmon*/temp1_input", 1000),
    "power": Figures("nvmlDeviceGetPowerUsage", (), "hwmon/hwmon*/power1_average", 1000),
    "clock": Figures("nvmlDeviceGetClockInfo", (SM,), "hwmon/hwmon*/freq1_input", 10 ** 6)}


class Managed:
    """NVIDIA's management library.  A GPU is named by its bus address, which does not depend on which GPUs the process
    may see."""

    def __init__(self, library):
        self.library, self.handles = library, {}
        self.call("nvmlInit_v2")

    def call(self, name: str, *given):
        """RuntimeError with the library's words where an entry refuses."""
        status = getattr(self.library, name)(*given)
        if status:
            raise RuntimeError(f"{name} gave {status}: {self.words(status)}")

    def words(self, status: int) -> str:
        self.library.nvmlErrorString.restype = ctypes.c_char_p
        return (self.library.nvmlErrorString(status) or b"unknown error").decode()

    def handle(self, bus: str):
        if bus not in self.handles:
            found = P()
            self.call("nvmlDeviceGetHandleByPciBusId_v2", ctypes.c_char_p(bus.encode()), ctypes.byref(found))
            self.handles[bus] = found
        return self.handles[bus]

    def rates(self, bus: str) -> tuple:
        """Percent of the last period in which (kernels ran, memory was read or written)."""
        found = Rates()
        self.call("nvmlDeviceGetUtilizationRates", self.handle(bus), ctypes.byref(found))
        return found.gpu, found.memory

    def figure(self, bus: str, name: str) -> int:
        wanted, found = FIGURES[name], U()
        self.call(wanted.entry, self.handle(bus), *(U(one) for one in wanted.more), ctypes.byref(found))
        return found.value

    def processes(self, bus: str) -> list:
        """(number, bytes) of the processes that compute on a GPU."""
        entry, room = self.library.nvmlDeviceGetComputeRunningProcesses_v3, 16
        while True:
            count, rows = U(room), (Process * room)()
            status = entry(self.handle(bus), ctypes.byref(count), rows)
            if status != TOO_SMALL:
                break
            room = max(2 * room, count.value)
        if status:
            raise RuntimeError(f"the processes of a GPU are not available: {self.words(status)}")
        return [(one.number, one.bytes) for one in rows[:count.value]]


class Told:
    """Sensors of AMD's GPUs, from the files of Linux's driver below ``folder``."""

    def __init__(self, folder=FOLDER):
        self.folder = folder

    def number(self, bus: str, file: str) -> int:
        """RuntimeError where the driver has no such file."""
        found = sorted(glob.glob(os.path.join(self.folder, bus.lower(), file)))
        if not found:
            raise RuntimeError(f"this machine's driver has no {file} for the GPU {bus}")
        with open(found[0], encoding="ascii") as told:
            return int(told.read())

    def rates(self, bus: str) -> tuple:
        return self.number(bus, "gpu_busy_percent"), self.number(bus, "mem_busy_percent")

    def figure(self, bus: str, name: str) -> int:
        return self.number(bus, FIGURES[name].file) // FIGURES[name].divisor

    def processes(self, bus: str) -> list:
        raise NotBuiltError("the processes on a GPU of AMD are not listed: ask rocm-smi --showpids")


def sensors(kind: str):
    """Return the sensors of a vendor's GPUs.  RuntimeError if NVIDIA's library is missing."""
    if kind == "hip":
        return Told()
    library = finding.opened(FILES)
    if library is None:
        raise RuntimeError(f"{FILES[0]}, which comes with NVIDIA's driver, was not found: it reports the utilization, "
                           f"temperature, power and clock of a GPU")
    return Managed(library)
