// A SavedModel behind Session::Run, as TensorFlow Serving has it: one session with a pool of threads. For
// bench_processor.py, by C calls; what reads and writes messages around it is left out, in its favour.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session.h"

namespace {

struct Host {
  tensorflow::SavedModelBundle bundle;
  std::string input, output;
};

}  // namespace

extern "C" {

// Null where it does not load.
void* host_load(const char* directory, int threads) {
  auto* host = new Host;
  tensorflow::SessionOptions options;
  options.config.set_inter_op_parallelism_threads(threads);
  options.config.set_intra_op_parallelism_threads(threads);
  options.config.set_use_per_session_threads(true);
  const absl::Status status = tensorflow::LoadSavedModel(options, {}, directory, {"serve"}, &host->bundle);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return nullptr;
  }
  const tensorflow::SignatureDef& signature = host->bundle.GetSignatures().at("serving_default");
  host->input = signature.inputs().at("examples").name();
  host->output = signature.outputs().at("probabilities").name();
  return host;
}

// The answers to `count` records; 0, or 1 where there are none.
int host_run(void* from, const char* const* records, const int* sizes, int count, float* answers) {
  Host& host = *static_cast<Host*>(from);
  tensorflow::Tensor examples(tensorflow::DT_STRING, {count});
  for (int i = 0; i < count; ++i) examples.flat<tensorflow::tstring>()(i).assign(records[i], sizes[i]);
  std::vector<tensorflow::Tensor> outputs;
  const absl::Status status = host.bundle.session->Run({{host.input, examples}}, {host.output}, {}, &outputs);
  if (!status.ok()) return 1;
  std::copy_n(outputs[0].flat<float>().data(), count, answers);
  return 0;
}

}  // extern "C"
