#include "afo/serving/processor.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "afo/core/joined_requests.h"
#include "afo/core/predict_request.h"
#include "afo/core/predict_response.h"
#include "afo/serving/arrow_batch.h"
#include "afo/serving/operations.h"
#include "afo/serving/processor_config.h"
#include "afo/serving/served_model.h"
#include "afo/serving/served_model_info.h"

namespace afo {
namespace {

using tensorflow::Tensor;

constexpr int kOk = 200, kBadRequest = 400, kFailed = 500;

thread_local std::string initialize_error_text;

// To the machine: what TensorFlow takes to load a graph is several times what the model needs then, and each version of
// a server leaves it in another arena of malloc.
void GiveFreedMemoryBack() { malloc_trim(0); }

// What a host has of an answer.
struct Output {
  void** data;
  int* size;
};

// Gives a host `size` bytes that `write` writes.
template <typename Write>
int Give(int code, std::size_t size, Output to, const Write& write) {
  if (size > INT32_MAX) return kFailed;
  // As `free` takes it, which hosts of DeepRec call.
  *to.data = std::malloc(std::max<std::size_t>(size, 1));
  if (*to.data == nullptr) return kFailed;
  write(static_cast<char*>(*to.data));
  *to.size = static_cast<int>(size);
  return code;
}

int GiveText(int code, std::string_view text, Output to) {
  return Give(code, text.size(), to, [text](char* bytes) { std::memcpy(bytes, text.data(), text.size()); });
}

int GiveStatus(const absl::Status& status, Output to) {
  // TensorFlow adds which node of which function it was.
  const std::string_view message = status.message();
  return GiveText(absl::IsInvalidArgument(status) ? kBadRequest : kFailed, message.substr(0, message.find("\n\t [[")),
                  to);
}

// A request that was read, and the signature that it asks for.
struct Asked {
  PredictRequest request;
  const ServedSignature* signature;
};

bool HasOutput(const ServedSignature& signature, std::string_view name) {
  const auto& outputs = signature.outputs();
  return std::any_of(outputs.begin(), outputs.end(), [name](const auto& output) { return output.name == name; });
}

absl::StatusOr<Asked> Parse(const ServedModel& model, const void* data, int size) {
  if (data == nullptr || size < 0) return absl::InvalidArgumentError("there is no request");
  ParsedPredictRequest parsed = ParsePredictRequest({static_cast<const char*>(data), static_cast<std::size_t>(size)});
  if (!parsed.wrong.empty()) return absl::InvalidArgumentError(absl::StrCat("the PredictRequest ", parsed.wrong));
  const absl::StatusOr<const ServedSignature*> signature = model.Find(parsed.request.signature);
  if (!signature.ok()) return signature.status();
  for (const std::string_view name : parsed.request.output_filter) {
    if (!HasOutput(**signature, name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("output_filter names `", std::string(name.substr(0, 80)), "`, which is no output"));
    }
  }
  return Asked{std::move(parsed.request), *signature};
}

// The outputs that a request wants.
PredictResponse ResponseOf(const ServedSignature& signature, const PredictRequest& request,
                           std::span<const Tensor> outputs) {
  PredictResponse response{request.model, signature.name(), request.version, {}};
  const auto& filter = request.output_filter;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = signature.outputs()[i].name;
    if (!filter.empty() && std::find(filter.begin(), filter.end(), name) == filter.end()) continue;
    const auto dims = outputs[i].shape().dim_sizes();
    response.outputs.push_back(
        {name, static_cast<TensorType>(outputs[i].dtype()), {dims.begin(), dims.end()}, outputs[i].tensor_data()});
  }
  return response;
}

int GiveResponse(const PredictResponse& response, Output to) {
  return Give(kOk, PredictResponseBytes(response), to, [&](char* bytes) { WritePredictResponse(response, bytes); });
}

absl::StatusOr<std::unique_ptr<ServedModel>> Initialize(const char* config_text) {
  if (config_text == nullptr) return absl::InvalidArgumentError("model_config is null");
  const absl::StatusOr<ProcessorConfig> config = ParseProcessorConfig(config_text);
  if (!config.ok()) return config.status();
  // A model of frozen tables needs none.
  const absl::Status operations = LoadOperations();
  if (!operations.ok() && !absl::IsNotFound(operations)) return operations;
  auto model = ServedModel::Load(*config);
  if (!model.ok() && !operations.ok()) {
    return absl::Status(model.status().code(), absl::StrCat(model.status().message(), " (", operations.message(), ")"));
  }
  return model;
}

int Process(const ServedModel& model, const void* data, int size, Output to) {
  const absl::StatusOr<Asked> asked = Parse(model, data, size);
  if (!asked.ok()) return GiveStatus(asked.status(), to);
  const absl::StatusOr<std::vector<Tensor>> outputs = asked->signature->Predict(asked->request.inputs);
  if (!outputs.ok()) return GiveStatus(outputs.status(), to);
  return GiveResponse(ResponseOf(*asked->signature, asked->request, *outputs), to);
}

// What is wrong with one request of a batch.
absl::Status OfBatch(std::size_t number, std::string_view wrong) {
  return absl::InvalidArgumentError(absl::StrCat("request ", number, " of the batch: ", std::string(wrong)));
}

// Requests of one signature.
struct AskedBatch {
  std::vector<PredictRequest> requests;
  const ServedSignature* signature = nullptr;
};

absl::StatusOr<AskedBatch> ParseAll(const ServedModel& model, const void* const* data, const int* sizes) {
  AskedBatch batch;
  for (std::size_t i = 0; data[i] != nullptr; ++i) {
    absl::StatusOr<Asked> asked = Parse(model, data[i], sizes[i]);
    if (!asked.ok()) return OfBatch(i, asked.status().message());
    if (i == 0) batch.signature = asked->signature;
    if (asked->signature != batch.signature) {
      return OfBatch(i, absl::StrCat("it asks for signature ", asked->signature->name(), ", and the first for ",
                                     batch.signature->name()));
    }
    batch.requests.push_back(std::move(asked->request));
  }
  return batch;
}

// The rows of each output that are a request's.
absl::StatusOr<std::vector<Tensor>> RowsOf(const std::vector<Tensor>& outputs, std::int64_t first, std::int64_t count,
                                           std::int64_t all) {
  std::vector<Tensor> rows;
  for (const Tensor& output : outputs) {
    if (output.dims() == 0 || output.dim_size(0) != all)
      return absl::InternalError("the model's outputs have no row for each of a batch");
    rows.push_back(output.Slice(first, first + count));
  }
  return rows;
}

absl::Status NoMemoryForAnswer() { return absl::ResourceExhaustedError("no memory is left for an answer"); }

// Of requests that cannot be one batch.
absl::Status AnswerEach(const AskedBatch& batch, void** data, int* sizes) {
  const auto& [requests, signature] = batch;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const absl::StatusOr<std::vector<Tensor>> outputs = signature->Predict(requests[i].inputs);
    if (absl::IsInvalidArgument(outputs.status())) return OfBatch(i, outputs.status().message());
    if (!outputs.ok()) return outputs.status();
    if (GiveResponse(ResponseOf(*signature, requests[i], *outputs), {&data[i], &sizes[i]}) != kOk)
      return NoMemoryForAnswer();
  }
  return absl::OkStatus();
}

