#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/core/call_support.h"

namespace afo {
namespace {

using testing::Arguments;
using testing::DenseCall;
using testing::Done;
using testing::KindOf;
using testing::Scalar;
using testing::Shaped;
using testing::Vector;

using Longs = std::vector<std::int64_t>;
using Floats = std::vector<float>;

Done Export(Store* store) { return Do(store, {Function::kExportDense, {}, {}, {}}, Arguments()); }

Floats WeightsOf(Store* store) {
  return Do(store, {Function::kReadDense, {}, {}, {}}, Arguments()).values<float>(0);
}

FailureKind Give(Store* store, Function function, const Floats& values) {
  return KindOf(store, {function, {}, {}, {}}, Arguments(Vector(values)));
}

TEST_CASE("calls create dense weights, change them, and read them") {
  Store store;
  REQUIRE(KindOf(&store, DenseCall(3)) == FailureKind::kNone);
  CHECK(WeightsOf(&store) == Floats{0, 0, 0});
  CHECK(Give(&store, Function::kMoveDense, {1, 2, 3}) == FailureKind::kNone);
  CHECK(Give(&store, Function::kMoveDense, {1, 0, 0}) == FailureKind::kNone);
  CHECK(WeightsOf(&store) == Floats{2, 2, 3});
  // Adagrad: a step of 0.5 / sqrt(0.25 + 0) where the gradient is 0, and 0.5 g / sqrt(0.25 + g^2).
  CHECK(KindOf(&store, {Function::kApplyDense, {}, {}, {}}, Arguments(Vector(Floats{0, 1, 0}), Scalar(1.0f))) ==
        FailureKind::kNone);
  CHECK(WeightsOf(&store)[1] == doctest::Approx(2 - 0.5 / std::sqrt(1.25)));
  const Done exported = Export(&store);
  CHECK(exported.values<float>(0) == WeightsOf(&store));
  CHECK(exported.results[1].dims == Longs{1, 3});
  CHECK(exported.values<float>(1) == Floats{0.25, 1.25, 0.25});
  CHECK(exported.values<std::int64_t>(2) == Longs{1});
  CHECK(Give(&store, Function::kResetDense, {7, 8, 9}) == FailureKind::kNone);
  CHECK(WeightsOf(&store) == Floats{7, 8, 9});
  CHECK(Export(&store).values<float>(1) == Floats{0.25, 0.25, 0.25});
  CHECK(Export(&store).values<std::int64_t>(2) == Longs{0});
  const Arguments all(Vector(Floats{1, 2, 3}), Shaped(Longs{1, 3}, Floats{4, 5, 6}), Scalar(std::int64_t{9}));
  CHECK(KindOf(&store, {Function::kImportDense, {}, {}, {}}, all) == FailureKind::kNone);
  CHECK(Export(&store).values<float>(1) == Floats{4, 5, 6});
  CHECK(Export(&store).values<std::int64_t>(2) == Longs{9});
}

TEST_CASE("calls work on dense weights of which there are none") {
  Store store;
  REQUIRE(KindOf(&store, DenseCall(0)) == FailureKind::kNone);
  CHECK(WeightsOf(&store).empty());
  CHECK(Give(&store, Function::kResetDense, {}) == FailureKind::kNone);
  CHECK(Export(&store).results[1].dims == Longs{1, 0});
}

TEST_CASE("calls that create dense weights otherwise than they are, or can be, are refused") {
  Call wrong[] = {DenseCall(-1), DenseCall(kMostDenseWeights + 1), DenseCall(INT64_MAX), DenseCall(INT64_MIN)};
  Store store;
  for (const Call& call : wrong) CHECK(KindOf(&store, call) == FailureKind::kInvalid);
  const auto refuse = [&store](auto change) {
    Call call = DenseCall(3);
    change(&call);
    CHECK(KindOf(&store, call) == FailureKind::kInvalid);
  };
  for (const std::int64_t slots : {std::int64_t{0}, std::int64_t{2}, std::int64_t{-1}, (std::int64_t{1} << 32) + 1}) {
    refuse([slots](Call* call) { call->ints[1] = slots; });
  }
  refuse([](Call* call) { call->texts.clear(); });
  refuse([](Call* call) { call->texts.pop_back(); });
  refuse([](Call* call) { call->texts.emplace_back("l1"); });
  refuse([](Call* call) { call->floats.pop_back(); });
  refuse([](Call* call) { call->texts[0] = "no rule"; });
  refuse([](Call* call) { call->texts[0] = "adagrad_decay"; });
  refuse([](Call* call) { call->texts[1] = "clip_norm"; });
  refuse([](Call* call) { call->texts[1] = "no option"; });
  // A number that is none is not what was created, so nobody could create it alike.
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    refuse([value](Call* call) { call->floats[0] = value; });
  }
  CHECK(store.dense() == nullptr);
  REQUIRE(KindOf(&store, DenseCall(3)) == FailureKind::kNone);
  CHECK(KindOf(&store, DenseCall(4)) == FailureKind::kConflict);
}

TEST_CASE("dense weights refuse what is no update of them") {
  Store store;
  REQUIRE(KindOf(&store, DenseCall(3)) == FailureKind::kNone);
  for (const float schedule : {NAN, INFINITY}) {
    CHECK(KindOf(&store, {Function::kApplyDense, {}, {}, {}}, Arguments(Vector(Floats{1, 1, 1}), Scalar(schedule))) ==
          FailureKind::kInvalid);
  }
  const Arguments negative(Vector(Floats{1, 2, 3}), Shaped(Longs{1, 3}, Floats{4, 5, 6}), Scalar(std::int64_t{-1}));
  CHECK(KindOf(&store, {Function::kImportDense, {}, {}, {}}, negative) == FailureKind::kInvalid);
  const Arguments flat(Vector(Floats{1, 2, 3}), Vector(Floats{4, 5, 6}), Scalar(std::int64_t{1}));
  CHECK(KindOf(&store, {Function::kImportDense, {}, {}, {}}, flat) == FailureKind::kInvalid);
  CHECK(WeightsOf(&store) == Floats{0, 0, 0});
  CHECK(Export(&store).values<std::int64_t>(2) == Longs{0});
}

}  // namespace
}  // namespace afo
