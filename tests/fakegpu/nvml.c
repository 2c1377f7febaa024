/* A pretend libnvidia-ml.so.1 for tests of device discovery.
 *
 * FAKE_NVML holds a line per device: uuid,name,MB[,healthy|lost[,mig-uuid:mig-name:MB]...], devices separated by ';'.
 * Unset: the driver is not loaded.  Empty: a driver without devices.
 * FAKE_NVML_FILE is held open from the first init to the last shutdown, as the driver's /dev/nvidiactl is. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int nvmlReturn_t;
typedef struct Device* nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
enum { OK, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, NO_DRIVER = 9, LOST = 15 };

struct Device {
  char uuid[96], name[96];
  unsigned long long bytes;
  int lost;
  unsigned instances;
  struct Device* instance[8];
};
static struct Device devices[16];
static unsigned count, users;
static int control = -1;

static void fill(struct Device* d, const char* uuid, const char* name, const char* mb) {
  snprintf(d->uuid, sizeof d->uuid, "%s", uuid ? uuid : "");
  snprintf(d->name, sizeof d->name, "%s", name ? name : "");
  d->bytes = (mb ? strtoull(mb, 0, 10) : 0ull) << 20;
}

static void add_instance(struct Device* d, char* text) {
  char* at = 0;
  char* uuid = strtok_r(text, ":", &at);
  char* name = strtok_r(0, ":", &at);
  struct Device* instance = calloc(1, sizeof *instance);
  fill(instance, uuid, name, strtok_r(0, ":", &at));
  d->instance[d->instances++] = instance;
}

static void add_device(char* text) {
  char* at = 0;
  struct Device* d = &devices[count++];
  memset(d, 0, sizeof *d);
  char* uuid = strtok_r(text, ",", &at);
  char* name = strtok_r(0, ",", &at);
  fill(d, uuid, name, strtok_r(0, ",", &at));
  char* health = strtok_r(0, ",", &at);
  d->lost = health && !strcmp(health, "lost");
  for (char* more; d->instances < 8 && (more = strtok_r(0, ",", &at));) add_instance(d, more);
}

nvmlReturn_t nvmlInit_v2(void) {
  const char* given = getenv("FAKE_NVML");
  if (!given) return NO_DRIVER;
  const char* file = getenv("FAKE_NVML_FILE");
  if (!users++ && file) control = open(file, O_RDONLY | O_CLOEXEC);
  char *text = strdup(given), *at = 0;
  count = 0;
  for (char* one = strtok_r(text, ";", &at); one && count < 16; one = strtok_r(0, ";", &at)) add_device(one);
  free(text);
  return OK;
}
nvmlReturn_t nvmlInit(void) { return nvmlInit_v2(); }
nvmlReturn_t nvmlShutdown(void) {
  if (!users) return UNINITIALIZED;
  if (!--users && control >= 0) close(control), control = -1;
  return OK;
}
nvmlReturn_t nvmlSystemGetDriverVersion(char* text, unsigned size) {
  if (!users) return UNINITIALIZED;
  snprintf(text, size, "570.00-pretend");
  return OK;
}
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* number) {
  if (!users) return UNINITIALIZED;
  *number = count;
  return OK;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  if (!users) return UNINITIALIZED;
  if (index >= count) return INVALID;
  *device = &devices[index];
  return devices[index].lost ? LOST : OK;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char* text, unsigned size) {
  snprintf(text, size, "%s", d->uuid);
  return OK;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char* text, unsigned size) {
  snprintf(text, size, "%s", d->name);
  return OK;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t* memory) {
  memory->total = d->bytes;
  memory->used = 512ull << 20;
  memory->free = memory->total - memory->used;
  return OK;
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned* now, unsigned* later) {
  *now = *later = d->instances > 0;
  return OK;
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned* number) {
  *number = d->instances ? 8 : 0;
  return OK;
}
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned index, nvmlDevice_t* instance) {
  if (index >= d->instances) return NOT_FOUND;
  *instance = d->instance[index];
  return OK;
}
