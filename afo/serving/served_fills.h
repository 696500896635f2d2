// What stands for absent values of a model's features, as its export says (`fills` of assets.extra/afo.json).
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "afo/core/arrow_columns.h"
#include "afo/serving/served_signature.h"

namespace afo {

// By the name of an input of signature `predict`.
using ServedFills = std::map<std::string, ColumnFill, std::less<>>;

// None where the export does not say it, as older ones do not. Its errors name the file and the input.
absl::StatusOr<ServedFills> ReadServedFills(const std::string& savedmodel_dir, const ServedSignature& predict);

}  // namespace afo
