"""Ask NVIDIA's driver libraries, in a process of its own (P-71, P-97, P-98).

Run as ``python -I -S child.py nvml=<library> … cuda=<library> …``; the
candidates of a kind are tried in order. Prints one line of JSON to what was
standard output when it started, and nothing else goes there: drivers that print
are sent to standard error. A driver may hang or crash; the last line of standard
error that starts with ``calling`` says where.

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

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NVML_FUNCTION_NOT_FOUND = 13
_NVML_DRIVER_NOT_LOADED = 9
_NO_PERMISSION = 4
_MISSING = -1  # the library has no function of this name

_CUDA_MAJOR = 75  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
_CUDA_MINOR = 76

_DEVICE_LIMIT = 4096  # a driver that claims more is not believed


NOT_LASTING = 3
"""Status with which the script ends where its answer may be another one soon."""


# The script must run as this one file, for which nothing is on the path but the standard library;
# so what the child of Intel's family does alike is written there again.
class Conversation:
    """Call functions of one library and note every outcome."""

    def __init__(self, calls: list[list[str]], trace: Callable[[str], None]) -> None:
        self.calls = calls
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
        return int(found(*arguments))

    def note(self, what: str, outcome: object) -> None:
        """Add an outcome to the answer."""
        self.calls.append([what, str(outcome)])

    def noted(self, function: str, *arguments: Any) -> int:
        """Call, note the result code, and return it."""
        code = self.call(function, *arguments)
        self.note(function, "no such function" if code == _MISSING else code)
        return code

    def number(self, function: str) -> tuple[int, int | None]:
        """Return result code and number of a function that gives one number."""
        value = ctypes.c_int(0)
        code = self.call(function, ctypes.byref(value))
        if code == _MISSING:
            self.note(function, "no such function")
        else:
            self.note(function, value.value if code == 0 else f"error {code}")
        return code, value.value if code == 0 else None


def observe(
    nvml: Sequence[str],
    cuda: Sequence[str],
    *,
    initialise: bool = True,
    trace: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Ask NVML, then as far as needed libcuda, and return the answer.

    :param nvml: names or paths of NVML, tried in order.
    :param cuda: names or paths of libcuda, tried in order.
    :param initialise: whether ``cuInit`` may be called; never in a process that
        goes on to do other things (P-72).
    """
    calls: list[list[str]] = []
    report: dict[str, Any] = {
        "calls": calls,
        "nvml": {"loaded": None, "init": None},
        "cuda": {"loaded": None, "init": None},
        "driver_version": None,
        "cuda_version": None,
        "devices": [],
    }
    _ask_nvml(Conversation(calls, trace), nvml, report)
    is_unloaded = report["nvml"]["init"] == _NVML_DRIVER_NOT_LOADED
    if report["cuda_version"] is None and not is_unloaded:
        _ask_cuda(Conversation(calls, trace), cuda, report, initialise=initialise)
    return report


def _ask_nvml(nvml: Conversation, names: Sequence[str], report: dict[str, Any]) -> None:
    report["nvml"]["loaded"] = nvml.load(names)
    if nvml.library is None:
        return
    code = nvml.noted("nvmlInitWithFlags", ctypes.c_uint(0))
    if code == _MISSING:
        code = nvml.noted("nvmlInit_v2")
    report["nvml"]["init"] = None if code == _MISSING else code
    if code != 0:
        return
    text = ctypes.create_string_buffer(96)
    if nvml.call("nvmlSystemGetDriverVersion", text, ctypes.c_uint(80)) == 0:
        report["driver_version"] = text.value.decode("utf-8", "replace")
        nvml.note("nvmlSystemGetDriverVersion", report["driver_version"])
    code, version = nvml.number("nvmlSystemGetCudaDriverVersion_v2")
    if code in (_MISSING, _NVML_FUNCTION_NOT_FOUND):
        code, version = nvml.number("nvmlSystemGetCudaDriverVersion")
    report["cuda_version"] = version
    _, count = nvml.number("nvmlDeviceGetCount_v2")
    for index in range(min(count or 0, _DEVICE_LIMIT)):
        report["devices"].append(_nvml_device(nvml, index))
    nvml.call("nvmlShutdown")


