/* A libnvidia-ml.so.1 without hardware; fake_driver.h says what drives it. */

#include "fake_driver.h"

enum { SUCCESS = 0, INVALID = 2, NO_PERMISSION = 4, LIBRARY_NOT_FOUND = 12, LOST = 15 };

typedef struct { int index; } device_t;
static device_t devices[MAX_DEVICES];

static int initialise(const char *function) {
    misbehave(function);
    make_noise();
    return number("WHEELFIT_FAKE_NVML_INIT", SUCCESS);
}

static int cuda_version(int *version) {
    if (getenv("WHEELFIT_FAKE_NO_LIBCUDA")) return LIBRARY_NOT_FOUND;
    *version = number("WHEELFIT_FAKE_CUDA_VERSION", 12040);
    return SUCCESS;
}

#ifndef WITHOUT_V2
int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    return initialise("nvmlInitWithFlags");
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    misbehave("nvmlSystemGetCudaDriverVersion_v2");
    return cuda_version(version);
}
#endif

int nvmlInit_v2(void) { return initialise("nvmlInit_v2"); }

int nvmlShutdown(void) {
    misbehave("nvmlShutdown");
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion(int *version) { return cuda_version(version); }

int nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    snprintf(text, length, "%s", setting("WHEELFIT_FAKE_DRIVER_VERSION", "550.54.15"));
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    misbehave("nvmlDeviceGetCount_v2");
    *count = (unsigned int)device_count();
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t **handle) {
    misbehave("nvmlDeviceGetHandleByIndex_v2");
    if (index >= (unsigned int)device_count()) return INVALID;
    if (listed("WHEELFIT_FAKE_NO_PERMISSION", (int)index)) return NO_PERMISSION;
    if (listed("WHEELFIT_FAKE_LOST", (int)index)) return LOST;
    devices[index].index = (int)index;
    *handle = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(device_t *device, int *major, int *minor) {
    misbehave("nvmlDeviceGetCudaComputeCapability");
    return device_capability(device->index, major, minor) ? SUCCESS : INVALID;
}

int nvmlDeviceGetMigMode(device_t *device, unsigned int *current, unsigned int *pending) {
    *current = *pending = (unsigned int)listed("WHEELFIT_FAKE_MIG", device->index);
    return SUCCESS;
}

int nvmlDeviceGetName(device_t *device, char *name, unsigned int length) {
    device_name(device->index, name, (int)length);
    return SUCCESS;
}

int nvmlDeviceGetUUID(device_t *device, char *uuid, unsigned int length) {
    snprintf(uuid, length, "GPU-00000000-0000-0000-0000-%012d", device->index);
    return SUCCESS;
}
