/* A libcuda.so.1 without hardware; fake_driver.h says what drives it. */

#include "fake_driver.h"

enum { SUCCESS = 0, INVALID = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100 };
enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };

static int initialised = 0;

int cuDriverGetVersion(int *version) {
    misbehave("cuDriverGetVersion");
    *version = number("WHEELFIT_FAKE_CUDA_VERSION", 12040);
    return SUCCESS;
}

int cuInit(unsigned int flags) {
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    int code = number("WHEELFIT_FAKE_CUDA_INIT", SUCCESS);
    (void)flags;
    misbehave("cuInit");
    make_noise();
    if (code) return code;
    if (device_count() == 0 || (mask && !*mask)) return NO_DEVICE;
    initialised = 1;
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    if (!initialised) return NOT_INITIALIZED;
    *count = device_count();
    return SUCCESS;
}

int cuDeviceGet(int *device, int index) {
    if (!initialised) return NOT_INITIALIZED;
    *device = index;
    return index < device_count() ? SUCCESS : INVALID;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int major, minor;
    if (!device_capability(device, &major, &minor)) return INVALID;
    if (attribute != CAPABILITY_MAJOR && attribute != CAPABILITY_MINOR) return INVALID;
    *value = attribute == CAPABILITY_MAJOR ? major : minor;
    return SUCCESS;
}

int cuDeviceGetName(char *name, int length, int device) {
    device_name(device, name, length);
    return SUCCESS;
}
