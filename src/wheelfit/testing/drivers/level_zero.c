/* A libze_loader.so.1 without hardware, driven by environment variables.
 *
 * WHEELFIT_FAKE_ZE_DEVICES       vendor and device, version, place and name of each device, as
 *                                "8086:56a0 12.55.8 discrete Arc A770;10de:1 0.0.0 discrete X";
 *                                "|" instead of ";" begins another driver; empty: no device.
 *                                The place is discrete, integrated, or npu for no GPU.
 * WHEELFIT_FAKE_ZE_INIT_DRIVERS  what zeInitDrivers returns (default 0), as 0x78000001
 * WHEELFIT_FAKE_ZE_INIT          what zeInit returns (default 0)
 * WHEELFIT_FAKE_ZE_LOST          numbers of devices that have fallen off, as "1"
 * WHEELFIT_FAKE_ZE_NO_VERSION    if set, the drivers know no versions of devices
 * ZE_AFFINITY_MASK               as the real one: if set, only the first device is shown
 *
 * and WHEELFIT_FAKE_HANG, _ABORT and _NOISE as in fake_driver.h. Compiling with
 * -DWITHOUT_INIT_DRIVERS leaves out what old loaders lack.
 */

#include <stdint.h>

#include "fake_driver.h"

enum {
    SUCCESS = 0,
    DEVICE_LOST = 0x70000001,
    INVALID_ARGUMENT = 0x78000004,
    INIT_DRIVER_TYPE_DESC = 0x20021,
    DEVICE_PROPERTIES = 0x3,
    DEVICE_IP_VERSION_EXT = 0x1000f,
    GPU = 1,
    NPU = 5,
    INTEGRATED = 1,
};

typedef struct header {
    uint32_t stype;
    struct header *next;
} header_t;

typedef struct {
    header_t header;
    uint32_t flags;
} init_driver_type_desc_t;

typedef struct {
    header_t header;
    uint32_t version;
} device_ip_version_t;

typedef struct {
    header_t header;
    uint32_t type, vendor, device, flags, subdevice, clock;
    uint64_t largest_allocation;
    uint32_t contexts, queue_priority, threads, simd_width, units, subslices, slices;
    uint64_t timer_resolution;
    uint32_t timestamp_bits, kernel_timestamp_bits;
    uint8_t uuid[16];
    char name[256];
} device_properties_t;

_Static_assert(sizeof(device_properties_t) == 368, "as in version 1.17 of Level Zero");

typedef struct {
    int driver, number;
    unsigned vendor, device, architecture, release, revision;
    char place[16], name[256];
} device_t;

static device_t devices[MAX_DEVICES];
static int count, drivers;

static uint32_t code(const char *variable) {
    return (uint32_t)strtoul(setting(variable, "0"), NULL, 0);
}

static void look(void) {
    const char *text = setting("WHEELFIT_FAKE_ZE_DEVICES", "");
    const char *mask = getenv("ZE_AFFINITY_MASK");
    count = 0;
    drivers = 1;
    while (*text && count < MAX_DEVICES) {
        device_t *device = &devices[count];
        size_t length = strcspn(text, ";|");
        if (sscanf(text, "%x:%x %u.%u.%u %15[a-z] %255[^;|]", &device->vendor, &device->device,
                   &device->architecture, &device->release, &device->revision, device->place,
                   device->name) == 7) {
            device->driver = drivers;
            device->number = count++;
        }
        text += length;
        if (*text == '|') drivers++;
        if (*text) text++;
    }
    if (mask && count > 1) count = 1;
}

static uint32_t initialise(const char *function, const char *variable) {
    misbehave(function);
    make_noise();
    look();
    return code(variable);
}

/* Handles of drivers are their numbers from 1. */
static uint32_t give_drivers(uint32_t *number, void **handles) {
    if (!handles) {
        *number = (uint32_t)drivers;
        return SUCCESS;
    }
    for (uint32_t index = 0; index < *number; index++) handles[index] = (void *)(uintptr_t)(index + 1);
    return SUCCESS;
}

#ifndef WITHOUT_INIT_DRIVERS
uint32_t zeInitDrivers(uint32_t *number, void **handles, init_driver_type_desc_t *wanted) {
    uint32_t result = initialise("zeInitDrivers", "WHEELFIT_FAKE_ZE_INIT_DRIVERS");
    if (result) return result;
    if (wanted->header.stype != INIT_DRIVER_TYPE_DESC || wanted->header.next || wanted->flags != GPU)
        return INVALID_ARGUMENT;
    return give_drivers(number, handles);
}
#endif

uint32_t zeInit(uint32_t flags) {
    return flags == GPU ? initialise("zeInit", "WHEELFIT_FAKE_ZE_INIT") : INVALID_ARGUMENT;
}

uint32_t zeDriverGet(uint32_t *number, void **handles) {
    misbehave("zeDriverGet");
    return give_drivers(number, handles);
}

uint32_t zeDeviceGet(void *driver, uint32_t *number, device_t **handles) {
    uint32_t found = 0;
    misbehave("zeDeviceGet");
    for (int index = 0; index < count; index++) {
        if (devices[index].driver != (int)(uintptr_t)driver) continue;
        if (handles && found < *number) handles[found] = &devices[index];
        found++;
    }
    if (!handles) *number = found;
    return SUCCESS;
}

uint32_t zeDeviceGetProperties(device_t *device, device_properties_t *properties) {
    misbehave("zeDeviceGetProperties");
    if (listed("WHEELFIT_FAKE_ZE_LOST", device->number)) return DEVICE_LOST;
    if (properties->header.stype != DEVICE_PROPERTIES) return INVALID_ARGUMENT;
    properties->type = strcmp(device->place, "npu") ? GPU : NPU;
    properties->vendor = device->vendor;
    properties->device = device->device;
    properties->flags = strcmp(device->place, "integrated") ? 0 : INTEGRATED;
    snprintf(properties->name, sizeof properties->name, "%s", device->name);
    for (header_t *next = properties->header.next; next; next = next->next)
        if (next->stype == DEVICE_IP_VERSION_EXT && !getenv("WHEELFIT_FAKE_ZE_NO_VERSION"))
            ((device_ip_version_t *)next)->version =
                device->architecture << 22 | device->release << 14 | device->revision;
    return SUCCESS;
}
