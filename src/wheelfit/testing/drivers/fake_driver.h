/* Common to both fake libraries: a machine described by environment variables.
 *
 * WHEELFIT_FAKE_CUDA_VERSION    1000 * major + 10 * minor, as 12040 (default)
 * WHEELFIT_FAKE_DRIVER_VERSION  release of the driver, as 550.54.15 (default)
 * WHEELFIT_FAKE_DEVICES         capability and name of each device, as
 *                               "9.0 NVIDIA H100;7.5 Tesla T4"; empty or unset: none
 * WHEELFIT_FAKE_NO_PERMISSION   numbers of devices that may not be used, as "0,2" (NVML)
 * WHEELFIT_FAKE_MIG             numbers of devices that are split into instances, as "0" (NVML)
 * WHEELFIT_FAKE_LOST            numbers of devices that have fallen off, as "1" (NVML)
 * WHEELFIT_FAKE_NVML_INIT       result of NVML's initialisation (default 0);
 *                               9 driver not loaded, 18 version mismatch
 * WHEELFIT_FAKE_CUDA_INIT       result of cuInit (default 0); 100, 803, 804, 999
 * WHEELFIT_FAKE_NO_LIBCUDA      if set, NVML returns 12: libcuda not found
 * WHEELFIT_FAKE_HANG            name of the function that never returns
 * WHEELFIT_FAKE_ABORT           name of the function that aborts the process
 * WHEELFIT_FAKE_NOISE           if set, every initialisation prints to standard output
 * WHEELFIT_FAKE_FLOOD           if set, every initialisation prints without end
 * WHEELFIT_FAKE_TRACE           file to which every call that may misbehave adds its name
 * WHEELFIT_FAKE_TRACE_PROCESS   if set, each name is followed by the number of the process
 * CUDA_VISIBLE_DEVICES          as the real one: if set and empty, cuInit returns 100;
 *                               NVML ignores it
 *
 * Compiling with -DWITHOUT_V2 leaves out functions that old drivers lack.
 */

#ifndef WHEELFIT_FAKE_DRIVER_H
#define WHEELFIT_FAKE_DRIVER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_DEVICES 64

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int number(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value && *value ? atoi(value) : otherwise;
}

/* Leave a trace, hang or abort here if the environment says so. */
static void misbehave(const char *function) {
    const char *trace = setting("WHEELFIT_FAKE_TRACE", "");
    if (*trace) {
        FILE *file = fopen(trace, "a");
        if (file) {
            if (*setting("WHEELFIT_FAKE_TRACE_PROCESS", "")) {
                fprintf(file, "%s %ld\n", function, (long) getpid());
            } else {
                fprintf(file, "%s\n", function);
            }
            fclose(file);
        }
    }
    if (strcmp(setting("WHEELFIT_FAKE_HANG", ""), function) == 0) {
        for (;;) pause();
    }
    if (strcmp(setting("WHEELFIT_FAKE_ABORT", ""), function) == 0) abort();
}

static void make_noise(void) {
    while (getenv("WHEELFIT_FAKE_FLOOD")) {
        printf("all work and no play makes a driver chatty\n");
    }
    if (getenv("WHEELFIT_FAKE_NOISE")) {
        printf("{\"noise\": \"a driver that prints\"}\n");
        fflush(stdout);
    }
}

/* Is this number in a list as "0,2"? */
static int listed(const char *variable, int wanted) {
    const char *text = setting(variable, "");
    while (*text) {
        char *end;
        long value = strtol(text, &end, 10);
        if (end == text) return 0;
        if (value == wanted) return 1;
        text = *end ? end + 1 : end;
    }
    return 0;
}

/* Find the text of a device; return its length, or -1 past the end. */
static int device_text(int index, const char **start) {
    const char *text = setting("WHEELFIT_FAKE_DEVICES", "");
    int current = 0;
    if (!*text) return -1;
    for (;;) {
        const char *end = strchr(text, ';');
        int length = end ? (int)(end - text) : (int)strlen(text);
        if (current == index) {
            *start = text;
            return length;
        }
        if (!end) return -1;
        text = end + 1;
        current++;
    }
}

static int device_count(void) {
    const char *start;
    int count = 0;
    while (count < MAX_DEVICES && device_text(count, &start) >= 0) count++;
    return count;
}

static int device_capability(int index, int *major, int *minor) {
    const char *start;
    if (device_text(index, &start) < 0) return 0;
    return sscanf(start, "%d.%d", major, minor) == 2;
}

static void device_name(int index, char *name, int size) {
    const char *start;
    int length = device_text(index, &start);
    int skipped = 0;
    while (skipped < length && start[skipped] != ' ') skipped++;
    while (skipped < length && start[skipped] == ' ') skipped++;
    snprintf(name, size, "%.*s", length - skipped, start + skipped);
}

#endif
