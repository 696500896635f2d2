// What all functions have in common: each refuses what it lacks or what is of another form, and changes nothing then.
#include "afo/core/calls.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/core/some_calls.h"
#include "tests/core/support.h"

namespace afo {
namespace testing {
void PlayCalls(const std::uint8_t* data, std::size_t size, std::vector<std::uint64_t>* done);  // fuzz_calls.cc
}
namespace {

using testing::Array;
using testing::Done;
using testing::KindOf;
using testing::SomeCall;
using testing::SomeCalls;
using testing::SomeStore;

std::string Named(const SomeCall& some) { return "function " + std::to_string(static_cast<int>(some.call.function)); }

// That a call fails so, and nothing was changed.
void CheckRefused(Store* store, const SomeCall& some, FailureKind kind = FailureKind::kNone, int lacking = -1) {
  const std::string before = testing::ContentOf(store);
  const Done done = Do(store, some.call, some.arguments, lacking);
  CHECK(done.failure.happened());
  if (kind != FailureKind::kNone) CHECK(static_cast<int>(done.failure.kind) == static_cast<int>(kind));
  CHECK(done.failure.words.empty() != done.failure.happened());
  CHECK(testing::ContentOf(store) == before);
}

TEST_CASE("calls on a store succeed, each function's") {
  std::set<Function> functions;
  for (const SomeCall& some : SomeCalls()) {
    CAPTURE(Named(some));
    const auto store = SomeStore();
    REQUIRE(store != nullptr);
    const Done done = Do(store.get(), some.call, some.arguments);
    CHECK(done.failure.words == "");
    CHECK(!done.failure.happened());
    CHECK(done.results.size() == some.results);
    functions.insert(some.call.function);
  }
  CHECK(functions.size() == kLastFunction);
}

TEST_CASE("calls of no function are refused, and only what creates begins a store") {
  Store store;
  for (const std::uint16_t number : {0, kLastFunction + 1, 0xffff}) {
    const auto function = static_cast<Function>(number);
    CHECK(KindOf(&store, {function, {}, {}, {}}) == FailureKind::kInvalid);
    CHECK(!BeginsStore(function));
  }
  for (std::uint16_t number = 1; number <= kLastFunction; ++number) {
    const auto function = static_cast<Function>(number);
    const bool begins = function == Function::kCreateDense || function == Function::kImportProgress ||
                        function == Function::kAddTable;
    CHECK(BeginsStore(function) == begins);
  }
}

TEST_CASE("calls that lack attributes are refused") {
  const auto store = SomeStore();
  for (const SomeCall& some : SomeCalls()) {
    CAPTURE(Named(some));
    for (std::size_t ints = 0; ints < some.least_ints; ++ints) {
      SomeCall less = {some.call, testing::Arguments()};
      for (const Array& array : some.arguments.all) {
        less.arguments.all.emplace_back(array.type, array.dims, array.data.get());
      }
      less.call.ints.resize(ints);
      CheckRefused(store.get(), less);
    }
  }
}

// Each call with one argument as `change` makes it; where it makes nothing, it is left out.
template <typename Change>
void RefuseChanged(const Change& change) {
  const auto store = SomeStore();
  const std::size_t count = SomeCalls().size();
  for (std::size_t number = 0; number < count; ++number) {
    for (std::size_t i = 0; i < SomeCalls()[number].arguments.all.size(); ++i) {
      SomeCall some = std::move(SomeCalls()[number]);
      CAPTURE(Named(some));
      CAPTURE(i);
      if (change(&some, i)) CheckRefused(store.get(), some, FailureKind::kInvalid);
    }
  }
}

TEST_CASE("calls that lack arguments are refused") {
  RefuseChanged([](SomeCall* some, std::size_t i) {
    while (some->arguments.all.size() > i) some->arguments.all.pop_back();
    return i < some->least_arguments;
  });
}

TEST_CASE("arguments of calls that are of other types are refused") {
  for (const PartType type : {PartType::kUint8, PartType::kFloat64, PartType::kUint32, PartType{}}) {
    RefuseChanged([type](SomeCall* some, std::size_t i) {
      Array& array = some->arguments.all[i];
      array = Array(type, array.dims);
      return i < some->least_arguments;
    });
  }
}

TEST_CASE("arguments of calls that are of other ranks are refused") {
  RefuseChanged([](SomeCall* some, std::size_t i) {
    some->arguments.all[i].dims.push_back(1);
    return (some->ranked >> i & 1) == 1;
  });
}

TEST_CASE("arguments of calls that are longer or shorter are refused") {
  for (const int more : {1, -1}) {
    RefuseChanged([more](SomeCall* some, std::size_t i) {
      Array& array = some->arguments.all[i];
      const bool changes = (some->sized >> i & 1) == 1 && array.dims.front() + more >= 0;
      if (changes) array = Array(array.type, {array.dims.front() + more});
      // None of these at all is what a call may have.
      return changes && array.dims.front() > 0;
    });
  }
}

TEST_CASE("calls without memory for a result change nothing") {
  const auto store = SomeStore();
  for (const SomeCall& some : SomeCalls()) {
    CAPTURE(Named(some));
    for (std::size_t i = 0; i < some.results; ++i) {
      CheckRefused(store.get(), some, FailureKind::kNoMemory, static_cast<int>(i));
    }
  }
}

TEST_CASE("calls about what is not there are told so") {
  Store store;
  for (const SomeCall& some : SomeCalls()) {
    CAPTURE(Named(some));
    const bool there = BeginsStore(some.call.function) || some.call.function == Function::kAdvance;
    if (!there) CheckRefused(&store, some, FailureKind::kMissing);
  }
  for (const std::int64_t number : {std::int64_t{1}, std::int64_t{-1}, std::int64_t{1} << 32, INT64_MAX, INT64_MIN}) {
    CHECK(KindOf(SomeStore().get(), {Function::kClearTables, {0, number}, {}, {}}) == FailureKind::kMissing);
  }
}

// AFO_FUZZ_INPUTS: how many, to look for longer than a test may.
std::uint64_t Inputs() {
  const char* wanted = std::getenv("AFO_FUZZ_INPUTS");
  return wanted == nullptr ? 300 : std::stoull(wanted);
}

TEST_CASE("whatever calls say, they are done or refused") {
  std::vector<std::uint64_t> done(kLastFunction + 1);
  for (std::uint64_t seed = 0; seed < Inputs(); ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    std::vector<std::uint8_t> bytes(random.Below(200));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.Bits());
    testing::PlayCalls(bytes.data(), bytes.size(), &done);  // aborts
  }
  // Else nothing but refusals were looked at.
  for (std::size_t function = 1; Inputs() >= 300 && function <= kLastFunction; ++function) {
    CAPTURE(function);
    CHECK(done[function] > 0);
  }
}

}  // namespace
}  // namespace afo
