/* A driver whose GPU is the host's memory: what cuwheel/lab/perf/runner/gpu_driver.py asks for. */
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

static int setting(const char *name, int usual) {
    const char *value = getenv(name);
    return value ? atoi(value) : usual;
}

int cuInit(unsigned flags) { return setting("TEST_DRIVER_STATUS", 0); }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetCount(int *count) { *count = setting("TEST_DRIVER_GPUS", 1); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = context; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "Test GPU", size); return 0; }
int cuDeviceGetUuid(unsigned char *uuid, int device) { memset(uuid, 7 + device, 16); return 0; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 7 + device, 16); return 0; }
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = 1 << 26; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuMemGetInfo_v2(size_t *available, size_t *all) { *available = 1 << 24; *all = 1 << 26; return 0; }
int cuMemAlloc_v2(address *made, size_t size) { *made = (address)malloc(size); return 0; }
int cuMemFree_v2(address made) { free((void *)made); return 0; }
int cuMemsetD8_v2(address made, unsigned char byte, size_t size) {
    memset((void *)made, byte, size);
    return 0;
}
int cuMemcpyDtoDAsync_v2(address to, address from, size_t size, void *stream) {
    memcpy((void *)to, (void *)from, size);
    return 0;
}
int cuEventCreate(void **event, unsigned flags) { *event = event; return 0; }
int cuEventRecord(void *event, void *stream) { return 0; }
int cuEventSynchronize(void *event) { return 0; }
int cuEventElapsedTime(float *milliseconds, void *start, void *end) { *milliseconds = 0.5f; return 0; }
int cuGetErrorString(int status, const char **text) { *text = "no CUDA-capable device"; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 16: *value = 4; break;           /* multiprocessors */
    case 38: *value = 1 << 16; break;     /* bytes of L2 */
    case 75: *value = 9; break;           /* compute capability */
    default: *value = 0;
    }
    return 0;
}
