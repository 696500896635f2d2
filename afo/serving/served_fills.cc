#include "afo/serving/served_fills.h"

#include <cstring>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "afo/serving/exported_file.h"

namespace afo {
namespace {

using Json = nlohmann::json;

template <typename Number>
void Append(Number number, std::vector<char>* to) {
  const auto* bytes = reinterpret_cast<const char*>(&number);
  to->insert(to->end(), bytes, bytes + sizeof(number));
}

// A value of an input's type, behind those that `fill` has; false: it is none.
bool AppendValue(const Json& value, TensorType type, ColumnFill* fill) {
  if (type == TensorType::kString && value.is_string()) {
    fill->strings.push_back(value.get<std::string>());
    return true;
  }
  if (type == TensorType::kInt64 && value.is_number_integer()) {
    Append(value.get<std::int64_t>(), &fill->numbers);
    return true;
  }
  if (type == TensorType::kFloat && (value.is_number() || value.is_null())) {
    // JSON has no NaN.
    Append(value.is_null() ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value.get<double>()),
           &fill->numbers);
    return true;
  }
  return false;
}

// One value stands for all of a row.
std::optional<ColumnFill> FillOf(const Json& said, TensorType type, std::int64_t width) {
  if (!said.is_object() || !said.contains("values") || !said["values"].is_array()) return std::nullopt;
  const Json& values = said["values"];
  const Json any_length = said.value("any_length", Json(false));
  const auto count = static_cast<std::int64_t>(values.size());
  if (!any_length.is_boolean() || count == 0 || (count != 1 && count != width)) return std::nullopt;
  ColumnFill fill;
  fill.any_length = any_length.get<bool>();
  for (std::int64_t i = 0; i < width; ++i) {
    if (!AppendValue(values[static_cast<std::size_t>(count == 1 ? 0 : i)], type, &fill)) return std::nullopt;
  }
  return fill;
}

}  // namespace

absl::StatusOr<ServedFills> ReadServedFills(const std::string& savedmodel_dir, const ServedSignature& predict) {
  ServedFills fills;
  const Json exported = ReadExportedFile(savedmodel_dir);
  if (!exported.is_object() || !exported.contains("fills")) return fills;
  const Json& said = exported["fills"];
  for (const ServedSignature::Parameter& input : predict.inputs()) {
    if (!said.is_object() || !said.contains(input.name)) continue;
    // Requests cannot be of any other shape.
    const std::int64_t width = input.shape.dims() == 2 ? input.shape.dim_size(1) : 1;
    if (width < 1) continue;
    std::optional<ColumnFill> fill = FillOf(said[input.name], static_cast<TensorType>(input.type), width);
    if (!fill) {
      return absl::DataLossError(absl::StrCat(kExportedFile, ": what it says of `", input.name,
                                              "` in `fills` does not fit signature ", predict.name(),
                                              "; export the model again"));
    }
    fills.emplace(input.name, *std::move(fill));
  }
  return fills;
}

}  // namespace afo
