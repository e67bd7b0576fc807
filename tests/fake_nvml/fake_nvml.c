/* A stand-in for NVIDIA's libnvidia-ml.so.1: as many GPUs as the file named by FAKE_NVML has lines "gpu", read anew at
 * each call, so that a test can change the host under a running program. Lines:
 *
 *   driver 550.54.15
 *   cuda 12040
 *   init 9                                              the error of nvmlInit (0 = works, -1 = hangs)
 *   gpu GPU-uuid|name|MiB|major.minor|state|pid,pid|more     state: ok, mig, lost, gone, hang;
 *                                                       ofN: an instance of GPU N, which is in state mig; these come last
 *
 * "more" are words such as "mode=3 ecc=1 errors=2 sm=1980 mem=2619 reasons=4"; what is not named is not supported.
 *
 * A line "GPU-uuid 79" that is added to the file FAKE_NVML.xids is an Xid error, for who registered for it before.
 *
 * "lost" has a handle and fails at every question with NVML_ERROR_GPU_IS_LOST; "gone" fails already for its handle.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, GPU_IS_LOST = 15 };

typedef struct { char uuid[96], name[96], state[16], pids[128], more[128]; unsigned long long memory; int major, minor; } Gpu;
typedef struct { char driver[80]; int cuda, init; unsigned count; Gpu gpus[16]; } Host;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;

static Host host(void) {
    Host found = {.driver = "550.54.15", .cuda = 12040};
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[1024];
    while (file && fgets(line, sizeof line, file)) {
        Gpu gpu = {.state = "ok"};
        sscanf(line, "driver %79s", found.driver);
        sscanf(line, "cuda %d", &found.cuda);
        sscanf(line, "init %d", &found.init);
        int rest = 0;
        if (found.count < 16 && sscanf(line, "gpu %95[^|]|%95[^|]|%llu|%d.%d|%15[^|\n]%n", gpu.uuid, gpu.name,
                                       &gpu.memory, &gpu.major, &gpu.minor, gpu.state, &rest) >= 5) {
            if (rest && line[rest] == '|' && sscanf(line + rest, "|%127[^|\n]", gpu.pids) >= 0) {
                char *more = strchr(line + rest + 1, '|');
                if (more) snprintf(gpu.more, sizeof gpu.more, "%.126s", more + 1);
            }
            found.gpus[found.count++] = gpu;
        }
    }
    if (file) fclose(file);
    return found;
}

/* A handle is the number of the GPU, from 1. */
static int of(void *handle, Gpu *gpu) {
    Host found = host();
    size_t number = (size_t)handle;
    if (!number || number > found.count) return INVALID_ARGUMENT;
    *gpu = found.gpus[number - 1];
    if (!strcmp(gpu->state, "hang")) for (;;) pause();
    return strcmp(gpu->state, "lost") && strcmp(gpu->state, "gone") ? SUCCESS : GPU_IS_LOST;
}

