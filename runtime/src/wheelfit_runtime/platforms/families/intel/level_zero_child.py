"""Ask Intel's Level Zero loader, in a process of its own (P-71, P-133).

Run as ``python -I -S level_zero_child.py <library> …``; the libraries are tried in
order. Prints one line of JSON to what was standard output when it started, and
nothing else goes there: drivers that print are sent to standard error. A driver may
hang or crash; the last line of standard error that starts with ``calling`` says where.

The answer:

``calls``
    list of ``[what, outcome]``, everything tried, in order.
``loaded``, ``init``
    which library was loaded, or null; result code of the initialisation, or null.
``devices``
    list of ``{"index", "name", "type", "vendor", "device", "flags", "ip"}``, numbers as
    Level Zero gives them, and ``{"index", "call", "code"}`` for what could not be asked.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_MISSING = -1  # the library has no function of this name
_GPU = 1  # ZE_INIT_FLAG_GPU_ONLY, ZE_INIT_DRIVER_TYPE_FLAG_GPU

_INIT_DRIVER_TYPE_DESC = 0x20021
_DEVICE_PROPERTIES = 0x3
_DEVICE_IP_VERSION_EXT = 0x1000F

_LIMIT = 4096  # a driver that claims more is not believed

NOT_LASTING = 3
"""Status with which the script ends where its answer may be another one soon."""


class InitDriverTypeDesc(ctypes.Structure):
    """Lay out ``ze_init_driver_type_desc_t``."""

    _fields_: ClassVar = [
        ("stype", ctypes.c_uint32),
        ("pNext", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
    ]


class DeviceIpVersionExt(ctypes.Structure):
    """Lay out ``ze_device_ip_version_ext_t``."""

    _fields_: ClassVar = [
        ("stype", ctypes.c_uint32),
        ("pNext", ctypes.c_void_p),
        ("ipVersion", ctypes.c_uint32),
    ]


class DeviceProperties(ctypes.Structure):
    """Lay out ``ze_device_properties_t``."""

    _fields_: ClassVar = [
        ("stype", ctypes.c_uint32),
        ("pNext", ctypes.c_void_p),
        ("type", ctypes.c_uint32),
        ("vendorId", ctypes.c_uint32),
        ("deviceId", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("subdeviceId", ctypes.c_uint32),
        ("coreClockRate", ctypes.c_uint32),
        ("maxMemAllocSize", ctypes.c_uint64),
        ("maxHardwareContexts", ctypes.c_uint32),
        ("maxCommandQueuePriority", ctypes.c_uint32),
        ("numThreadsPerEU", ctypes.c_uint32),
        ("physicalEUSimdWidth", ctypes.c_uint32),
        ("numEUsPerSubslice", ctypes.c_uint32),
        ("numSubslicesPerSlice", ctypes.c_uint32),
        ("numSlices", ctypes.c_uint32),
        ("timerResolution", ctypes.c_uint64),
        ("timestampValidBits", ctypes.c_uint32),
        ("kernelTimestampValidBits", ctypes.c_uint32),
        ("uuid", ctypes.c_uint8 * 16),
        ("name", ctypes.c_char * 256),
    ]


# The script must run as this one file, for which nothing is on the path but the standard library;
# so what the child of NVIDIA's family does alike is written there again.
class Conversation:
    """Call functions of the loader and note every outcome."""

    def __init__(self, trace: Callable[[str], None]) -> None:
        self.calls: list[list[str]] = []
        self.trace = trace
        self.library: ctypes.CDLL | None = None

    def load(self, candidates: Sequence[str]) -> str | None:
        """Load the first candidate that can be loaded and return its name."""
        for name in candidates:
            self.trace(f"dlopen {name}")
            try:
                self.library = ctypes.CDLL(name)
            except OSError as error:
                self.note(name, str(error))
            else:
                self.note(name, "loaded")
                return name
        return None

    def call(self, function: str, *arguments: Any) -> int:
        """Return the function's result code; -1 when the library has no such function."""
        try:
            found = getattr(self.library, function)
        except AttributeError:
            return _MISSING
        self.trace(function)
        return int(found(*arguments)) & 0xFFFFFFFF

    def note(self, what: str, outcome: object) -> None:
        """Add an outcome to the answer."""
        self.calls.append([what, str(outcome)])

    def noted(self, function: str, *arguments: Any) -> int:
        """Call, note the result code, and return it."""
        code = self.call(function, *arguments)
        self.note(function, _outcome(code))
        return code

    def handles(
        self, function: str, before: Sequence[Any] = (), after: Sequence[Any] = ()
    ) -> tuple[int, list[int]]:
        """Return result code and handles of a function that first tells their number."""
        count = ctypes.c_uint32(0)
        code = self.call(function, *before, ctypes.byref(count), None, *after)
        if code != 0:
            self.note(function, _outcome(code))
            return code, []
        self.note(function, count.value)
        count = ctypes.c_uint32(min(count.value, _LIMIT))
        found = (ctypes.c_void_p * (count.value or 1))()
        if count.value:
            code = self.call(function, *before, ctypes.byref(count), found, *after)
        if code != 0:
            self.note(f"{function}, handles", _outcome(code))
            return code, []
        return 0, [handle for handle in found[: count.value] if handle]