def _nvml_device(nvml: Conversation, index: int) -> dict[str, Any]:
    handle = ctypes.c_void_p()
    function = "nvmlDeviceGetHandleByIndex_v2"
    code = nvml.call(function, ctypes.c_uint(index), ctypes.byref(handle))
    major, minor = ctypes.c_int(), ctypes.c_int()
    if code == 0:
        function = "nvmlDeviceGetCudaComputeCapability"
        code = nvml.call(function, handle, ctypes.byref(major), ctypes.byref(minor))
    if code != 0:
        nvml.note(f"{function}, device {index}", f"error {code}")
        return {"index": index, "call": function, "code": code}
    texts = []
    for function in ("nvmlDeviceGetName", "nvmlDeviceGetUUID"):
        text = ctypes.create_string_buffer(128)
        done = nvml.call(function, handle, text, ctypes.c_uint(96)) == 0
        texts.append(text.value.decode("utf-8", "replace") if done else "")
    # An instance of a split GPU has the capability of the whole.
    current, pending = ctypes.c_uint(), ctypes.c_uint()
    code = nvml.call("nvmlDeviceGetMigMode", handle, ctypes.byref(current), ctypes.byref(pending))
    is_split = code == 0 and current.value == 1
    words = (f"{major.value}.{minor.value}", *texts, "MIG" if is_split else "")
    nvml.note(f"NVML device {index}", " ".join(filter(None, words)))
    return {
        "index": index,
        "name": texts[0],
        "uuid": texts[1],
        "mig": is_split,
        "capability": [major.value, minor.value],
    }


def _ask_cuda(
    cuda: Conversation, names: Sequence[str], report: dict[str, Any], *, initialise: bool
) -> None:
    report["cuda"]["loaded"] = cuda.load(names)
    if cuda.library is None:
        return
    _, report["cuda_version"] = cuda.number("cuDriverGetVersion")  # needs no cuInit
    if report["nvml"]["init"] == 0 or not initialise:
        return  # the devices are known already, or must not be asked for
    code = cuda.noted("cuInit", ctypes.c_uint(0))
    report["cuda"]["init"] = None if code == _MISSING else code
    if code != 0:
        return
    _, count = cuda.number("cuDeviceGetCount")
    for index in range(min(count or 0, _DEVICE_LIMIT)):
        report["devices"].append(_cuda_device(cuda, index))


def _cuda_device(cuda: Conversation, index: int) -> dict[str, Any]:
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
        cuda.note(f"{function}, device {index}", f"error {code}")
        return {"index": index, "call": function, "code": code}
    text = ctypes.create_string_buffer(128)
    done = cuda.call("cuDeviceGetName", text, ctypes.c_int(96), device) == 0
    name = text.value.decode("utf-8", "replace") if done else ""
    cuda.note(f"CUDA device {index}", f"{capability[0]}.{capability[1]} {name}".strip())
    return {"index": index, "name": name, "uuid": "", "mig": False, "capability": capability}


def main(arguments: Sequence[str]) -> None:
    """Answer on the private pipe, and leave without running the libraries' clean-up."""
    channel = os.dup(1)
    os.dup2(2, 1)  # what a driver prints goes to standard error (P-36)

    def trace(what: str) -> None:
        os.write(2, f"\ncalling {what}\n".encode("utf-8", "replace"))

    kinds: dict[str, list[str]] = {"nvml": [], "cuda": []}
    for argument in arguments:
        kind, _, name = argument.partition("=")
        kinds[kind].append(name)
    report = observe(kinds["nvml"], kinds["cuda"], trace=trace)
    line = json.dumps(report).encode() + b"\n"
    while line:
        line = line[os.write(channel, line) :]
    # Drivers have been seen to hang on the way out.
    os._exit(0 if is_lasting(report) else NOT_LASTING)


def is_lasting(report: dict[str, Any]) -> bool:
    """Say whether the answer may be remembered: nothing went wrong that may pass."""
    codes = [device.get("code", 0) for device in report["devices"]]
    is_started = report["cuda"]["init"] in (None, 0)
    is_whole = all(code in (0, _NO_PERMISSION) for code in codes)
    return bool(report["cuda_version"]) and is_started and is_whole


if __name__ == "__main__":
    main(sys.argv[1:])
