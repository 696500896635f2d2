// What a host says of the model that it wants: DeepRec's keys, as far as they are of use here.
#pragma once

#include <string>
#include <vector>

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
  // Groups of threads, and how a request gets one: by its thread, or in turn.
  int session_num = 1;
  bool select_session_by_thread = false;
  // Processors of each group; none: any. Auto: those of the process, divided among the groups.
  std::vector<std::vector<int>> cpusets = {};
  bool cpusets_are_auto = false;
};

constexpr int kMostThreads = 1024, kMostSessions = 64, kMostProcessors = 1024;

// Of the text of a JSON object. An unknown key, and a value that is not allowed, is an error that names it.
absl::StatusOr<ProcessorConfig> ParseProcessorConfig(const char* json);

}  // namespace afo