int nvmlInitWithFlags(unsigned flags) {
    int error = host().init;
    (void)flags;
    if (error < 0) for (;;) pause();
    return error;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int error) {
    switch (error) {
        case SUCCESS: return "Success";
        case NOT_SUPPORTED: return "Not Supported";
        case NOT_FOUND: return "Not Found";
        case 9: return "Driver Not Loaded";
        case GPU_IS_LOST: return "GPU is lost";
        case 18: return "Driver/library version mismatch";
        default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "%s", host().driver);
    return SUCCESS;
}
int nvmlSystemGetCudaDriverVersion(int *version) { *version = host().cuda; return SUCCESS; }
/* The number of the GPU that an instance is of, -1 for a GPU. */
static int parent(const Gpu *gpu) {
    int number = -1;
    sscanf(gpu->state, "of%d", &number);
    return number;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    Host found = host();
    *count = 0;
    for (unsigned index = 0; index < found.count; index++) *count += parent(&found.gpus[index]) < 0;
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) { (void)handle; *count = 7; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned number, void **instance) {
    Host found = host();
    for (unsigned index = 0, seen = 0; index < found.count; index++)
        if (parent(&found.gpus[index]) == (int)(size_t)handle - 1 && seen++ == number) {
            *instance = (void *)(size_t)(index + 1);
            return SUCCESS;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    Host found = host();
    if (index >= found.count) return INVALID_ARGUMENT;
    *handle = (void *)(size_t)(index + 1);
    return strcmp(found.gpus[index].state, "gone") ? SUCCESS : GPU_IS_LOST;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned length) {
    Gpu gpu;
    int error = of(handle, &gpu);
    if (!error) snprintf(text, length, "%s", gpu.uuid);
    return error;
}

int nvmlDeviceGetName(void *handle, char *text, unsigned length) {
    Gpu gpu;
    int error = of(handle, &gpu);
    if (!error) snprintf(text, length, "%s", gpu.name);
    return error;
}

int nvmlDeviceGetMemoryInfo(void *handle, Memory *memory) {
    Gpu gpu;
    int error = of(handle, &gpu);
    if (error) return error;
    if (!gpu.memory) return NOT_SUPPORTED;
    memory->total = memory->free = gpu.memory << 20;
    memory->used = 0;
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    Gpu gpu;
    int error = of(handle, &gpu);
    if (!error) *major = gpu.major, *minor = gpu.minor;
    return error;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *pending) {
    Gpu gpu;
    int error = of(handle, &gpu);
    if (error) return error;
    if (gpu.major < 8) return NOT_SUPPORTED;
    *now = *pending = !strcmp(gpu.state, "mig");
    return SUCCESS;
}

/* The number behind "name=" of a GPU's further words. */
static int more(void *handle, const char *name, unsigned long long *value) {
    Gpu gpu;
    int error = of(handle, &gpu);
    if (error) return error;
    for (char *rest = gpu.more, *word; (word = strsep(&rest, " \n"));)
        if (!strncmp(word, name, strlen(name)) && word[strlen(name)] == '=') {
            *value = strtoull(word + strlen(name) + 1, NULL, 10);
            return SUCCESS;
        }
    return NOT_SUPPORTED;
}

int nvmlDeviceGetComputeMode(void *handle, int *mode) {
    unsigned long long value = 0;
    int error = more(handle, "mode", &value);
    if (!error) *mode = (int)value;
    return error;
}
int nvmlDeviceGetEccMode(void *handle, int *now, int *pending) {
    unsigned long long value = 0;
    int error = more(handle, "ecc", &value);
    if (!error) *now = *pending = (int)value;
    return error;
}
/* kind 1: uncorrected; counter 0: since the driver was loaded. */
int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int counter, unsigned long long *errors) {
    return kind == 1 && counter == 0 ? more(handle, "errors", errors) : INVALID_ARGUMENT;
}
/* clock 1: SM, 2: memory. */
int nvmlDeviceGetClockInfo(void *handle, int clock, unsigned *mhz) {
    unsigned long long value = 0;
    int error = clock == 1 || clock == 2 ? more(handle, clock == 1 ? "sm" : "mem", &value) : INVALID_ARGUMENT;
    if (!error) *mhz = (unsigned)value;
    return error;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    return more(handle, "reasons", reasons);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, Process *processes) {
    Gpu gpu;
    int error = of(handle, &gpu);
    unsigned room = *count, number = 0;
    char *rest = gpu.pids;
    if (error) return error;
    for (char *word; (word = strsep(&rest, ",")) && *word; number++)
        if (processes && number < room) processes[number] = (Process){.pid = (unsigned)atoi(word)};
    *count = number;
    return number > room ? INSUFFICIENT_SIZE : SUCCESS;
}

typedef struct { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;
typedef struct { long read; unsigned registered; } Events;

static FILE *xids(void) {
    char path[4096];
    const char *host_file = getenv("FAKE_NVML");
    snprintf(path, sizeof path, "%s.xids", host_file ? host_file : "");
    return fopen(path, "r");
}

int nvmlEventSetCreate(void **set) {
    Events *events = calloc(1, sizeof *events);
    FILE *file = xids();
    if (file) {
        fseek(file, 0, SEEK_END);
        events->read = ftell(file);
        fclose(file);
    }
    *set = events;
    return SUCCESS;
}
/* Type 8: critical Xid errors. */
int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set) {
    Gpu gpu;
    int error = of(handle, &gpu);
    if (!error && types != 8) error = NOT_SUPPORTED;
    if (!error) ((Events *)set)->registered |= 1u << ((size_t)handle - 1);
    return error;
}
int nvmlEventSetWait_v2(void *set, Event *event, unsigned milliseconds) {
    Events *events = set;
    for (unsigned waited = 0; waited <= milliseconds; waited += 10, usleep(10000)) {
        Host found = host();
        FILE *file = xids();
        char uuid[96];
        unsigned long long xid;
        if (!file) continue;
        fseek(file, events->read, SEEK_SET);
        int read = fscanf(file, "%95s %llu", uuid, &xid);
        events->read = read == 2 ? ftell(file) : events->read;
        fclose(file);
        for (unsigned index = 0; read == 2 && index < found.count; index++)
            if (!strcmp(found.gpus[index].uuid, uuid) && events->registered & 1u << index) {
                *event = (Event){.device = (void *)(size_t)(index + 1), .type = 8, .data = xid};
                return SUCCESS;
            }
    }
    return TIMEOUT;
}
