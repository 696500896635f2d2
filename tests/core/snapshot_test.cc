#include "afo/core/snapshot.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "afo/core/bfloat16.h"
#include "afo/core/table.h"
#include "tests/core/support.h"

namespace afo {
namespace {

using testing::Choose;
using testing::Random;
using testing::SlotMaps;

TEST_CASE("CRC-32C is that of RFC 3720") {
  const auto sum = [](const std::string& bytes) { return Crc32c(bytes.data(), bytes.size()); };
  CHECK(sum("") == 0);
  CHECK(sum("123456789") == 0xe3069283u);
  CHECK(sum(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(sum(std::string(32, '\xff')) == 0x62a8ab43u);
  std::string up(32, 0), down(32, 0);
  for (std::size_t i = 0; i < 32; ++i) {
    up[i] = static_cast<char>(i);
    down[i] = static_cast<char>(31 - i);
  }
  CHECK(sum(up) == 0x46dd794eu);
  CHECK(sum(down) == 0x113fdb5cu);
}

RowBlock BlockOf(std::size_t rows, std::size_t removed, std::uint32_t floats) {
  Random random(rows * 100 + removed);
  RowBlock block;
  block.floats = floats;
  for (std::size_t i = 0; i < removed; ++i) block.removed.push_back(random.Key());
  for (std::size_t i = 0; i < rows; ++i) {
    block.keys.push_back(random.Key());
    block.steps.push_back(static_cast<std::uint32_t>(random.Bits()));
    block.frequencies.push_back(static_cast<std::uint32_t>(random.Bits()));
  }
  block.values = random.Floats(rows * floats);
  return block;
}

// The bytes in memory of exactly their length, so that a sanitizer sees who reads behind them.
DecodedBlock DecodeAlone(const std::string& bytes, std::uint32_t floats) {
  const std::vector<char> alone(bytes.begin(), bytes.end());
  return Decode({alone.data(), alone.size()}, floats);
}

TEST_CASE("what was encoded comes back, one block behind the other") {
  std::string bytes;
  std::vector<RowBlock> blocks;
  for (const std::size_t rows : {0u, 1u, 5u, 100u}) {
    for (const std::size_t removed : {0u, 1u, 33u}) blocks.push_back(BlockOf(rows, removed, 7));
  }
  for (const RowBlock& block : blocks) bytes += Encode(block);
  std::size_t at = 0;
  for (const RowBlock& block : blocks) {
    const DecodedBlock got = Decode(std::string_view(bytes).substr(at), 7);
    REQUIRE(got.error == BlockError::kNone);
    CHECK(got.block == block);
    CHECK(got.block.empty() == (block.keys.empty() && block.removed.empty()));
    at += got.bytes;
  }
  CHECK(at == bytes.size());
}

TEST_CASE("golden bytes: a block is written as it was") {
  RowBlock block;
  block.floats = 2;
  block.removed = {-2};
  block.keys = {5};
  block.steps = {7};
  block.frequencies = {9};
  block.values = {1.0f, -2.0f};
  const std::string bytes = Encode(block);
  const unsigned char wanted[] = {
      'a',  'f',  'o',  '1',  2,    0,    0,    0,     // magic, floats
      1,    0,    0,    0,    0,    0,    0,    0,     // rows
      1,    0,    0,    0,    0,    0,    0,    0,     // removed
      0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,  // the removed key
      5,    0,    0,    0,    0,    0,    0,    0,     // the key
      7,    0,    0,    0,    9,    0,    0,    0,     // step, frequency
      0,    0,    0x80, 0x3f, 0,    0,    0,    0xc0,  // values
  };
  REQUIRE(bytes.size() == sizeof(wanted) + 4);
  CHECK(std::memcmp(bytes.data(), wanted, sizeof(wanted)) == 0);
  std::uint32_t sum;
  std::memcpy(&sum, bytes.data() + sizeof(wanted), 4);
  CHECK(sum == Crc32c(bytes.data(), sizeof(wanted)));
}

TEST_CASE("no part of a block is believed, nor one of which a bit is another") {
  const RowBlock block = BlockOf(4, 2, 3);
  const std::string bytes = Encode(block);
  // Nothing but a whole block has rows, or a length.
  const auto error_of = [](const std::string& given, std::uint32_t floats) {
    const DecodedBlock got = DecodeAlone(given, floats);
    REQUIRE((got.error == BlockError::kNone || (got.block == RowBlock() && got.bytes == 0)));
    return got.error;
  };
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    REQUIRE(error_of(bytes.substr(0, size), 3) == BlockError::kShort);
  }
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    const BlockError error = error_of(damaged, 3);
    REQUIRE(error != BlockError::kNone);
    if (bit < 32) REQUIRE(error == BlockError::kNoBlock);
    REQUIRE(error != BlockError::kOtherWidth);  // a damaged width is damage
  }
  CHECK(error_of(bytes, 4) == BlockError::kOtherWidth);
  CHECK(error_of(bytes.substr(1), 3) == BlockError::kNoBlock);
  const DecodedBlock got = DecodeAlone(bytes + "more", 3);
  CHECK(got.error == BlockError::kNone);
  CHECK(got.bytes == bytes.size());
  CHECK(got.block == block);
}

// A header, `room` bytes, and the right sum at the place where a reader looks for it who multiplies modulo 2^64.
std::string Claiming(std::uint32_t floats, std::uint64_t rows, std::uint64_t removed, std::size_t room) {
  std::string bytes = "afo1";
  bytes.append(reinterpret_cast<const char*>(&floats), 4);
  bytes.append(reinterpret_cast<const char*>(&rows), 8);
  bytes.append(reinterpret_cast<const char*>(&removed), 8);
  bytes.append(room + 4, '\0');
  const std::uint64_t body = removed * 8 + rows * (16 + std::uint64_t{floats} * 4);
  if (body <= room) {
    const std::uint32_t sum = Crc32c(bytes.data(), 24 + body);
    std::memcpy(&bytes[24 + body], &sum, 4);
  }
  return bytes;
}

TEST_CASE("a header may claim what it likes") {
  const std::uint64_t claims[] = {0,          1,          2,          1ull << 20, 1ull << 32, 1ull << 59, 1ull << 60,
                                  1ull << 61, 1ull << 62, 1ull << 63, ~0ull,      ~0ull / 8,  ~0ull / 16};
  for (const std::uint64_t rows : claims) {
    for (const std::uint64_t removed : claims) {
      for (const std::uint32_t floats : {0u, 1u, 4u, 12u, 0x3ffffffcu, 0xffffffffu}) {
        for (const std::size_t room : {0u, 1u, 8u, 40u}) {
          // Of what is small nothing overflows.
          const bool small = removed < 9 && (rows == 0 || (rows < 9 && floats < 99));
          const bool fits = small && removed * 8 + rows * (16 + std::uint64_t{floats} * 4) <= room;
          const BlockError error = DecodeAlone(Claiming(floats, rows, removed, room), floats).error;
          REQUIRE(error == (fits ? BlockError::kNone : BlockError::kShort));
        }
      }
    }
  }
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = random.Below(2) == 0 ? "" : "afo1";
    for (std::uint64_t j = random.Below(100); j > 0; --j) bytes += static_cast<char>(random.Bits());
    REQUIRE(DecodeAlone(bytes, 1).error != BlockError::kNone);
  }
}

// --- tables

TableOptions OptionsOf(int shard_bits = 2) {
  TableOptions options;
  options.dim = 3;
  options.shard_bits = shard_bits;
  options.optimizer.rule = Rule::kAdagrad;
  options.initializer = {.distribution = Distribution::kUniform, .minval = -0.5, .maxval = 0.5, .seed = 3};
  return options;
}

struct Known {
  std::uint32_t step, frequency;
  std::vector<float> values;
  bool operator==(const Known&) const = default;
};

using Contents = std::map<std::int64_t, Known>;

void Collect(const RowBlock& block, Contents* contents) {
  for (std::size_t i = 0; i < block.keys.size(); ++i) {
    const float* values = block.values.data() + i * block.floats;
    (*contents)[block.keys[i]] = {block.steps[i], block.frequencies[i], {values, values + block.floats}};
  }
}

// All blocks of a checkpoint: of each shard what was removed, then its rows, `most` a block.
std::vector<RowBlock> ExportAll(const Table& table, std::int64_t since, std::uint32_t most = 50) {
  std::vector<RowBlock> blocks;
  for (std::int32_t shard = 0; shard < table.shards(); ++shard) {
    RowBlock block = since == kAllEpochs ? RowBlock() : table.ExportRemoved(shard, since);
    for (std::optional<std::uint32_t> next = 0; next.has_value(); block = RowBlock()) {
      const ExportRange range{.shard = shard, .first = *next, .most = most, .since = since};
      Exported exported = table.Export(range, std::move(block));
      blocks.push_back(std::move(exported.block));
      next = exported.next;
    }
  }
  return blocks;
}

Contents ContentsOf(const Table& table) {
  Contents contents;
  for (const RowBlock& block : ExportAll(table, kAllEpochs)) Collect(block, &contents);
  return contents;
}

void Train(Table* table, const std::vector<std::int64_t>& keys, Random* random, std::uint32_t step) {
  ShardOrder order;
  table->OrderByShard(keys, &order);
  const std::vector<float> gradients = random->Floats(keys.size() * 3);
  const std::vector<std::uint32_t> counts(keys.size(), 2);
  const Update update = table->NextUpdate(1);
  for (std::int32_t shard = 0; shard < table->shards(); ++shard) {
    StepInfo info;
    info.step = step;
    const Status status =
        table->Apply(order, shard, keys.data(), {.gradients = gradients.data(), .counts = counts.data()}, update, info);
    REQUIRE(status == Status::kOk);
  }
}

void Remove(Table* table, const std::vector<std::int64_t>& keys) {
  table->Remove(keys);
}

TEST_CASE("an export has every row once, in blocks of no more than asked for") {
  Random random(1);
  Table table(OptionsOf());
  const std::vector<std::int64_t> keys = random.Keys(1000);
  Train(&table, keys, &random, 5);
  Remove(&table, Choose(keys, 300, &random));
  for (const std::uint32_t most : {1u, 7u, 100000u}) {
    std::set<std::int64_t> seen;
    int wrong = 0;
    for (const RowBlock& block : ExportAll(table, kAllEpochs, most)) {
      wrong += block.keys.size() > most || block.floats != 6;
      wrong += block.steps.size() != block.keys.size() || block.frequencies.size() != block.keys.size();
      wrong += block.values.size() != block.keys.size() * 6;
      for (std::size_t i = 0; i < block.keys.size(); ++i) {
        wrong += !seen.insert(block.keys[i]).second || block.steps[i] != 5 || block.frequencies[i] != 2;
      }
    }
    CHECK(wrong == 0);
    CHECK(seen.size() == 700);
  }
}

TEST_CASE("a table comes back from its export, on one server or on many, cut into other shards") {
  Random random(2);
  Table table(OptionsOf(3));
  const std::vector<std::int64_t> keys = random.Keys(1200);
  Train(&table, keys, &random, 5);
  Train(&table, Choose(keys, 500, &random), &random, 9);
  const Contents wanted = ContentsOf(table);
  for (const SlotMap& slots : SlotMaps({1, 2, 5})) {
    std::int64_t all = 0;
    Contents got;
    for (std::uint32_t server = 0; server < slots.servers(); ++server) {
      Table restored(OptionsOf(static_cast<int>(server)));
      std::int64_t imported = 0;
      for (const RowBlock& block : ExportAll(table, kAllEpochs)) {
        const std::optional<std::int64_t> here = restored.Import(block, slots.RangeOf(server));
        REQUIRE(here.has_value());
        imported += *here;
      }
      CHECK(imported == restored.size());
      all += imported;
      for (const auto& [key, known] : ContentsOf(restored)) {
        CHECK(slots.Owns(server, HashOf(key)));
        got[key] = known;
      }
    }
    CHECK(all == 1200);
    CHECK(got == wanted);
  }
}

TEST_CASE("an import overwrites, and removes what the block says was removed before its rows come") {
  Random random(3);
  Table table(OptionsOf());
  Train(&table, {1, 2, 3, 4}, &random, 5);
  RowBlock block;
  block.floats = 6;
  block.removed = {1, 2, 99};
  block.keys = {2, 3};
  block.steps = {8, kFreeStep};  // which no row may have
  block.frequencies = {50, 0xffffffff};
  block.values = random.Floats(12);
  CHECK(table.Import(block, {}) == 2);
  const Contents got = ContentsOf(table);
  REQUIRE(got.size() == 3);
  CHECK(got.count(1) == 0);
  CHECK(got.at(2) == Known{8, 50, {block.values.begin(), block.values.begin() + 6}});
  CHECK(got.at(3) == Known{kFreeStep - 1, kMaxFrequency, {block.values.begin() + 6, block.values.end()}});
  CHECK(got.at(4).step == 5);
}

TEST_CASE("a checkpoint and the deltas on it are the table, for hundreds of epochs") {
  for (const std::uint32_t servers : {1u, 3u}) {
    const SlotMap slots = SlotMap::EqualRanges(servers);
    Random random(4);
    Table table(OptionsOf());
    std::vector<std::unique_ptr<Table>> restored;
    for (std::uint32_t i = 0; i < servers; ++i) restored.push_back(std::make_unique<Table>(OptionsOf(1)));
    std::vector<std::int64_t> keys = random.Keys(120);
    std::int64_t since = kAllEpochs;
    int wrong = 0;
    std::size_t rows = 0;
    for (std::uint32_t round = 0; round < 600; ++round) {
      // For longer than rows can tell epochs apart no delta is kept, so each stands on the same old one.
      const bool saves_fail = round > 100 && round < 450;
      // Few change in a round, and some not for longer than epochs have numbers.
      const std::size_t some = round % 50 == 0 ? 30 : 3;
      if (round % 3 == 0) Train(&table, Choose(keys, some, &random), &random, round);
      if (round % 4 == 0) Remove(&table, Choose(keys, some, &random));
      if (round % 5 == 0) Train(&table, Choose(keys, some, &random), &random, round);
      const std::uint64_t epoch = table.BeginEpoch();
      wrong += table.epoch() != epoch || epoch != round + 1;
      for (const RowBlock& block : ExportAll(table, since, 10)) {
        const DecodedBlock read = Decode(Encode(block), 6);
        REQUIRE(read.error == BlockError::kNone);
        for (std::uint32_t i = 0; i < servers; ++i) {
          wrong += !restored[i]->Import(read.block, slots.RangeOf(i)).has_value();
        }
        rows += since == kAllEpochs || saves_fail ? 0 : block.keys.size();
      }
      // Rounds that a delta stands on two of: an earlier one would do, too.
      if (round % 7 != 0 && !saves_fail) {
        since = static_cast<std::int64_t>(epoch);
        table.ForgetRemoved(epoch);
      }
      Contents got;
      for (const auto& each : restored) {
        for (const auto& [key, known] : ContentsOf(*each)) got[key] = known;
      }
      wrong += got != ContentsOf(table);
    }
    CHECK(wrong == 0);
    CHECK(rows < 10000);  // and not all of them each time
  }
}

TEST_CASE("a delta has what changed since, and nothing else") {
  Random random(5);
  Table table(OptionsOf(0));
  const auto changed = [&](std::int64_t since) {
    std::set<std::int64_t> keys;
    for (const RowBlock& block : ExportAll(table, since)) keys.insert(block.keys.begin(), block.keys.end());
    return keys;
  };
  const auto removed = [&](std::int64_t since) {
    const RowBlock block = table.ExportRemoved(0, since);
    CHECK(block.floats == 6);
    return std::multiset<std::int64_t>(block.removed.begin(), block.removed.end());
  };
  Train(&table, {1, 2, 3, 4}, &random, 1);
  Remove(&table, {4});
  CHECK(removed(kAllEpochs).empty());  // no checkpoint yet that would have it
  const auto first = static_cast<std::int64_t>(table.BeginEpoch());
  CHECK(changed(first).empty());
  Train(&table, {2}, &random, 1);
  Remove(&table, {3});
  const auto second = static_cast<std::int64_t>(table.BeginEpoch());
  CHECK(changed(second).empty());
  CHECK(changed(first) == std::set<std::int64_t>{2});
  ShardOrder order;
  const std::vector<std::int64_t> looked{1, 7};
  table.OrderByShard(looked, &order);
  std::vector<float> values(6);
  REQUIRE(table.LookupOrInsert(order, 0, looked.data(), {.values = values.data()}) == Status::kOk);
  CHECK(changed(second) == std::set<std::int64_t>{7});  // new; to be looked at changes nothing
  CHECK(changed(first) == std::set<std::int64_t>{2, 7});
  CHECK(changed(kAllEpochs) == std::set<std::int64_t>{1, 2, 7});
  Remove(&table, {7, 1000});
  CHECK(removed(first) == std::multiset<std::int64_t>{3, 7});
  CHECK(removed(second) == std::multiset<std::int64_t>{7});
  table.ForgetRemoved(static_cast<std::uint64_t>(second));
  CHECK(removed(first) == std::multiset<std::int64_t>{7});
  // What comes from another checkpoint is new to those that are made here.
  const auto third = static_cast<std::int64_t>(table.BeginEpoch());
  RowBlock block;
  block.floats = 6;
  block.removed = {2};
  block.keys = {1, 50};
  block.steps = block.frequencies = {1, 1};
  block.values.resize(12);
  REQUIRE(table.Import(block, {}) == 2);
  CHECK(changed(third) == std::set<std::int64_t>{1, 50});
  CHECK(removed(third) == std::multiset<std::int64_t>{2});
}

TEST_CASE("of a block without slots they begin as those of a new row with these weights") {
  for (const Rule rule : {Rule::kAdam, Rule::kFtrl, Rule::kSgd}) {
    TableOptions options = OptionsOf();
    options.optimizer.rule = rule;
    options.optimizer.initial_accumulator = 0.25f;
    options.optimizer.learning_rate = 0.5f;
    Table table(options);
    const std::int32_t dim = options.dim, floats = table.layout().floats;
    RowBlock block;
    block.floats = static_cast<std::uint32_t>(dim);
    block.keys = {5, -5};
    block.steps = block.frequencies = {3, 4};
    for (std::int32_t i = 0; i < 2 * dim; ++i) block.values.push_back(0.5f * static_cast<float>(i));
    REQUIRE(table.Import(block, {}) == 2);
    std::vector<float> wanted(static_cast<std::size_t>(floats));
    std::copy_n(block.values.begin() + dim, dim, wanted.begin());
    FillSlots(options.optimizer, wanted.data(), wanted.data() + dim, dim);
    std::size_t rows = 0;
    for (const RowBlock& got : ExportAll(table, kAllEpochs)) {
      for (std::size_t i = 0; i < got.keys.size(); ++i, ++rows) {
        if (got.keys[i] != -5) continue;
        CHECK(got.steps[i] == 4);
        CHECK(std::vector<float>(got.values.begin() + static_cast<std::ptrdiff_t>(i) * floats,
                                 got.values.begin() + static_cast<std::ptrdiff_t>(i + 1) * floats) == wanted);
      }
    }
    CHECK(rows == 2);
  }
}

TEST_CASE("rows of float32 come into a table of bfloat16 rounded to the nearest, and back as they are there") {
  Random random(14);
  TableOptions options = OptionsOf();
  Table table(options);
  Train(&table, random.Keys(300), &random, 5);
  Contents wanted = ContentsOf(table);
  for (auto& [key, known] : wanted) {
    for (std::size_t i = 0; i < 3; ++i) known.values[i] = WidenedBfloat16(NearestBfloat16(known.values[i]));
  }
  options.weights = WeightType::kBfloat16;
  Table narrow(options), again(OptionsOf());
  for (const RowBlock& block : ExportAll(table, kAllEpochs)) REQUIRE(narrow.Import(block, {}).has_value());
  CHECK(ContentsOf(narrow) == wanted);
  for (const RowBlock& block : ExportAll(narrow, kAllEpochs)) REQUIRE(again.Import(block, {}).has_value());
  CHECK(ContentsOf(again) == wanted);
}

TEST_CASE("a table that was cleared is as a new one, and may be filled again") {
  Random random(6);
  Table table(OptionsOf());
  const std::vector<std::int64_t> keys = random.Keys(5000);
  table.BeginEpoch();
  Train(&table, keys, &random, 1);
  Remove(&table, {keys[0], keys[1]});
  const std::vector<RowBlock> blocks = ExportAll(table, kAllEpochs);
  const Contents wanted = ContentsOf(table);
  table.Clear();
  CHECK(table.size() == 0);
  CHECK(table.bytes() == 0);
  CHECK(ContentsOf(table).empty());
  for (const RowBlock& block : ExportAll(table, 0)) CHECK(block.empty());
  for (const RowBlock& block : blocks) REQUIRE(table.Import(block, {}).has_value());
  CHECK(ContentsOf(table) == wanted);
}

TEST_CASE("rows are whole in an export while others train, and what it misses is in the next") {
  Random random(7);
  TableOptions options = OptionsOf(1);
  options.optimizer.rule = Rule::kSgd;
  options.optimizer.learning_rate = 1;
  options.initializer = {};
  Table table(options), restored(options);
  std::atomic<int> training{2};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      Random own(static_cast<std::uint64_t>(thread));
      for (int i = 0; i < 600; ++i) {
        std::vector<std::int64_t> keys;
        for (std::uint64_t first = own.Below(20), j = 0; j < 10; ++j) {
          keys.push_back(static_cast<std::int64_t>(first * 10 + j));
        }
        ShardOrder order;
        table.OrderByShard(keys, &order);
        const std::vector<float> ones(30, 1.0f);
        for (std::int32_t shard = 0; shard < 2; ++shard) {
          (void)table.Apply(order, shard, keys.data(), {.gradients = ones.data()}, table.NextUpdate(1), {});
        }
        if (i % 5 == 0) table.Remove({keys.data(), 3});
      }
      --training;
    });
  }
  int wrong = 0;
  std::int64_t since = kAllEpochs;
  for (bool last = false; !last;) {
    last = training == 0;
    const auto epoch = static_cast<std::int64_t>(table.BeginEpoch());
    for (const RowBlock& block : ExportAll(table, since, 3)) {
      for (std::size_t i = 0; i < block.keys.size(); ++i) {
        const float* values = block.values.data() + i * 3;
        // One update more is one in each weight and in the frequency.
        const auto frequency = static_cast<float>(block.frequencies[i]);
        wrong += values[0] != -frequency || values[1] != -frequency || values[2] != -frequency;
      }
      wrong += !restored.Import(block, {}).has_value();
    }
    since = epoch;
    table.ForgetRemoved(static_cast<std::uint64_t>(epoch));
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(ContentsOf(restored) == ContentsOf(table));
}

}  // namespace
}  // namespace afo
