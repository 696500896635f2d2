// Bytes become operations on a table beside a dictionary; a difference ends the program. fuzz.sh has libFuzzer look for such
// bytes, the unit tests (fuzz_table_test.cc) play random ones.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/core/support.h"
#include "tests/core/table_model.h"

namespace afo::testing {
namespace {

// Bytes one after the other; zeros behind the last.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  bool ended() const { return at_ == end_; }
  std::uint8_t Byte() { return at_ == end_ ? 0 : *at_++; }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

// 256 keys, so that a byte names one: special ones; small ones, which are numbers of rows, too; those that begin at the
// first line or the last one, by which few bytes fill lines; and any.
const std::vector<std::int64_t>& Pool() {
  static const std::vector<std::int64_t> pool = [] {
    std::vector<std::int64_t> all = SpecialKeys();
    for (std::int64_t key = 2; key < 60; ++key) all.push_back(key);
    for (std::uint64_t n = 0; n < 70; ++n) all.push_back(KeyOf(HashFrom(n, n & 1, kFirstLine, n % 3)));
    for (std::uint64_t n = 0; n < 50; ++n) all.push_back(KeyOf(HashFrom(n, n & 1, kLastLine, n % 3)));
    Random random(1);
    while (all.size() < 256) all.push_back(random.Key());
    return all;
  }();
  return pool;
}

TableOptions OptionsOf(Input* input) {
  constexpr std::int32_t kDims[] = {1, 2, 5, 8, 9, 16};
  constexpr int kShardBits[] = {0, 0, 1, 8};
  TableOptions options;
  options.dim = kDims[input->Byte() % 6];
  options.shard_bits = kShardBits[input->Byte() % 4];
  options.optimizer.rule = static_cast<Rule>(input->Byte() % kRules);
  options.optimizer.decay_rate = 0.5f;
  options.optimizer.decay_steps = 1 + input->Byte() % 8;
  options.optimizer.l1 = 0.01f;
  options.optimizer.clip_norm = input->Byte() % 2 == 0 ? 0.0f : 1.5f;
  // The normal ones take 10 ms to set up, and are no other to a table.
  options.initializer = {.distribution = input->Byte() % 4 == 0 ? Distribution::kConstant : Distribution::kUniform,
                         .value = -0.5, .minval = -0.5, .maxval = 0.5, .seed = 3};
  options.weights = input->Byte() % 3 == 0 ? WeightType::kBfloat16 : WeightType::kFloat32;
  const std::uint8_t admission = input->Byte();
  if (admission % 4 == 1) options.admission.min_count = 2 + admission / 4 % 8;
  if (admission % 4 == 2) options.admission.probability = 0.3f;
  options.admission.default_value = static_cast<float>(admission % 3);
  return options;
}

// A run of the pool, or single keys; `differ` leaves out those that came before.
std::vector<std::int64_t> KeysOf(Input* input, bool differ) {
  std::vector<std::int64_t> keys;
  std::vector<bool> seen(256, false);
  const std::uint8_t form = input->Byte();
  const std::size_t count = form < 128 ? form % 8 : form % 128;
  std::uint8_t at = input->Byte();
  for (std::size_t i = 0; i < count; ++i) {
    if (!differ || !seen[at]) keys.push_back(Pool()[at]);
    seen[at] = true;
    at = form < 128 ? input->Byte() : static_cast<std::uint8_t>(at + 1);
  }
  return keys;
}

void Play(Input input) {
  MirroredTable mirrored(OptionsOf(&input));
  const auto dim = static_cast<std::size_t>(mirrored.table().options().dim);
  Random random(input.Byte());
  StepInfo info;
  while (!input.ended()) {
    switch (input.Byte() % 9) {
      case 0:
      case 1:
        mirrored.LookupOrInsert(KeysOf(&input, false));
        break;
      case 2:
        mirrored.Lookup(KeysOf(&input, false));
        break;
      case 3:
      case 4: {
        const auto told = static_cast<Told>(input.Byte() % static_cast<int>(Told::kEnd));
        const std::uint8_t step = input.Byte();  // mostly onwards, as workers that are late do not
        info.step = step < 16 ? info.step - std::min<std::uint32_t>(info.step, step) : info.step + step % 16;
        info.schedule = step % 2 == 0 ? 1.0f : 0.5f;
        const std::vector<std::int64_t> keys = KeysOf(&input, true);
        const std::vector<std::uint32_t> counts(keys.size(), step);
        mirrored.Apply(keys, random.Floats(keys.size() * dim), told, &random, info,
                       step % 3 == 0 ? nullptr : counts.data());
        break;
      }
      case 5:
      case 6:
        mirrored.Remove(KeysOf(&input, false));
        break;
      case 7: {
        const std::uint8_t by = input.Byte(), how = input.Byte();
        EvictionOptions options;
        if (by & 1) options.unused_steps = 1 + how % 32;
        if (by & 2) options.l2_weight = static_cast<float>(how) / 64.0f;
        if (by & 4) options.capacity = 1 + how;
        mirrored.Evict(options, info.step + by % 16);
        break;
      }
      default:
        mirrored.CompareAll();
    }
  }
  mirrored.CompareAll();
}

}  // namespace

void PlayOnTable(const std::uint8_t* data, std::size_t size) { Play({data, size}); }

}  // namespace afo::testing

#ifdef AFO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    afo::testing::PlayOnTable(data, size);
  } catch (const afo::testing::Difference& difference) {
    std::fprintf(stderr, "the table differs: %s\n", difference.what());
    std::abort();
  }
  return 0;
}
#endif
