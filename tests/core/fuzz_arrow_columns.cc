// A batch of Arrow's C data interface whose formats, lengths, offsets and indices are what bytes say, with buffers as
// long as its arrays say, which is all that a reader may believe. It is refused, or tensors come of it that have as
// many values as their shapes say, each within its buffer; anything else ends the program. fuzz.sh has libFuzzer look
// for such bytes, the unit tests (arrow_columns_test.cc) draw them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "afo/core/arrow_columns.h"
#include "tests/core/arrow_batch.h"

namespace afo::testing {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  // 0 behind the end.
  std::uint8_t Next() { return place_ < size_ ? data_[place_++] : 0; }
  std::int64_t Below(int end) { return Next() % end; }
  bool OneOf(int cases) { return Next() % cases == cases - 1; }

 private:
  const std::uint8_t* data_;
  std::size_t size_, place_ = 0;
};

// As an array may say it, mostly a small one. Between these no buffer would be as long as it says.
std::int64_t Length(Bytes* from) {
  constexpr std::int64_t kWrong[] = {-1, INT64_MIN, INT64_MAX, (std::int64_t{1} << 47) + 1};
  return from->OneOf(40) ? kWrong[from->Below(4)] : from->Below(7);
}

// Values, or bits, that an array has buffers for.
std::size_t Believed(const ArrowArray& array) {
  const bool is_small = array.length >= 0 && array.length < 64 && array.offset >= 0 && array.offset < 64;
  return is_small ? static_cast<std::size_t>(array.length + array.offset) : 0;
}

void AddRandom(std::size_t size, Bytes* from, ArrowNode* node) {
  std::vector<char> bytes(size);
  for (char& byte : bytes) byte = static_cast<char>(from->Next());
  // Null at times, and where nothing is.
  node->AddBuffer(from->OneOf(40) ? nullptr : bytes.data(), size);
}

// Offsets, mostly such as ascend; returns the last byte, or value, that one of them names.
template <typename Offset>
std::int64_t AddOffsets(std::size_t count, Bytes* from, ArrowNode* node) {
  std::vector<Offset> offsets;
  std::int64_t last = 0, most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    last += from->OneOf(20) ? static_cast<std::int8_t>(from->Next()) : from->Below(3);
    most = std::max(most, last);
    offsets.push_back(static_cast<Offset>(last));
  }
  node->AddBuffer(offsets.data(), offsets.size() * sizeof(Offset));
  return most;
}

Node Head(std::string format, Bytes* from) {
  auto node = std::make_unique<ArrowNode>();
  node->format = std::move(format);
  node->array.length = Length(from);
  node->array.offset = from->OneOf(4) ? Length(from) : 0;
  node->array.null_count = from->OneOf(3) ? from->Below(4) - 1 : 0;
  return node;
}

Node Flat(Bytes* from) {
  constexpr char kLetters[] = "lfuzULcCsSiIgbne";
  const char letter = kLetters[from->Below(16)];
  Node node = Head(std::string(1, letter), from);
  const std::size_t values = Believed(node->array);
  if (letter != 'n') AddRandom(values / 8 + 1, from, node.get());
  const std::string_view large = "UZ", small = "uz", words = "lLg", halves = "fiI", bytes = "cC";
  if (large.find(letter) != large.npos || small.find(letter) != small.npos) {
    const bool is_large = large.find(letter) != large.npos;
    const std::int64_t end = is_large ? AddOffsets<std::int64_t>(values + 1, from, node.get())
                                      : AddOffsets<std::int32_t>(values + 1, from, node.get());
    AddRandom(static_cast<std::size_t>(end), from, node.get());
  } else if (letter != 'n') {
    const std::size_t size = words.find(letter) != words.npos     ? 8
                             : halves.find(letter) != halves.npos ? 4
                             : bytes.find(letter) != bytes.npos   ? 1
                                                                  : 2;
    AddRandom(values * size, from, node.get());
  }
  node->Seal();
  return node;
}

Node MaybeDictionary(Bytes* from) {
  Node node = Flat(from);
  return from->OneOf(4) ? WithDictionary(std::move(node), Flat(from)) : std::move(node);
}

Node Column(Bytes* from) {
  const std::int64_t form = from->Below(8);
  if (form < 4) return MaybeDictionary(from);
  Node node = Head(form == 4 ? "+l" : form == 5 ? "+L" : "+w:" + std::to_string(from->Below(3)), from);
  const std::size_t values = Believed(node->array);
  AddRandom(values / 8 + 1, from, node.get());
  if (form == 4) AddOffsets<std::int32_t>(values + 1, from, node.get());
  if (form == 5) AddOffsets<std::int64_t>(values + 1, from, node.get());
  node->children.push_back(from->OneOf(20) ? Column(from) : MaybeDictionary(from));
  node->Seal();
  return node;
}

std::size_t ElementsOf(const RequestTensor& tensor) {
  std::size_t elements = 1;
  for (const std::int64_t dim : tensor.dims) elements *= static_cast<std::size_t>(dim);
  return elements;
}

// Reads all that a tensor refers to.
void CheckTensor(const RequestTensor& tensor) {
  const bool is_text = tensor.type == TensorType::kString;
  Require(tensor.strings.size() == (is_text ? ElementsOf(tensor) : 0));
  Require(tensor.numbers.size() == ElementsOf(tensor) * SizeOf(tensor.type));
  std::string all(tensor.numbers);
  for (const std::string_view text : tensor.strings) all += text;
  volatile std::size_t sum = 0;
  for (const char byte : all) sum = sum + static_cast<unsigned char>(byte);
}

}  // namespace

void ReadBatch(const std::uint8_t* data, std::size_t size) {
  constexpr TensorType kTypes[] = {TensorType::kInt64, TensorType::kFloat, TensorType::kString, TensorType::kInt32,
                                   TensorType::kBool};
  Bytes from(data, size);
  ColumnInput input{"x", kTypes[from.Below(5)], {}, nullptr};
  const std::int64_t width = from.Below(4);
  if (width > 0) input.width = width;
  const ColumnFill fill{std::vector<char>(32, 1), std::vector<std::string>(4, "none"), from.OneOf(2)};
  if (from.OneOf(2)) input.fill = &fill;
  Node column = Column(&from);
  column->name = "x";
  column->schema.name = column->name.c_str();
  const Node batch = BatchOf(static_cast<std::size_t>(Length(&from)), std::move(column));
  if (from.OneOf(4)) batch->array.offset = Length(&from);
  const ArrowColumns read = ReadArrowColumns(batch->schema, batch->array, {&input, 1});
  Require(read.inputs.size() == (read.wrong.empty() ? 1 : 0));
  if (!read.wrong.empty()) return;
  Require(read.inputs[0].dims[0] == batch->array.length);
  CheckTensor(read.inputs[0]);
}

}  // namespace afo::testing

#ifdef AFO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  afo::testing::ReadBatch(data, size);
  return 0;
}
#endif
