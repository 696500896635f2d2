#include "afo/core/layered_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace afo {

LayeredTable::LayeredTable(std::vector<std::shared_ptr<const IndexedTable>> layers) : layers_(std::move(layers)) {
  assert(!layers_.empty());
}

std::string LayeredTable::Lookup(const std::int64_t* keys, std::int64_t count, float* weights) const {
  const std::int64_t dim = header().dim;
  const float absent = header().absent;
  std::vector<AskedKey> asked(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) asked[static_cast<std::size_t>(i)] = {keys[i], i};
  for (const auto& layer : layers_) {
    if (asked.empty()) return "";
    if (std::string wrong = layer->Answer(&asked, absent, weights); !wrong.empty()) return wrong;
  }
  for (const AskedKey& nowhere : asked) std::fill_n(weights + nowhere.place * dim, dim, absent);
  return "";
}

std::size_t LayeredTable::bytes() const {
  std::size_t bytes = 0;
  for (const auto& layer : layers_) bytes += layer->bytes();
  return bytes;
}

std::vector<ServedPart> LayeredTable::parts() const {
  std::vector<ServedPart> parts;
  for (const auto& layer : layers_) parts.push_back(layer->parts().front());
  return parts;
}

}  // namespace afo
