"""Query Intel's Level Zero loader, for ``platforms/isolated/library_child.py`` (P-133).

The arguments are names or paths of the loader, tried in order.

The answer:

``calls``
    list of ``[what, outcome]``, everything tried, in order.
``loaded``, ``init``
    the loaded library, or null; the result code of the initialisation, or null.
``devices``
    list of ``{"index", "name", "type", "vendor", "device", "flags", "ip"}``, numbers as
    Level Zero gives them, and ``{"index", "call", "code"}`` for failed queries.
"""

# Run by a script that has only the standard library on its path.
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wheelfit_runtime.platforms.isolated.library_child import Conversation, Library

_GPU = 1  # ZE_INIT_FLAG_GPU_ONLY, ZE_INIT_DRIVER_TYPE_FLAG_GPU

_INIT_DRIVER_TYPE_DESC = 0x20021
_DEVICE_PROPERTIES = 0x3
_DEVICE_IP_VERSION_EXT = 0x1000F

_LIMIT = 4096  # drivers and devices


class InitDriverTypeDesc(ctypes.Structure):
    """The layout of ``ze_init_driver_type_desc_t``."""

    _fields_: ClassVar = [
        ("stype", ctypes.c_uint32),
        ("pNext", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
    ]


class DeviceIpVersionExt(ctypes.Structure):
    """The layout of ``ze_device_ip_version_ext_t``."""

    _fields_: ClassVar = [
        ("stype", ctypes.c_uint32),
        ("pNext", ctypes.c_void_p),
        ("ipVersion", ctypes.c_uint32),
    ]


class DeviceProperties(ctypes.Structure):
    """The layout of ``ze_device_properties_t``."""

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


def observe(conversation: Conversation, arguments: Sequence[str]) -> dict[str, Any]:
    """Query the loader for every device of every GPU driver, and return the answer."""
    loader = conversation.load(arguments)
    devices: list[dict[str, Any]] = []
    init = None
    if loader is not None:
        code, drivers = _drivers(loader)
        init = None if code == loader.MISSING else code
        for driver in drivers:
            devices += _devices(loader, driver, len(devices))
    return {
        "calls": conversation.calls,
        "loaded": None if loader is None else loader.name,
        "init": init,
        "devices": devices,
    }


def _code_in_words(code: int) -> str:
    return f"error {code:#x}" if code else "0"


def _handles(
    loader: Library, function: str, before: Sequence[Any] = (), after: Sequence[Any] = ()
) -> tuple[int, list[int]]:
    """Return result code and handles of a function that first returns their number."""
    count = ctypes.c_uint32(0)
    code = loader.call_and_log(
        function,
        *(*before, ctypes.byref(count), None, *after),
        describe=lambda code: _code_in_words(code) if code else str(count.value),
    )
    if code != 0:
        return code, []
    count = ctypes.c_uint32(min(count.value, _LIMIT))
    handles = (ctypes.c_void_p * (count.value or 1))()
    if count.value:
        code = loader.call(function, *before, ctypes.byref(count), handles, *after)
    if code != 0:
        loader.log(f"{function}, handles", _code_in_words(code))
        return code, []
    return 0, [handle for handle in handles[: count.value] if handle]


def _drivers(loader: Library) -> tuple[int, list[int]]:
    """Return the drivers by the newer function, else by the older ones."""
    description = InitDriverTypeDesc(_INIT_DRIVER_TYPE_DESC, None, _GPU)
    code, drivers = _handles(loader, "zeInitDrivers", after=(ctypes.byref(description),))
    if code == 0:
        return code, drivers
    # Older loaders lack this function; some newer ones refuse it if the driver lacks it.
    older_code = loader.call_and_log("zeInit", ctypes.c_uint32(_GPU), describe=_code_in_words)
    if older_code == 0:
        older_code, drivers = _handles(loader, "zeDriverGet")
    return (code if older_code == loader.MISSING else older_code), drivers


def _devices(loader: Library, driver: int, first: int) -> Iterator[dict[str, Any]]:
    function = "zeDeviceGet"
    code, handles = _handles(loader, function, before=(ctypes.c_void_p(driver),))
    if code != 0:
        yield {"index": first, "call": function, "code": code}
    for index, handle in enumerate(handles, first):
        yield _device(loader, handle, index)


def _device(loader: Library, handle: int, index: int) -> dict[str, Any]:
    version = DeviceIpVersionExt(_DEVICE_IP_VERSION_EXT, None, 0)
    properties = DeviceProperties(_DEVICE_PROPERTIES, ctypes.addressof(version))
    function = "zeDeviceGetProperties"
    code = loader.call(function, ctypes.c_void_p(handle), ctypes.byref(properties))
    if code != 0:
        loader.log(f"{function}, device {index}", _code_in_words(code))
        return {"index": index, "call": function, "code": code}
    name = properties.name.decode("utf-8", "replace")
    facts = f"type {properties.type}, vendor {properties.vendorId:#06x}, "
    facts += f"device {properties.deviceId:#06x}, IP version {version.ipVersion:#010x}, {name}"
    loader.log(f"Level Zero device {index}", facts)
    return {
        "index": index,
        "name": name,
        "type": properties.type,
        "vendor": properties.vendorId,
        "device": properties.deviceId,
        "flags": properties.flags,
        "ip": version.ipVersion,
    }


def is_lasting(report: dict[str, Any]) -> bool:
    """Return whether the answer may be cached: it has no temporary error."""
    devices = report["devices"]
    return bool(devices) and not any("code" in device for device in devices)
