// What a host says of the model that it wants: DeepRec's keys, as far as they are of use here.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace afo {

struct ProcessorConfig {
  // Of the SavedModel.
  std::string savedmodel_dir;
  std::string signature_name = "serving_default";
  // The operations of a request run one after the other on the thread that asks. To wake threads for each costs more
  // processor time than it saves.
  bool enable_inline_execute = true;
  // Threads, 0: as many as there are cores.
  int inter_op_parallelism_threads = 0;
  int intra_op_parallelism_threads = 0;
};

constexpr int kMostThreads = 1024;

// Of the text of a JSON object. An unknown key, and a value that is not allowed, is an error that names it.
absl::StatusOr<ProcessorConfig> ParseProcessorConfig(const char* json);

}  // namespace afo