def _outcome(code: int) -> str:
    return "no such function" if code == _MISSING else f"error {code:#x}" if code else "0"


def observe(
    candidates: Sequence[str], trace: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Ask the loader for every device of every GPU driver, and return the answer.

    :param candidates: names or paths of the loader, tried in order.
    """
    loader = Conversation(trace)
    loaded = loader.load(candidates)
    code, drivers = _drivers(loader) if loaded else (_MISSING, [])
    found: list[dict[str, Any]] = []
    for driver in drivers:
        found += _devices(loader, driver, len(found))
    return {
        "calls": loader.calls,
        "loaded": loaded,
        "init": None if code == _MISSING else code,
        "devices": found,
    }


def _drivers(loader: Conversation) -> tuple[int, list[int]]:
    """Return the drivers, in the newer way and else in the older one."""
    wanted = InitDriverTypeDesc(_INIT_DRIVER_TYPE_DESC, None, _GPU)
    code, drivers = loader.handles("zeInitDrivers", after=(ctypes.byref(wanted),))
    if code == 0:
        return code, drivers
    # Older loaders lack the function; some that have it refuse drivers that lack it.
    older = loader.noted("zeInit", ctypes.c_uint32(_GPU))
    if older == 0:
        older, drivers = loader.handles("zeDriverGet")
    return (code if older == _MISSING else older), drivers


def _devices(loader: Conversation, driver: int, first: int) -> Iterator[dict[str, Any]]:
    function = "zeDeviceGet"
    code, handles = loader.handles(function, before=(ctypes.c_void_p(driver),))
    if code != 0:
        yield {"index": first, "call": function, "code": code}
    for index, handle in enumerate(handles, first):
        yield _device(loader, handle, index)


def _device(loader: Conversation, handle: int, index: int) -> dict[str, Any]:
    version = DeviceIpVersionExt(_DEVICE_IP_VERSION_EXT, None, 0)
    properties = DeviceProperties(_DEVICE_PROPERTIES, ctypes.addressof(version))
    function = "zeDeviceGetProperties"
    code = loader.call(function, ctypes.c_void_p(handle), ctypes.byref(properties))
    if code != 0:
        loader.note(f"{function}, device {index}", _outcome(code))
        return {"index": index, "call": function, "code": code}
    name = properties.name.decode("utf-8", "replace")
    words = f"type {properties.type}, vendor {properties.vendorId:#06x}, "
    words += f"device {properties.deviceId:#06x}, IP version {version.ipVersion:#010x}, {name}"
    loader.note(f"Level Zero device {index}", words)
    return {
        "index": index,
        "name": name,
        "type": properties.type,
        "vendor": properties.vendorId,
        "device": properties.deviceId,
        "flags": properties.flags,
        "ip": version.ipVersion,
    }


def main(arguments: Sequence[str]) -> None:
    """Answer on the private pipe, and leave without running the libraries' clean-up."""
    channel = os.dup(1)
    os.dup2(2, 1)  # what a driver prints goes to standard error (P-36)

    def trace(what: str) -> None:
        os.write(2, f"\ncalling {what}\n".encode("utf-8", "replace"))

    report = observe(arguments, trace)
    line = json.dumps(report).encode() + b"\n"
    while line:
        line = line[os.write(channel, line) :]
    # Drivers have been seen to hang on the way out.
    os._exit(0 if is_lasting(report) else NOT_LASTING)


def is_lasting(report: dict[str, Any]) -> bool:
    """Say whether the answer may be remembered: nothing went wrong that may pass."""
    devices = report["devices"]
    return bool(devices) and not any("code" in device for device in devices)


if __name__ == "__main__":
    main(sys.argv[1:])
