"""Query NVIDIA's driver libraries, for ``platforms/isolated/library_child.py`` (P-97, P-98).

The arguments are ``nvml=<library> … cuda=<library> …``, those of a kind tried in order.

The answer:

``calls``
    list of ``[what, outcome]``, everything tried, in order.
``nvml``, ``cuda``
    ``{"loaded": path or null, "init": result code or null}``.
``driver_version``, ``cuda_version``
    release of the driver as text; 1000 × major + 10 × minor.
``devices``
    list of ``{"index", "name", "uuid", "mig", "capability": [major, minor]}`` for usable
    devices and ``{"index", "call", "code"}`` for others.
"""

# Run by a script that has only the standard library on its path.
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelfit_runtime.platforms.isolated.library_child import Conversation, Library

_NVML_FUNCTION_NOT_FOUND = 13
_NVML_DRIVER_NOT_LOADED = 9
_NO_PERMISSION = 4

_CUDA_MAJOR = 75  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
_CUDA_MINOR = 76

_DEVICE_LIMIT = 4096
# Sizes of buffers in the headers of NVIDIA; a driver that writes more does not overflow ours.
_VERSION_SIZE = 80
_TEXT_SIZE = 96
_SPARE = 32


def observe(
    conversation: Conversation, arguments: Sequence[str], *, initialise: bool = True
) -> dict[str, Any]:
    """Query NVML, then as far as needed libcuda, and return the answer.

    :param initialise: whether ``cuInit`` may be called; never in a process that continues with
        other work (P-72).
    """
    kinds: dict[str, list[str]] = {"nvml": [], "cuda": []}
    for argument in arguments:
        kind, _, name = argument.partition("=")
        kinds[kind].append(name)
    report: dict[str, Any] = {
        "calls": conversation.calls,
        "nvml": {"loaded": None, "init": None},
        "cuda": {"loaded": None, "init": None},
        "driver_version": None,
        "cuda_version": None,
        "devices": [],
    }
    if nvml := conversation.load(kinds["nvml"]):
        _query_nvml(nvml, report)
    is_unloaded = report["nvml"]["init"] == _NVML_DRIVER_NOT_LOADED
    if report["cuda_version"] is not None or is_unloaded:
        return report
    if cuda := conversation.load(kinds["cuda"]):
        _query_cuda(cuda, report, initialise=initialise)
    return report


def _query_nvml(nvml: Library, report: dict[str, Any]) -> None:
    code = nvml.call_and_log("nvmlInitWithFlags", ctypes.c_uint(0))
    if code == nvml.MISSING:
        code = nvml.call_and_log("nvmlInit_v2")
    report["nvml"] = {"loaded": nvml.name, "init": None if code == nvml.MISSING else code}
    if code != 0:
        return
    text = ctypes.create_string_buffer(_VERSION_SIZE + _SPARE)
    if nvml.call("nvmlSystemGetDriverVersion", text, ctypes.c_uint(_VERSION_SIZE)) == 0:
        report["driver_version"] = text.value.decode("utf-8", "replace")
        nvml.log("nvmlSystemGetDriverVersion", report["driver_version"])
    code, version = nvml.call_for_number("nvmlSystemGetCudaDriverVersion_v2")
    if code in (nvml.MISSING, _NVML_FUNCTION_NOT_FOUND):
        code, version = nvml.call_for_number("nvmlSystemGetCudaDriverVersion")
    report["cuda_version"] = version
    _, count = nvml.call_for_number("nvmlDeviceGetCount_v2")
    for index in range(min(count or 0, _DEVICE_LIMIT)):
        report["devices"].append(_nvml_device(nvml, index))
    nvml.call("nvmlShutdown")


def _nvml_device(nvml: Library, index: int) -> dict[str, Any]:
    handle = ctypes.c_void_p()
    function = "nvmlDeviceGetHandleByIndex_v2"
    code = nvml.call(function, ctypes.c_uint(index), ctypes.byref(handle))
    major, minor = ctypes.c_int(), ctypes.c_int()
    if code == 0:
        function = "nvmlDeviceGetCudaComputeCapability"
        code = nvml.call(function, handle, ctypes.byref(major), ctypes.byref(minor))
    if code != 0:
        nvml.log(f"{function}, device {index}", f"error {code}")
        return {"index": index, "call": function, "code": code}
    texts = []
    for function in ("nvmlDeviceGetName", "nvmlDeviceGetUUID"):
        text = ctypes.create_string_buffer(_TEXT_SIZE + _SPARE)
        has_text = nvml.call(function, handle, text, ctypes.c_uint(_TEXT_SIZE)) == 0
        texts.append(text.value.decode("utf-8", "replace") if has_text else "")
    # An instance of a split GPU has the capability of the whole.
    current, pending = ctypes.c_uint(), ctypes.c_uint()
    code = nvml.call("nvmlDeviceGetMigMode", handle, ctypes.byref(current), ctypes.byref(pending))
    is_split = code == 0 and current.value == 1
    facts = (f"{major.value}.{minor.value}", *texts, "MIG" if is_split else "")
    nvml.log(f"NVML device {index}", " ".join(filter(None, facts)))
    return {
        "index": index,
        "name": texts[0],
        "uuid": texts[1],
        "mig": is_split,
        "capability": [major.value, minor.value],
    }


def _query_cuda(cuda: Library, report: dict[str, Any], *, initialise: bool) -> None:
    report["cuda"]["loaded"] = cuda.name
    _, report["cuda_version"] = cuda.call_for_number("cuDriverGetVersion")  # needs no cuInit
    if report["nvml"]["init"] == 0 or not initialise:
        return  # NVML has listed the devices, or they must not be queried
    code = cuda.call_and_log("cuInit", ctypes.c_uint(0))
    report["cuda"]["init"] = None if code == cuda.MISSING else code
    if code != 0:
        return
    _, count = cuda.call_for_number("cuDeviceGetCount")
    for index in range(min(count or 0, _DEVICE_LIMIT)):
        report["devices"].append(_cuda_device(cuda, index))


def _cuda_device(cuda: Library, index: int) -> dict[str, Any]:
    device = ctypes.c_int()
    function = "cuDeviceGet"
    code = cuda.call(function, ctypes.byref(device), ctypes.c_int(index))
    capability = []
    for attribute in (_CUDA_MAJOR, _CUDA_MINOR):
        if code == 0:
            value = ctypes.c_int()
            function = "cuDeviceGetAttribute"
            code = cuda.call(function, ctypes.byref(value), ctypes.c_int(attribute), device)
            capability.append(value.value)
    if code != 0:
        cuda.log(f"{function}, device {index}", f"error {code}")
        return {"index": index, "call": function, "code": code}
    text = ctypes.create_string_buffer(_TEXT_SIZE + _SPARE)
    has_name = cuda.call("cuDeviceGetName", text, ctypes.c_int(_TEXT_SIZE), device) == 0
    name = text.value.decode("utf-8", "replace") if has_name else ""
    cuda.log(f"CUDA device {index}", f"{capability[0]}.{capability[1]} {name}".strip())
    return {"index": index, "name": name, "uuid": "", "mig": False, "capability": capability}


def is_lasting(report: dict[str, Any]) -> bool:
    """Return whether the answer may be cached: it has no temporary error."""
    codes = [device.get("code", 0) for device in report["devices"]]
    is_started = report["cuda"]["init"] in (None, 0)
    is_complete = all(code in (0, _NO_PERMISSION) for code in codes)
    return bool(report["cuda_version"]) and is_started and is_complete
