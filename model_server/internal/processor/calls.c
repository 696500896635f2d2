#define _GNU_SOURCE
#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Kept for the life of the process: nobody can say when TensorFlow's threads have left its code.
static void* Open(const char* path, char** wrong) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  *wrong = library == NULL ? strdup(dlerror()) : NULL;
  return library;
}

char* afo_open(const char* path) {
  char* wrong;
  Open(path, &wrong);
  return wrong;
}

char* afo_open_processor(const char* path, afo_calls* calls) {
  const struct {
    const char* name;
    void** to;
  } all[] = {
      {"initialize", (void**)&calls->initialize},
      {"initialize_error", (void**)&calls->initialize_error},
      {"process", (void**)&calls->process},
      {"batch_process", (void**)&calls->batch_process},
      {"get_serving_model_info", (void**)&calls->get_serving_model_info},
      {"free_output", (void**)&calls->free_output},
      {"finalize", (void**)&calls->finalize},
  };
  char* wrong;
  void* library = Open(path, &wrong);
  if (library == NULL) return wrong;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
    *all[i].to = dlsym(library, all[i].name);
    if (*all[i].to == NULL) return strdup(dlerror());
  }
  return NULL;
}

void* afo_initialize(const afo_calls* calls, const char* config, char** error) {
  int state = -1;
  void* model = calls->initialize("", config, &state);
  *error = model == NULL ? strdup(calls->initialize_error()) : NULL;
  return model;
}

static long long Cpu(void) {
  struct timespec now;
  return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0 ? now.tv_sec * 1000000000LL + now.tv_nsec : 0;
}

afo_output afo_process(const afo_calls* calls, void* model, const void* request, int size) {
  afo_output out = {0, 0, NULL, 0};
  const long long began = Cpu();
  out.status = calls->process(model, request, size, &out.data, &out.size);
  out.cpu = Cpu() - began;
  return out;
}

afo_output afo_info(const afo_calls* calls, void* model) {
  afo_output out = {0, 0, NULL, 0};
  out.status = calls->get_serving_model_info(model, &out.data, &out.size);
  return out;
}

void afo_free_output(const afo_calls* calls, void* data) { calls->free_output(data); }

void afo_finalize(const afo_calls* calls, void* model) { calls->finalize(model); }