absl::Status Answer(const AskedBatch& batch, void** data, int* sizes) {
  const auto& [requests, signature] = batch;
  if (!signature->TakesBatches()) return AnswerEach(batch, data, sizes);
  const JoinedRequests joined = JoinRequests(requests);
  if (!joined.wrong.empty()) return OfBatch(joined.number, joined.wrong);
  const absl::StatusOr<std::vector<Tensor>> outputs = signature->Predict(joined.inputs);
  if (!outputs.ok()) return outputs.status();
  std::int64_t all = 0, first = 0;
  for (const std::int64_t rows : joined.rows) all += rows;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const absl::StatusOr<std::vector<Tensor>> own = RowsOf(*outputs, first, joined.rows[i], all);
    if (!own.ok()) return own.status();
    if (GiveResponse(ResponseOf(*signature, requests[i], *own), {&data[i], &sizes[i]}) != kOk)
      return NoMemoryForAnswer();
    first += joined.rows[i];
  }
  return absl::OkStatus();
}

int ProcessBatch(const ServedModel& model, const void* const* data, const int* sizes, void** outputs,
                 int* output_sizes) {
  std::size_t count = 0;
  for (; data[count] != nullptr; ++count) {
    outputs[count] = nullptr;
    output_sizes[count] = 0;
  }
  if (count == 0) return kBadRequest;
  const absl::StatusOr<AskedBatch> batch = ParseAll(model, data, sizes);
  const absl::Status status = batch.ok() ? Answer(*batch, outputs, output_sizes) : batch.status();
  if (status.ok()) return kOk;
  for (std::size_t i = 0; i < count; ++i) {
    std::free(outputs[i]);
    outputs[i] = nullptr;
    output_sizes[i] = 0;
  }
  return GiveStatus(status, {&outputs[0], &output_sizes[0]});
}

