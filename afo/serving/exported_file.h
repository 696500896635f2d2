// What an export of ours says of itself, beside TensorFlow's own files.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace afo {

constexpr char kExportedFile[] = "assets.extra/afo.json";

// Discarded where there is none, or it is no JSON. What lies deeper than anything of ours is left out: to copy and
// print it would take as many calls within each other.
nlohmann::json ReadExportedFile(const std::string& savedmodel_dir);

}  // namespace afo
