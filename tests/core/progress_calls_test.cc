#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "tests/core/call_support.h"

namespace afo {
namespace {

using testing::Arguments;
using testing::Done;
using testing::KindOf;
using testing::Scalar;
using testing::Shaped;
using testing::Vector;

using Longs = std::vector<std::int64_t>;
using Floats = std::vector<float>;

Done Read(Store* store, const Longs& types, const Longs& splits) {
  return Do(store, {Function::kReadProgress, types, {}, {}}, Arguments(Vector(splits)));
}

Done Advance(Store* store, const Longs& splits, const Longs& positions, const Floats& added) {
  const Longs shape{static_cast<std::int64_t>(splits.size()), 3};
  return Do(store, {Function::kAdvance, {}, {}, {}},
            Arguments(Vector(splits), Shaped(shape, positions), Vector(added), Scalar(std::int64_t{1})));
}

FailureKind Import(Store* store, std::int64_t step, const Longs& splits, const Longs& positions) {
  const Longs shape{static_cast<std::int64_t>(splits.size()), 3};
  return KindOf(store, {Function::kImportProgress, {}, {}, {}},
                Arguments(Scalar(step), Vector(splits), Shaped(shape, positions), Vector(Floats{1, 2}),
                          Scalar(std::int64_t{5})));
}

TEST_CASE("calls bring progress in, on, and out") {
  Store store;
  REQUIRE(Import(&store, 6, {4}, {0, 8, 77}) == FailureKind::kNone);
  CHECK(Advance(&store, {4, 2}, {0, 9, 78, 1, 3, -1}, {0.5, 0}).values<std::int64_t>(0) == Longs{7});
  const Done read = Read(&store, {1, 8}, {2, 3, 4});
  CHECK(read.values<std::int64_t>(0) == Longs{7});
  CHECK(read.results[0].dims.empty());
  CHECK(read.values<std::int64_t>(1) == Longs{1, 3, -1, -1, 0, 0, 0, 9, 78});
  CHECK(read.results[1].dims == Longs{3, 3});
  CHECK(read.values<float>(2) == Floats{1.5, 2});
  CHECK(read.values<std::int64_t>(3) == Longs{6});
  CHECK(read.results[3].dims.empty());
  const Done exported = Do(&store, {Function::kExportProgress, {1, 8}, {}, {}}, Arguments());
  CHECK(exported.values<std::int64_t>(1) == Longs{2, 4});
  CHECK(exported.values<std::int64_t>(2) == Longs{1, 3, -1, 0, 9, 78});
  CHECK(exported.values<float>(3) == Floats{1.5, 2});
  CHECK(exported.values<std::int64_t>(4) == Longs{6});
}

TEST_CASE("calls name the types of the model's state as they are") {
  Store store;
  REQUIRE(Import(&store, 6, {}, {}) == FailureKind::kNone);
  CHECK(Read(&store, {1, 8}, {}).results[1].dims == Longs{0, 3});
  // 257 is 1 in the byte of a message.
  for (const Longs& types : {Longs{}, Longs{1}, Longs{8, 1}, Longs{1, 8, 8}, Longs{257, 8}, Longs{1, -248}}) {
    CHECK(Read(&store, types, {}).failure.kind == FailureKind::kMissing);
    CHECK(KindOf(&store, {Function::kExportProgress, types, {}, {}}) == FailureKind::kMissing);
  }
}

TEST_CASE("calls with progress that cannot be are refused") {
  Store store;
  REQUIRE(Import(&store, 6, {4}, {0, 8, 77}) == FailureKind::kNone);
  const std::string before = testing::ContentOf(&store);
  for (const std::int64_t split : {std::int64_t{-1}, kMostSplits, INT64_MAX, INT64_MIN}) {
    CHECK(Read(&store, {1, 8}, {split}).failure.kind == FailureKind::kInvalid);
    CHECK(Advance(&store, {split}, {0, 0, 0}, {1, 1}).failure.kind == FailureKind::kInvalid);
    CHECK(Import(&store, 6, {split}, {0, 0, 0}) == FailureKind::kInvalid);
  }
  CHECK(Advance(&store, {4}, {-1, 0, 0}, {1, 1}).failure.kind == FailureKind::kInvalid);
  CHECK(Advance(&store, {4}, {0, 0, 0}, {1, 1, 1}).failure.kind == FailureKind::kInvalid);
  CHECK(Import(&store, -1, {}, {}) == FailureKind::kInvalid);
  CHECK(Import(&store, kMostSteps + 1, {}, {}) == FailureKind::kInvalid);
  // Positions without their third number.
  const Arguments flat(Vector(Longs{4}), Shaped(Longs{1, 2}, Longs{0, 0}), Vector(Floats{1, 1}),
                       Scalar(std::int64_t{1}));
  CHECK(KindOf(&store, {Function::kAdvance, {}, {}, {}}, flat) == FailureKind::kInvalid);
  CHECK(testing::ContentOf(&store) == before);
}

}  // namespace
}  // namespace afo