int ProcessArrow(const ServedModel& model, const char* signature, const ReleasedAtEnd<ArrowSchema>& schema,
                 const ReleasedAtEnd<ArrowArray>& batch, ArrowSchema* answer_schema, ArrowArray* answer, Output to) {
  if (!schema.holds() || !batch.holds()) return GiveText(kBadRequest, "there is no batch, or it was released", to);
  const absl::Status status = AnswerArrowBatch(model, signature, *schema, *batch, answer_schema, answer);
  return status.ok() ? kOk : GiveStatus(status, to);
}

// No exception leaves a call: the host may be of another language.
template <typename Call>
int Guarded(Output to, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return GiveText(kFailed, error.what(), to);
  }
}

}  // namespace
}  // namespace afo

#define AFO_EXPORTED __attribute__((visibility("default")))

extern "C" {

AFO_EXPORTED void* initialize(const char* /*model_entry*/, const char* model_config, int* state) {
  afo::initialize_error_text.clear();
  try {
    auto model = afo::Initialize(model_config);
    if (model.ok()) {
      afo::GiveFreedMemoryBack();
      if (state != nullptr) *state = 0;
      return model->release();
    }
    afo::initialize_error_text = model.status().message();
  } catch (const std::exception& error) {
    afo::initialize_error_text = error.what();
  }
  if (state != nullptr) *state = -1;
  return nullptr;
}

AFO_EXPORTED const char* initialize_error(void) { return afo::initialize_error_text.c_str(); }

AFO_EXPORTED int process(void* model, const void* input_data, int input_size, void** output_data, int* output_size) {
  if (model == nullptr || output_data == nullptr || output_size == nullptr) return afo::kFailed;
  *output_data = nullptr;
  *output_size = 0;
  const afo::Output to{output_data, output_size};
  return afo::Guarded(to,
                      [&] { return afo::Process(*static_cast<afo::ServedModel*>(model), input_data, input_size, to); });
}

AFO_EXPORTED int batch_process(void* model, const void* input_data[], int* input_size, void* output_data[],
                               int* output_size) {
  if (model == nullptr || input_data == nullptr || input_size == nullptr || output_data == nullptr ||
      output_size == nullptr)
    return afo::kFailed;
  return afo::Guarded({&output_data[0], &output_size[0]}, [&] {
    return afo::ProcessBatch(*static_cast<afo::ServedModel*>(model), input_data, input_size, output_data, output_size);
  });
}

AFO_EXPORTED int process_arrow(void* model, const char* signature_name, ArrowSchema* schema, ArrowArray* batch,
                               ArrowSchema* answer_schema, ArrowArray* answer, void** output_data, int* output_size) {
  const afo::ReleasedAtEnd<ArrowSchema> owned_schema(schema);
  const afo::ReleasedAtEnd<ArrowArray> owned_batch(batch);
  if (model == nullptr || answer_schema == nullptr || answer == nullptr || output_data == nullptr ||
      output_size == nullptr)
    return afo::kFailed;
  answer_schema->release = nullptr;
  answer->release = nullptr;
  *output_data = nullptr;
  *output_size = 0;
  const afo::Output to{output_data, output_size};
  return afo::Guarded(to, [&] {
    return afo::ProcessArrow(*static_cast<afo::ServedModel*>(model), signature_name, owned_schema, owned_batch,
                             answer_schema, answer, to);
  });
}

AFO_EXPORTED int get_serving_model_info(void* model, void** output_data, int* output_size) {
  if (model == nullptr || output_data == nullptr || output_size == nullptr) return afo::kFailed;
  const afo::Output to{output_data, output_size};
  return afo::Guarded(to, [&] {
    return afo::GiveText(afo::kOk, afo::DescribeServedModel(*static_cast<afo::ServedModel*>(model)), to);
  });
}

AFO_EXPORTED void free_output(void* output_data) { std::free(output_data); }

AFO_EXPORTED void finalize(void* model) {
  if (model == nullptr) return;
  delete static_cast<afo::ServedModel*>(model);
  afo::GiveFreedMemoryBack();
}

}  // extern "C"
