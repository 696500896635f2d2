#include "afo/serving/served_model_info.h"

#include "afo/serving/exported_file.h"

namespace afo {
namespace {

using Json = nlohmann::json;

// [-1, 3]; null where the rank is unknown.
Json ShapeOf(const tensorflow::PartialTensorShape& shape) {
  if (shape.unknown_rank()) return nullptr;
  const auto sizes = shape.dim_sizes();
  return Json(std::vector<std::int64_t>(sizes.begin(), sizes.end()));
}

Json DescribeParameters(const std::vector<ServedSignature::Parameter>& parameters) {
  Json described = Json::object();
  for (const auto& [name, type, shape] : parameters) {
    described[name] = {{"dtype", NameOf(static_cast<TensorType>(type))}, {"shape", ShapeOf(shape)}};
  }
  return described;
}

}  // namespace

std::string DescribeServedModel(const ServedModel& model) {
  Json info = {{"model_path", model.config().savedmodel_dir}, {"signature_name", model.config().signature_name}};
  for (const auto& [name, signature] : model.signatures()) {
    info["signatures"][name] = {{"method_name", signature->method()},
                                {"inputs", DescribeParameters(signature->inputs())},
                                {"outputs", DescribeParameters(signature->outputs())}};
  }
  const Json exported = ReadExportedFile(model.config().savedmodel_dir);
  for (const char* key : {"step", "labels", "rows", "tables", "trained_at"}) {
    if (exported.is_object() && exported.contains(key) && !exported[key].is_null()) info[key] = exported[key];
  }
  if (const ServedTables* tables = model.tables(); tables != nullptr) {
    info["layers"] = tables->layers();
    info["table_bytes"] = tables->bytes();
    info["shared_table_bytes"] = tables->shared_bytes();
  }
  return info.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace afo
