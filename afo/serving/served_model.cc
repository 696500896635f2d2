#include "afo/serving/served_model.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "afo/serving/frozen_weights.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/path.h"
#include "tensorflow/core/public/session_options.h"

namespace afo {
namespace {

// The tag of graphs that are served.
constexpr char kServe[] = "serve";

template <typename Map>
std::string NamesOf(const Map& all) {
  std::vector<std::string> names;
  for (const auto& each : all) names.push_back(each.first);
  std::sort(names.begin(), names.end());
  return absl::StrJoin(names, ", ");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServedModel>> ServedModel::Load(const ProcessorConfig& config) {
  std::unique_ptr<ServedModel> model(new ServedModel(config));
  if (absl::Status status = model->Load(); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("cannot serve ", config.savedmodel_dir, ": ", status.message()));
  }
  return model;
}

absl::Status ServedModel::Load() {
  auto threads = SessionGroup::Create(config_);
  if (!threads.ok()) return threads.status();
  threads_ = *std::move(threads);
  if (!tensorflow::MaybeSavedModelDirectory(config_.savedmodel_dir)) {
    return absl::NotFoundError("there is no SavedModel (saved_model.pb)");
  }
  tensorflow::SessionOptions options;
  options.config.set_inter_op_parallelism_threads(config_.inter_op_parallelism_threads);
  options.config.set_intra_op_parallelism_threads(config_.intra_op_parallelism_threads);
  // Of those that run operations side by side. The others, within an operation, TensorFlow has once a process.
  options.config.set_use_per_session_threads(true);
  // A matrix product fused with its bias costs small requests more than the two (benchmarks/bench_processor.py), and
  // differs in the last bit.
  options.config.mutable_graph_options()->mutable_rewrite_options()->set_remapping(tensorflow::RewriterConfig::OFF);
  // Or the session would take no further nodes once it has run: those of FreezeWeights and ServedTables.
  options.config.mutable_experimental()->set_disable_optimize_for_static_graph(true);
  // TensorFlow loads a model without them as one that has none, as while it is copied.
  if (absl::Status status = tensorflow::Env::Default()->FileExists(
          tensorflow::io::JoinPath(config_.savedmodel_dir, "variables", "variables.index"));
      !status.ok()) {
    return absl::NotFoundError("its variables are not there (variables/variables.index)");
  }
  absl::Status status = tensorflow::LoadSavedModel(options, {}, config_.savedmodel_dir, {kServe}, &bundle_);
  if (!status.ok()) return status;
  auto tables = ServedTables::Find(bundle_.session.get(), bundle_.meta_graph_def.graph_def());
  if (!tables.ok()) return tables.status();
  tables_ = *std::move(tables);
  const auto frozen = FreezeWeights(bundle_.session.get(), bundle_.meta_graph_def);
  if (!frozen.ok()) return frozen.status();
  const auto& definitions = *frozen;
  if (!definitions.contains(config_.signature_name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has no signature ", config_.signature_name, "; it has ", NamesOf(definitions)));
  }
  for (const auto& [name, definition] : definitions) {
    auto signature = ServedSignature::Prepare(bundle_.session.get(), threads_.get(), name, definition,
                                              config_.enable_inline_execute);
    if (signature.ok()) {
      if (status = (*signature)->Probe(); !status.ok()) return status;
      signatures_.emplace(name, *std::move(signature));
    } else if (!absl::IsUnimplemented(signature.status()) || name == config_.signature_name) {
      return signature.status();
    }
  }
  return LoadFills();
}

absl::Status ServedModel::LoadFills() {
  const auto predict = signatures_.find(kPredict);
  if (predict == signatures_.end()) return absl::OkStatus();
  absl::StatusOr<ServedFills> fills = ReadServedFills(config_.savedmodel_dir, *predict->second);
  if (fills.ok()) fills_ = *std::move(fills);
  return fills.status();
}

absl::StatusOr<const ServedSignature*> ServedModel::Find(std::string_view name) const {
  const auto found = signatures_.find(name.empty() ? config_.signature_name : name);
  if (found != signatures_.end()) return found->second.get();
  return absl::InvalidArgumentError(absl::StrCat("signature `", std::string(name.substr(0, 80)),
                                                 "` is not served; those that are: ", NamesOf(signatures_)));
}

}  // namespace afo
