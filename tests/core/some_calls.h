// A store with something of each kind in it, and for each function calls on it that succeed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/core/call_support.h"

namespace afo::testing {

struct SomeCall {
  Call call;
  Arguments arguments;
  std::size_t results = 0;
  // Fewer of them are refused.
  std::size_t least_ints = 0, least_arguments = 0;
  // Bits by the arguments' numbers: those whose rank is checked, and those that can have no element more.
  unsigned ranked = 0, sized = 0;
};

inline Arguments BagArguments() {
  using Ints = std::vector<std::int32_t>;
  return Arguments(Vector(std::vector<std::int64_t>{1, 2, 7}), Vector(Ints{0, 2, 3}), Vector(Ints{2, 1, 2}),
                   Vector(Ints{1, 2, 1, 0, 1}), Vector(std::vector<std::uint16_t>{0, 0, 1, 0, 1}), Vector(Ints{}),
                   Vector(std::vector<float>{}));
}

inline Arguments BagGradients(PartType type) {
  Arguments arguments = BagArguments();
  arguments.all.push_back(Vector(std::vector<std::int32_t>{}));
  arguments.all.push_back(Vector(std::vector<std::int32_t>{}));
  arguments.all.emplace_back(type, std::vector<std::int64_t>{11});
  arguments.all.push_back(Scalar(1.0f));
  arguments.all.push_back(Scalar(std::int64_t{5}));
  return arguments;
}

inline std::vector<SomeCall> SomeRowCalls() {
  using Ints = std::vector<std::int32_t>;
  using Longs = std::vector<std::int64_t>;
  using Floats = std::vector<float>;
  std::vector<SomeCall> all;
  const auto keys = [](Longs keys) { return Vector(keys); };
  for (const std::int64_t insert : {0, 1}) {
    all.push_back({{Function::kLookupRows, {insert, 0, 3}, {}, {}},
                   Arguments(keys({1, 9, 7}), Vector(Ints{0, 2, 3})), 2, 1, 2, 0b11, 0b11});
    all.push_back({{Function::kPoolRows, {insert, insert == 0 ? 1 : 3, 2, 0, 3, 0, 1, 0}, {0, 0, 0.1f}, {}},
                   BagArguments(), 2, 8, 7, 0b11, 0b1111111});
  }
  all.push_back({{Function::kApplyRows, {0, 3}, {}, {}},
                 Arguments(keys({1, 9, 7}), Vector(Ints{0, 2, 3}), Vector(Ints{}), Vector(Ints{1, 2, 1}),
                           Vector(Floats(7, 0.5f)), Scalar(1.0f), Scalar(std::int64_t{5})),
                 0, 2, 7, 0b1100011, 0b11111});
  // Where keys have to be admitted.
  all.push_back({{Function::kApplyRows, {5, 6}, {}, {}},
                 Arguments(keys({1, 9, 7}), Vector(Ints{0, 2, 3}), Vector(Ints{0, 0, 0}), Vector(Ints{1, 3, 3}),
                           Vector(Floats(3, 0.5f)), Scalar(1.0f), Scalar(std::int64_t{5})),
                 0, 2, 7, 0b1100011, 0b11111});
  for (const PartType type : {PartType::kFloat32, PartType::kBfloat16}) {
    all.push_back({{Function::kApplyPooled, {2, 0, 3, 0, 1, 0}, {0, 0, 0.1f}, {}}, BagGradients(type), 0, 6, 12,
                   0b110000000011, 0b1111111111});
  }
  all.push_back({{Function::kRemoveRows, {0}, {}, {}}, Arguments(keys({1, 5})), 1, 1, 1, 0, 0});
  all.push_back({{Function::kEvictRows, {2, 0, 3, 2, 0, 0, 1}, {0, 0.1f}, {}},
                 Arguments(Scalar(std::int64_t{9}), Scalar(std::int64_t{0})), 1, 7, 2, 0b11, 0});
  return all;
}

inline std::vector<SomeCall> SomeStateCalls() {
  using Longs = std::vector<std::int64_t>;
  using Floats = std::vector<float>;
  std::vector<SomeCall> all;
  const auto weights = [] { return Vector(Floats{1, 2, 3}); };
  const auto arrays = [](Arguments to) {
    to.all.push_back(Vector(Floats{0.5f, 1}));
    to.all.push_back(Scalar(std::int64_t{3}));
    return to;
  };
  const auto position = [] { return Shaped(Longs{1, 3}, Longs{0, 8, 77}); };
  all.push_back({{Function::kReadDense, {}, {}, {}}, Arguments(), 1});
  all.push_back({{Function::kApplyDense, {}, {}, {}}, Arguments(weights(), Scalar(0.5f)), 0, 0, 2, 0b11, 0b1});
  all.push_back({{Function::kMoveDense, {}, {}, {}}, Arguments(weights()), 0, 0, 1, 0b1, 0b1});
  all.push_back({{Function::kResetDense, {}, {}, {}}, Arguments(weights()), 0, 0, 1, 0b1, 0b1});
  all.push_back({{Function::kExportDense, {}, {}, {}}, Arguments(), 3});
  all.push_back({{Function::kImportDense, {}, {}, {}},
                 Arguments(weights(), Shaped(Longs{1, 3}, Floats{4, 5, 6}), Scalar(std::int64_t{9})), 0, 0, 3, 0b111,
                 0b1});
  all.push_back({DenseCall(3), Arguments(), 0, 2});
  all.push_back({{Function::kReadProgress, {1, 8}, {}, {}}, Arguments(Vector(Longs{4, 9})), 4, 2, 1, 0b1, 0});
  all.push_back({{Function::kAdvance, {}, {}, {}}, arrays(Arguments(Vector(Longs{4}), position())), 1, 0, 4, 0b1111,
                 0b101});
  all.push_back({{Function::kExportProgress, {1, 8}, {}, {}}, Arguments(), 5, 2});
  all.push_back({{Function::kImportProgress, {}, {}, {}},
                 arrays(Arguments(Scalar(std::int64_t{6}), Vector(Longs{4}), position())), 0, 0, 3, 0b111, 0b10});
  return all;
}

inline std::vector<SomeCall> SomeTableCalls() {
  const auto two = [] { return Vector(std::vector<std::int64_t>{1, 2}); };
  std::vector<SomeCall> all;
  all.push_back({TableCall(8, 2, 0.5f), Arguments(), 0, 9});
  all.push_back({{Function::kTableSizes, {0, 3}, {}, {}}, Arguments(), 2});
  all.push_back({{Function::kBeginEpoch, {0, 3}, {}, {}}, Arguments(), 2});
  all.push_back({{Function::kClearTables, {0, 5}, {}, {}}, Arguments()});
  all.push_back({{Function::kForgetRemoved, {0, 3}, {}, {}}, Arguments(two()), 0, 2, 1, 0, 0b1});
  all.push_back({{Function::kSetPowers, {0, 3}, {}, {}}, Arguments(two()), 0, 2, 1, 0, 0b1});
  return all;
}

inline std::vector<SomeCall> SomeCalls() {
  std::vector<SomeCall> all = SomeRowCalls();
  for (SomeCall& call : SomeStateCalls()) all.push_back(std::move(call));
  for (SomeCall& call : SomeTableCalls()) all.push_back(std::move(call));
  return all;
}

// Tables 0 and 3 with rows and removals, 5 and 6 that admit keys by counting, dense weights, and progress.
inline std::unique_ptr<Store> SomeStore() {
  auto store = std::make_unique<Store>();
  Call counts = TableCall(5, 1, 0.5f), filters = TableCall(6, 1, 0.5f);
  counts.ints[5] = filters.ints[5] = 3;
  filters.ints[6] = 1000;
  for (const Call& call : {TableCall(0, 2, 0.5f), TableCall(3, 3, 0.25f, PartType::kBfloat16), counts, filters}) {
    if (KindOf(store.get(), call) != FailureKind::kNone) return nullptr;
  }
  const FoundTables found = store->FindTables(std::vector<std::int32_t>{0, 3});
  const std::vector<std::int64_t> keys{1, 2, 7, 8};
  std::vector<float> values(12);
  for (Table* table : found.tables) {
    ShardOrder order;
    table->OrderByShard(keys, &order);
    for (std::int32_t shard = 0; shard < table->shards(); ++shard) {
      if (table->LookupOrInsert(order, shard, keys.data(), {.values = values.data()}) != Status::kOk) return nullptr;
    }
    table->BeginEpoch();
    table->Remove(std::vector<std::int64_t>{8});
  }
  for (const SomeCall& some : SomeStateCalls()) {
    const bool begins = some.call.function == Function::kImportProgress || some.call.function == Function::kCreateDense;
    if (begins && KindOf(store.get(), some.call, some.arguments) != FailureKind::kNone) return nullptr;
  }
  return store;
}

}  // namespace afo::testing
