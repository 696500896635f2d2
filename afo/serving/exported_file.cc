#include "afo/serving/exported_file.h"

#include <fstream>

namespace afo {

nlohmann::json ReadExportedFile(const std::string& savedmodel_dir) {
  constexpr int kMostDepth = 16;
  std::ifstream file(savedmodel_dir + "/" + kExportedFile);
  const auto is_shallow = [](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    return depth < kMostDepth;
  };
  return nlohmann::json::parse(file, is_shallow, /*allow_exceptions=*/false);
}

}  // namespace afo
