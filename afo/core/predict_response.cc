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

std::size_t TensorBytes(const ResponseTensor& tensor) {
  return FieldBytes(static_cast<std::uint64_t>(tensor.type)) + PartBytes(ShapeBytes(tensor)) +
         PartBytes(tensor.numbers.size());
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
    writer.Bytes(4, tensor.numbers);
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
