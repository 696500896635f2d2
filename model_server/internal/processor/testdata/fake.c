// A processor for tests: answers a request with its bytes, and fails on demand.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int Give(int status, const char* text, int size, void** data, int* out) {
  *data = malloc(size + 1);
  memcpy(*data, text, size);
  *out = size;
  return status;
}

// A signal ends a sleep, and Go has many.
static void Sleep(void) {
  struct timespec left = {0, 500000000};
  while (nanosleep(&left, &left) != 0) continue;
}

void* initialize(const char* entry, const char* config, int* state) {
  (void)entry;
  *state = strstr(config, "broken") ? -1 : 0;
  return *state == 0 ? strdup(config) : NULL;
}

const char* initialize_error(void) { return "cannot serve: it is broken"; }

int process(void* model, const void* input, int size, void** data, int* out) {
  (void)model;
  if (size == 1 && *(const char*)input == '4') return Give(400, "bad \xff request", 13, data, out);
  if (size == 1 && *(const char*)input == '5') return Give(500, "bad model", 9, data, out);
  if (size == 1 && *(const char*)input == '0') return 500;
  if (size == 1 && *(const char*)input == 'S') *(volatile int*)8 = 1;
  if (memmem(input, size, "sleep", 5)) Sleep();
  return input == NULL ? Give(400, "no request", 10, data, out) : Give(200, input, size, data, out);
}

int batch_process(void* model, const void** input, int* sizes, void** data, int* out) {
  (void)model, (void)input, (void)sizes, (void)data, (void)out;
  return 500;
}

int get_serving_model_info(void* model, void** data, int* out) {
  return Give(200, model, (int)strlen(model), data, out);
}

void free_output(void* data) { free(data); }

void finalize(void* model) { free(model); }
