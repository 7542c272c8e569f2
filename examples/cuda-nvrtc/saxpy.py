"""Compile GPU code where it runs, and run it: y = a * x + y.

Nothing of CUDA has to be installed: NVRTC, NVIDIA's compiler, is brought when it is needed. Where
there is no GPU, the code is compiled all the same, and that is said.
"""

import argparse
import array
import ctypes
import sys

from wheelfit_runtime import initialize_cuda

SOURCE = b"""
extern "C" __global__ void saxpy(float a, const float *x, float *y, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        y[i] = a * x[i] + y[i];
}
"""
WITHOUT_GPU = 90  # what is compiled for where nobody will run it

COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR = 75, 76


class CudaError(Exception):
    """A function of CUDA did not do what it was asked."""


def compile_for(nvrtc: ctypes.CDLL, arch: int) -> bytes:
    """Return the machine code of SOURCE for one architecture, as 90."""
    program = ctypes.c_void_p()
    check_nvrtc(
        nvrtc,
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"saxpy.cu", 0, None, None),
    )
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture=sm_{arch}".encode())
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status:
            size = ctypes.c_size_t()
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise CudaError(log.value.decode())
        size = ctypes.c_size_t()
        check_nvrtc(nvrtc, nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        code = ctypes.create_string_buffer(size.value)
        check_nvrtc(nvrtc, nvrtc.nvrtcGetCUBIN(program, code))
        return code.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def check_nvrtc(nvrtc: ctypes.CDLL, status: int) -> None:
    """Raise what NVRTC says of a status."""
    if status:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise CudaError(nvrtc.nvrtcGetErrorString(status).decode())


class Driver:
    """Call the driver, and raise for whatever it refuses."""

    def __init__(self) -> None:
        name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        self._library = ctypes.CDLL(name)

    def __call__(self, name: str, *arguments: object) -> None:
        """Call a function of the driver."""
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            raise CudaError(f"{name}: {(text.value or b'').decode() or status}")


def architecture(driver: Driver, device: ctypes.c_int) -> int:
    """Return the architecture of a GPU, as 90."""
    numbers = []
    for attribute in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR):
        number = ctypes.c_int()
        driver("cuDeviceGetAttribute", ctypes.byref(number), attribute, device)
        numbers.append(number.value)
    return numbers[0] * 10 + numbers[1]


def run(driver: Driver, device: ctypes.c_int, code: bytes, count: int) -> float:
    """Return the largest error of what the GPU computed."""
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    # The primary context is the one that every library of this process shares.
    driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver("cuCtxSetCurrent", context)
    driver("cuModuleLoadData", ctypes.byref(module), code)
    driver("cuModuleGetFunction", ctypes.byref(function), module, b"saxpy")
    a = 2.0
    x = array.array("f", (i % 1000 for i in range(count)))
    y = array.array("f", [1.0]) * count
    size = count * x.itemsize
    places = []
    for row in (x, y):
        place = ctypes.c_uint64()
        driver("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        address, _ = row.buffer_info()
        driver("cuMemcpyHtoD_v2", place, ctypes.c_void_p(address), ctypes.c_size_t(size))
        places.append(place)
    arguments = (ctypes.c_float(a), *places, ctypes.c_int(count))
    pointers = (ctypes.c_void_p * len(arguments))(
        *(ctypes.cast(ctypes.byref(argument), ctypes.c_void_p) for argument in arguments)
    )
    threads = 256
    blocks = (count + threads - 1) // threads
    driver("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)
    result = array.array("f", bytes(size))
    address, _ = result.buffer_info()
    driver("cuMemcpyDtoH_v2", ctypes.c_void_p(address), places[1], ctypes.c_size_t(size))
    for place in places:
        driver("cuMemFree_v2", place)
    driver("cuDevicePrimaryCtxRelease_v2", device)
    return max(abs(got - (a * i + 1.0)) for got, i in zip(result, x, strict=True))


def main() -> int:
    """Compile, and run where that is possible."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", default="12", help="CUDA version, as 12, 12.8 or 13")
    parser.add_argument("--count", type=int, default=1 << 20, help="how many numbers")
    arguments = parser.parse_args()

    libraries = initialize_cuda(arguments.cuda, ["nvrtc"])
    print(f"CUDA {libraries.version}: {libraries.path('nvrtc')}")
    device, count = ctypes.c_int(), ctypes.c_int()
    try:
        driver = Driver()
        driver("cuInit", 0)
        driver("cuDeviceGetCount", ctypes.byref(count))
        driver("cuDeviceGet", ctypes.byref(device), 0)
    except (OSError, CudaError) as error:
        code = compile_for(libraries.handle("nvrtc"), WITHOUT_GPU)
        print(f"compiled {len(code)} bytes for sm_{WITHOUT_GPU}; not run: {error}")
        return 0
    arch = architecture(driver, device)
    code = compile_for(libraries.handle("nvrtc"), arch)
    worst = run(driver, device, code, arguments.count)
    print(f"compiled {len(code)} bytes for sm_{arch}; run: the largest error is {worst}")
    return 0 if worst == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
