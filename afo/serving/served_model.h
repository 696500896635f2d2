// A SavedModel in memory, and its signatures as functions of requests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "afo/serving/processor_config.h"
#include "afo/serving/served_fills.h"
#include "afo/serving/served_signature.h"
#include "afo/serving/served_tables.h"
#include "afo/serving/session_group.h"
#include "tensorflow/cc/saved_model/loader.h"

namespace afo {

// The signature of the features by name.
constexpr char kPredict[] = "predict";

// Thread-safe.
class ServedModel {
 public:
  // By name, for `std::string_view` too.
  using Signatures = std::map<std::string, std::unique_ptr<ServedSignature>, std::less<>>;

  // Its errors name the directory.
  static absl::StatusOr<std::unique_ptr<ServedModel>> Load(const ProcessorConfig& config);

  const ProcessorConfig& config() const { return config_; }
  // Those that requests can ask for: a signature whose tensors they cannot have is none.
  const Signatures& signatures() const { return signatures_; }
  // Of the inputs of signature `predict`.
  const ServedFills& fills() const { return fills_; }
  // Null where it has no native ones.
  const ServedTables* tables() const { return tables_.get(); }
  // Of a name, "": the one of the configuration. InvalidArgument where it is not served.
  absl::StatusOr<const ServedSignature*> Find(std::string_view name) const;

 private:
  explicit ServedModel(ProcessorConfig config) : config_(std::move(config)) {}
  absl::Status Load();
  absl::Status LoadFills();

  const ProcessorConfig config_;
  tensorflow::SavedModelBundle bundle_;
  ServedFills fills_;
  // Behind the session that they use.
  std::unique_ptr<ServedTables> tables_;
  std::unique_ptr<SessionGroup> threads_;
  Signatures signatures_;
};

}  // namespace afo
