// Calls on a store as somebody may send them in messages: attributes and arguments are changed as bytes say. A call is
// done, or refused with words and nothing changed; what it takes of memory stays near what it was given. Anything else
// ends the program. fuzz.sh has libFuzzer look for such bytes, the unit tests (calls_test.cc) play random ones.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/core/some_calls.h"

namespace afo::testing {
namespace {

// What one call's results, and all that was played leave in a store, take at most: a hundred bytes say none of more.
constexpr std::size_t kMostResults = 8u << 20, kMostStore = 256u << 20;
// Dense weights that are created here; the larger ones that a store can have take memory that a test does not.
constexpr std::int64_t kMostDense = 1 << 12;

void Require(bool holds) {
  if (!holds) std::abort();
}

// Bytes one after the other; zeros behind the last.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  bool ended() const { return at_ == end_; }
  std::uint8_t Byte() { return at_ == end_ ? 0 : *at_++; }
  std::size_t Below(std::size_t end) { return end == 0 ? 0 : Byte() % end; }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

std::int64_t IntOf(Input* input) {
  constexpr std::int64_t kInts[] = {-1, 16, 255, 257, 4096, 4097, 65535, 1 << 20, (1 << 20) - 1, INT32_MAX, INT32_MIN,
                                    std::int64_t{1} << 31, 0xffffffffll, std::int64_t{1} << 32, INT64_MAX, INT64_MIN};
  const std::uint8_t byte = input->Byte();
  return byte < 160 ? byte % 10 : kInts[byte % std::size(kInts)];
}

float FloatOf(Input* input) {
  constexpr float kFloats[] = {0, -1, 1e-45f, 1e-9f, 3e38f, INFINITY, -INFINITY, NAN, 0.99999994f, 1e9f};
  const std::uint8_t byte = input->Byte();
  return byte < 128 ? static_cast<float>(byte) / 32 : kFloats[byte % std::size(kFloats)];
}

const char* TextOf(Input* input) {
  constexpr const char* kTexts[] = {"",         "sgd",     "adam",  "group_ftrl",    "adagrad_decay", "uniform",
                                    "constant", "normal",  "value", "learning_rate", "decay_steps",   "clip_norm",
                                    "maxval",   "adagrad", "l21",   "no option"};
  return kTexts[input->Below(std::size(kTexts))];
}

// Puts one in, takes one out, or makes one another.
template <typename T, typename Make>
void ChangeOne(Input* input, std::vector<T>* all, const Make& make) {
  const std::uint8_t how = input->Byte() % 4;
  const auto at = all->begin() + static_cast<std::ptrdiff_t>(input->Below(all->size() + (how == 0 ? 1 : 0)));
  if (how == 0) {
    all->insert(at, make(input));
  } else if (at != all->end() && how == 1) {
    all->erase(at);
  } else if (at != all->end()) {
    *at = make(input);
  }
}

Array ArrayOf(Input* input) {
  constexpr PartType kTypes[] = {PartType::kFloat32,  PartType::kInt32, PartType::kInt64, PartType::kUint16,
                                 PartType::kBfloat16, PartType::kBool,  PartType{}};
  std::vector<std::int64_t> dims(input->Below(4));
  for (std::int64_t& dim : dims) dim = static_cast<std::int64_t>(input->Below(9));
  Array array(kTypes[input->Below(std::size(kTypes))], dims);
  for (std::size_t i = 0; i < array.bytes; ++i) array.data[i] = static_cast<char>(input->Byte() % 8);
  return array;
}

// Other numbers in an array, or another array.
void ChangeArray(Input* input, std::vector<Array>* all) {
  if (all->empty() || input->Byte() % 4 == 0) return ChangeOne(input, all, ArrayOf);
  Array& array = (*all)[input->Below(all->size())];
  if (array.bytes == 0) return;
  const std::size_t size = SizeOf(array.type), at = input->Below(array.bytes / size) * size;
  if (array.type == PartType::kFloat32) {
    const float value = FloatOf(input);
    std::memcpy(array.data.get() + at, &value, size);
  } else {
    const std::int64_t value = IntOf(input);
    std::memcpy(array.data.get() + at, &value, size);
  }
}

void Change(Input* input, SomeCall* some) {
  switch (input->Byte() % 8) {
    case 0:
    case 1:
      return ChangeOne(input, &some->call.ints, IntOf);
    case 2:
      return ChangeOne(input, &some->call.floats, FloatOf);
    case 3:
      return ChangeOne(input, &some->call.texts, TextOf);
    case 4:
      some->call.function = static_cast<Function>(input->Byte() % (kLastFunction + 2));
      return;
    default:
      return ChangeArray(input, &some->arguments.all);
  }
}

bool IsLarge(const Call& call) {
  return call.function == Function::kCreateDense && !call.ints.empty() && call.ints.front() > kMostDense &&
         call.ints.front() <= kMostDenseWeights;
}

}  // namespace

// `done`: counts the calls that succeed, by function.
void PlayCalls(const std::uint8_t* data, std::size_t size, std::vector<std::uint64_t>* done) {
  Input input(data, size);
  const auto store = input.Byte() % 8 == 0 ? std::make_unique<Store>() : SomeStore();
  std::string content = ContentOf(store.get());
  while (!input.ended()) {
    std::vector<SomeCall> calls = SomeCalls();
    SomeCall some = std::move(calls[input.Below(calls.size())]);
    for (std::size_t changes = input.Below(4); changes > 0; --changes) Change(&input, &some);
    if (IsLarge(some.call)) continue;
    HeldResults results(static_cast<int>(input.Below(32)) - 1, kMostResults);
    const Failure failure = Run(some.call, some.arguments.parts(), store.get(), &results, Serial);
    Require(failure.happened() != failure.words.empty());
    if (!failure.happened()) ++(*done)[static_cast<std::size_t>(some.call.function)];
    const std::string now = ContentOf(store.get());
    Require(!failure.happened() || now == content);
    content = now;
    Require(store->bytes() <= kMostStore);
  }
}

}  // namespace afo::testing

#ifdef AFO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint64_t> done(afo::kLastFunction + 1);
  afo::testing::PlayCalls(data, size, &done);
  return 0;
}
#endif
