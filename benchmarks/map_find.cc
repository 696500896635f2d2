// The map alone: rows of 40,000 keys among 10 M, found by afo's table and by boost::unordered_flat_map.
//
// Both hold rows of the same form (16 bytes and 3 x 16 floats, as Adam has them) and copy a key's weights out. The map of
// boost leads to row numbers in a slab; its finds run in batches whose rows are fetched before they are copied, which
// was faster than one after the other. Prints a JSON line: medians of interleaved rounds in ns a key, and bytes a key.
#include <sys/mman.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "afo/core/table.h"

namespace {

constexpr int kDim = 16, kFound = 40000, kBatches = 16;
constexpr std::size_t kStride = 208;

struct Mixed {
  using is_avalanching = void;  // boost then uses it as it is; it is the hash that afo's table has
  std::size_t operator()(std::int64_t key) const { return afo::HashOf(key); }
};
using Map = boost::unordered_flat_map<std::int64_t, std::uint32_t, Mixed>;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void FindOurs(afo::Table& table, const std::vector<std::int64_t>& keys, afo::ShardOrder* order, float* out) {
  table.OrderByShard(keys, order);
  for (int shard = 0; shard < table.shards(); ++shard) table.Lookup(*order, shard, keys.data(), {.values = out});
}

void FindTheirs(const Map& map, const char* slab, const std::vector<std::int64_t>& keys, float* out) {
  constexpr std::size_t kAtOnce = 64;
  const char* rows[kAtOnce];
  for (std::size_t at = 0; at < keys.size(); at += kAtOnce) {
    const std::size_t n = std::min(kAtOnce, keys.size() - at);
    for (std::size_t i = 0; i < n; ++i) {
      const auto found = map.find(keys[at + i]);
      rows[i] = found == map.end() ? slab : slab + found->second * kStride;
      __builtin_prefetch(rows[i]);
      __builtin_prefetch(rows[i] + 79);
    }
    for (std::size_t i = 0; i < n; ++i) std::memcpy(out + (at + i) * kDim, rows[i] + 16, kDim * sizeof(float));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const long count = argc > 1 ? std::atol(argv[1]) : 10'000'000;
  afo::TableOptions options;
  options.dim = kDim;
  options.optimizer.rule = afo::Rule::kAdam;
  afo::Table table(options);
  Map map;
  const std::size_t bytes = static_cast<std::size_t>(count) * kStride;
  char* slab = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  madvise(slab, bytes, MADV_HUGEPAGE);
  afo::ShardOrder order;
  std::vector<std::int64_t> keys(100'000);
  std::vector<float> out(keys.size() * kDim);
  for (long first = 0; first < count; first += static_cast<long>(keys.size())) {
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<std::int64_t>(afo::Mix(first + i));
    table.OrderByShard(keys, &order);
    for (int shard = 0; shard < table.shards(); ++shard) {
      if (table.LookupOrInsert(order, shard, keys.data(), {.values = out.data()}) != afo::Status::kOk) return 1;
    }
    for (std::size_t i = 0; i < keys.size() && first + static_cast<long>(i) < count; ++i) {
      map.emplace(keys[i], static_cast<std::uint32_t>(first + i));
      std::memcpy(slab + (first + i) * kStride + 16, out.data() + i * kDim, kDim * sizeof(float));
    }
  }
  std::mt19937_64 random(1);
  std::vector<std::vector<std::int64_t>> batches(kBatches, std::vector<std::int64_t>(kFound));
  for (auto& batch : batches) {
    for (auto& key : batch) key = static_cast<std::int64_t>(afo::Mix(random() % count));
  }
  std::vector<double> ours, theirs;
  std::vector<float> other(out.size());
  for (int round = 0; round < 20 * kBatches; ++round) {
    const auto& batch = batches[round % kBatches];
    const double begun = Now();
    FindOurs(table, batch, &order, out.data());
    const double between = Now();
    FindTheirs(map, slab, batches[(round + kBatches / 2) % kBatches], other.data());
    theirs.push_back((Now() - between) / kFound * 1e9);
    ours.push_back((between - begun) / kFound * 1e9);
  }
  FindTheirs(map, slab, batches[0], other.data());
  FindOurs(table, batches[0], &order, out.data());
  if (std::memcmp(out.data(), other.data(), kFound * kDim * sizeof(float)) != 0) return 2;
  const double index = static_cast<double>(table.bytes()) / static_cast<double>(table.size()) - kStride;
  std::printf("{\"ours_ns\": %.2f, \"theirs_ns\": %.2f, \"index_bytes_a_key\": %.1f, \"boost_bytes_a_key\": %.1f}\n",
              Median(ours), Median(theirs), index,
              static_cast<double>(map.bucket_count()) / static_cast<double>(map.size()) * (16 + 16.0 / 15));
}
