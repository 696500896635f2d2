#include "afo/core/predict_response.h"

#include <bit>
#include <cstring>

#include "afo/core/wire.h"

namespace afo {
namespace {

std::size_t VarintBytes(std::uint64_t value) { return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7; }

// Protobuf, where there is room for it. Fields with numbers below 16.
class WireWriter {
 public:
  explicit WireWriter(char* to) : to_(to) {}

  void Varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) *to_++ = static_cast<char>(value | 0x80);
    *to_++ = static_cast<char>(value);
  }
  void Field(std::uint32_t number, std::uint64_t value) {
    Varint(number << 3);
    Varint(value);
  }
  // A message or bytes of `size`, which follow.
  void Head(std::uint32_t number, std::size_t size) {
    Varint(number << 3 | static_cast<std::uint32_t>(WireType::kBytes));
    Varint(size);
  }
  void Bytes(std::uint32_t number, std::string_view bytes) {
    Head(number, bytes.size());
    if (!bytes.empty()) std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }

 private:
  char* to_;
};

std::size_t FieldBytes(std::uint64_t value) { return 1 + VarintBytes(value); }
std::size_t PartBytes(std::size_t size) { return 1 + VarintBytes(size) + size; }

std::size_t DimBytes(std::int64_t dim) { return FieldBytes(static_cast<std::uint64_t>(dim)); }

std::size_t ShapeBytes(const ResponseTensor& tensor) {
  std::size_t bytes = 0;
  for (const std::int64_t dim : tensor.dims) bytes += PartBytes(DimBytes(dim));
  return bytes;
}

// Field of TensorProto that has the values of a type.
std::uint32_t ValuesField(TensorType type) {
  switch (type) {
    case TensorType::kInt32:
      return 7;
    case TensorType::kInt64:
      return 10;
    case TensorType::kBool:
      return 11;
    default:
      return 5;
  }
}

// Calls `take` with each integer, as varints have negative ones: in 64 bits.
template <typename Number, typename Take>
void EachInteger(std::string_view numbers, const Take& take) {
  for (std::size_t at = 0; at < numbers.size(); at += sizeof(Number)) {
    Number value;
    std::memcpy(&value, numbers.data() + at, sizeof(value));
    take(static_cast<std::uint64_t>(std::int64_t{value}));
  }
}

template <typename Take>
void EachVarint(const ResponseTensor& tensor, const Take& take) {
  if (tensor.type == TensorType::kInt32) EachInteger<std::int32_t>(tensor.numbers, take);
  if (tensor.type == TensorType::kInt64) EachInteger<std::int64_t>(tensor.numbers, take);
}

bool HasVarints(const ResponseTensor& tensor) {
  return tensor.type == TensorType::kInt32 || tensor.type == TensorType::kInt64;
}

// Of the packed values: those of floats and bools are the tensor's own.
std::size_t ValuesBytes(const ResponseTensor& tensor) {
  if (!HasVarints(tensor)) return tensor.numbers.size();
  std::size_t bytes = 0;
  EachVarint(tensor, [&](std::uint64_t value) { bytes += VarintBytes(value); });
  return bytes;
}

std::size_t TensorBytes(const ResponseTensor& tensor) {
  return FieldBytes(static_cast<std::uint64_t>(tensor.type)) + PartBytes(ShapeBytes(tensor)) +
         PartBytes(ValuesBytes(tensor));
}

std::size_t OutputBytes(const ResponseTensor& tensor) {
  return PartBytes(tensor.name.size()) + PartBytes(TensorBytes(tensor));
}

std::size_t ModelSpecBytes(const PredictResponse& response) {
  const std::size_t version =
      response.version ? PartBytes(FieldBytes(static_cast<std::uint64_t>(*response.version))) : 0;
  return PartBytes(response.model.size()) + version + PartBytes(response.signature.size());
}

}  // namespace

std::size_t PredictResponseBytes(const PredictResponse& response) {
  std::size_t bytes = PartBytes(ModelSpecBytes(response));
  for (const ResponseTensor& tensor : response.outputs) bytes += PartBytes(OutputBytes(tensor));
  return bytes;
}

void WritePredictResponse(const PredictResponse& response, char* to) {
  WireWriter writer(to);
  for (const ResponseTensor& tensor : response.outputs) {
    writer.Head(1, OutputBytes(tensor));
    writer.Bytes(1, tensor.name);
    writer.Head(2, TensorBytes(tensor));
    writer.Field(1, static_cast<std::uint64_t>(tensor.type));
    writer.Head(2, ShapeBytes(tensor));
    for (const std::int64_t dim : tensor.dims) {
      writer.Head(2, DimBytes(dim));
      writer.Field(1, static_cast<std::uint64_t>(dim));
    }
    if (HasVarints(tensor)) {
      writer.Head(ValuesField(tensor.type), ValuesBytes(tensor));
      EachVarint(tensor, [&](std::uint64_t value) { writer.Varint(value); });
    } else {
      writer.Bytes(ValuesField(tensor.type), tensor.numbers);
    }
  }
  writer.Head(2, ModelSpecBytes(response));
  writer.Bytes(1, response.model);
  if (response.version) {
    writer.Head(2, FieldBytes(static_cast<std::uint64_t>(*response.version)));
    writer.Field(1, static_cast<std::uint64_t>(*response.version));
  }
  writer.Bytes(3, response.signature);
}

}  // namespace afo
