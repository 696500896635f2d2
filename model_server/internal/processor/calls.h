// The calls of libafo_processor.so (afo/serving/processor.h), found when the server runs: the binary is linked with
// neither it nor TensorFlow, so it builds with gcc alone, and says what is missing where it runs.
#pragma once

typedef struct {
  void* (*initialize)(const char*, const char*, int*);
  const char* (*initialize_error)(void);
  int (*process)(void*, const void*, int, void**, int*);
  int (*batch_process)(void*, const void**, int*, void**, int*);
  int (*get_serving_model_info)(void*, void**, int*);
  void (*free_output)(void*);
  void (*finalize)(void*);
} afo_calls;

// What a call gave. `data` is the library's, given back by `free_output`; null: nothing.
typedef struct {
  int status;
  int size;
  void* data;
  // Processor time of the calling thread within `process`, in nanoseconds.
  long long cpu;
} afo_output;

// Opens a library that others find by its name. Returns what is wrong, to be freed, or null.
char* afo_open(const char* path);

// Opens the processor and finds its calls. Returns what is wrong, to be freed, or null.
char* afo_open_processor(const char* path, afo_calls* calls);

// A model, or null and `*error`, to be freed. Both in one call: the text is the thread's, and a goroutine changes its.
void* afo_initialize(const afo_calls* calls, const char* config, char** error);

afo_output afo_process(const afo_calls* calls, void* model, const void* request, int size);
afo_output afo_info(const afo_calls* calls, void* model);
void afo_free_output(const afo_calls* calls, void* data);
void afo_finalize(const afo_calls* calls, void* model);
