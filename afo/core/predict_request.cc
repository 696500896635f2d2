#include "afo/core/predict_request.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "afo/core/wire.h"

namespace afo {
namespace {

static_assert(std::endian::native == std::endian::little);

// Fields of a TensorProto.
constexpr std::uint32_t kDtype = 1, kShape = 2, kContent = 4;

std::optional<TensorType> TypeOf(std::uint64_t number) {
  for (const TensorType type :
       {TensorType::kFloat, TensorType::kInt32, TensorType::kString, TensorType::kInt64, TensorType::kBool}) {
    if (number == static_cast<std::uint64_t>(type)) return type;
  }
  return std::nullopt;
}

// The field in which a TensorProto has the values of a type.
std::uint32_t FieldOf(TensorType type) {
  switch (type) {
    case TensorType::kFloat:
      return 5;
    case TensorType::kInt32:
      return 7;
    case TensorType::kString:
      return 8;
    case TensorType::kInt64:
      return 10;
    case TensorType::kBool:
      return 11;
  }
  return 0;
}

std::string Quoted(std::string_view name) {
  constexpr std::size_t kMost = 80;
  std::string text("`");
  text.append(name.substr(0, kMost)).append(name.size() > kMost ? "…`" : "`");
  return text;
}

// Elements of a shape, or nothing: no message could hold that many. Also of one without any: its rows are summed up by
// whoever joins requests.
std::optional<std::int64_t> ElementsOf(const std::vector<std::int64_t>& dims) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0 || dim > INT32_MAX || __builtin_mul_overflow(elements, std::max<std::int64_t>(dim, 1), &elements)) {
      return std::nullopt;
    }
  }
  return std::find(dims.begin(), dims.end(), 0) == dims.end() ? elements : 0;
}

// Reads fields one after the other: `read(field, type, reader)` takes the value of one and returns what is wrong, which
// ends it. A value that it does not take it skips.
template <typename Read>
std::string ReadFields(std::string_view bytes, const Read& read) {
  WireReader reader(bytes);
  while (!reader.AtEnd()) {
    std::uint32_t field;
    WireType type;
    if (!reader.Tag(&field, &type)) return "is no protobuf message";
    if (std::string wrong = read(field, type, &reader); !wrong.empty()) return wrong;
  }
  return "";
}

std::string Skip(WireType type, WireReader* reader) { return reader->Skip(type) ? "" : "is cut off"; }

// A field that holds bytes; false: it is cut off, or of another type.
bool TakeBytes(WireType type, WireReader* reader, std::string_view* bytes) {
  return type == WireType::kBytes && reader->Bytes(bytes);
}

std::string ReadDim(std::string_view bytes, std::int64_t* size) {
  *size = 0;
  return ReadFields(bytes, [size](std::uint32_t field, WireType type, WireReader* reader) -> std::string {
    std::uint64_t value;
    if (field != 1) return Skip(type, reader);
    if (type != WireType::kVarint || !reader->Varint(&value)) return "has a dimension that is no number";
    *size = static_cast<std::int64_t>(value);
    return "";
  });
}

std::string ReadShape(std::string_view bytes, std::vector<std::int64_t>* dims) {
  return ReadFields(bytes, [dims](std::uint32_t field, WireType type, WireReader* reader) -> std::string {
    std::string_view dim;
    std::uint64_t unknown;
    if (field == 3 && type == WireType::kVarint) {
      return reader->Varint(&unknown) && unknown == 0 ? "" : "has a shape of unknown rank";
    }
    if (field != 2) return Skip(type, reader);
    if (!TakeBytes(type, reader, &dim)) return "has a shape that is cut off";
    if (dims->size() == kMostRank) return "has a rank above " + std::to_string(kMostRank);
    return ReadDim(dim, &dims->emplace_back());
  });
}

template <typename Number>
void Append(std::vector<char>* to, Number number) {
  const char* bytes = reinterpret_cast<const char*>(&number);
  to->insert(to->end(), bytes, bytes + sizeof(number));
}

// One value of a type that protobuf writes as a varint.
bool TakeVarint(TensorType type, WireReader* reader, std::vector<char>* to) {
  std::uint64_t value;
  if (!reader->Varint(&value)) return false;
  if (type == TensorType::kInt32) Append(to, static_cast<std::int32_t>(value));
  if (type == TensorType::kInt64) Append(to, static_cast<std::int64_t>(value));
  if (type == TensorType::kBool) Append(to, static_cast<char>(value != 0));
  return true;
}

// Values of numbers, packed or one by one.
bool TakeNumbers(TensorType type, WireType wire, WireReader* reader, std::vector<char>* to) {
  if (type == TensorType::kFloat) {
    float one;
    std::string_view packed;
    if (wire == WireType::kFixed32) {
      if (!reader->Float(&one)) return false;
      Append(to, one);
      return true;
    }
    if (!TakeBytes(wire, reader, &packed) || packed.size() % sizeof(float) != 0) return false;
    to->insert(to->end(), packed.begin(), packed.end());
    return true;
  }
  if (wire == WireType::kVarint) return TakeVarint(type, reader, to);
  std::string_view packed;
  if (!TakeBytes(wire, reader, &packed)) return false;
  WireReader values(packed);
  while (!values.AtEnd()) {
    if (!TakeVarint(type, &values, to)) return false;
  }
  return true;
}

// A tensor while it is read. Its values are read once its type is known.
struct TensorFields {
  std::optional<std::string_view> content;
  bool has_type = false, has_shape = false;
};

std::string ReadHead(std::string_view bytes, RequestTensor* tensor, TensorFields* fields) {
  return ReadFields(bytes, [=](std::uint32_t field, WireType type, WireReader* reader) -> std::string {
    std::string_view part;
    std::uint64_t number;
    if (field == kDtype && type == WireType::kVarint) {
      if (!reader->Varint(&number)) return "is cut off";
      const std::optional<TensorType> found = TypeOf(number);
      if (!found) {
        return "has the data type " + std::to_string(number) +
               "; allowed are DT_FLOAT, DT_INT32, DT_STRING, DT_INT64 and DT_BOOL";
      }
      tensor->type = *found;
      fields->has_type = true;
      return "";
    }
    if (field == kShape) {
      if (!TakeBytes(type, reader, &part)) return "has a shape that is cut off";
      if (std::exchange(fields->has_shape, true)) return "has two shapes";
      return ReadShape(part, &tensor->dims);
    }
    if (field == kContent) {
      if (!TakeBytes(type, reader, &part)) return "has a tensor_content that is cut off";
      if (!part.empty()) fields->content = part;
      return "";
    }
    return Skip(type, reader);
  });
}

std::string ReadValues(std::string_view bytes, RequestTensor* tensor) {
  const std::uint32_t wanted = FieldOf(tensor->type);
  return ReadFields(bytes, [=](std::uint32_t field, WireType type, WireReader* reader) -> std::string {
    if (field != wanted) return Skip(type, reader);
    if (tensor->type == TensorType::kString) {
      std::string_view text;
      if (!TakeBytes(type, reader, &text)) return "has a value that is cut off";
      tensor->strings.push_back(text);
      return "";
    }
    return TakeNumbers(tensor->type, type, reader, &tensor->decoded) ? "" : "has a value that is none of its type";
  });
}

std::string OtherSize(std::int64_t values, std::int64_t elements) {
  return "has " + std::to_string(values) + " values where its shape has " + std::to_string(elements);
}

// The last value stands for those that are left out, as everywhere in TensorFlow; of none at all zeros do. `left`: for
// how many more it may.
std::string Repeat(std::int64_t values, std::int64_t elements, std::int64_t* left, RequestTensor* tensor) {
  if (values > elements || elements - values > *left) return OtherSize(values, elements);
  *left -= elements - values;
  if (tensor->type == TensorType::kString) {
    tensor->strings.resize(static_cast<std::size_t>(elements),
                           values > 0 ? tensor->strings.back() : std::string_view());
    return "";
  }
  const std::size_t size = SizeOf(tensor->type);
  std::vector<char> last(size, 0);
  if (values > 0)
    std::copy(tensor->decoded.end() - static_cast<std::ptrdiff_t>(size), tensor->decoded.end(), last.begin());
  for (std::int64_t i = values; i < elements; ++i)
    tensor->decoded.insert(tensor->decoded.end(), last.begin(), last.end());
  tensor->numbers = {tensor->decoded.data(), tensor->decoded.size()};
  return "";
}

std::string ReadTensor(std::string_view bytes, std::int64_t* left, RequestTensor* tensor) {
  TensorFields fields;
  if (std::string wrong = ReadHead(bytes, tensor, &fields); !wrong.empty()) return wrong;
  if (!fields.has_type) return "has no data type";
  const std::optional<std::int64_t> elements = ElementsOf(tensor->dims);
  if (!elements) return "has a shape that no tensor has";
  if (fields.content) {
    const std::size_t size = SizeOf(tensor->type);
    if (size == 0) return "is of strings, which tensor_content cannot hold";
    const auto values = static_cast<std::int64_t>(fields.content->size() / size);
    if (fields.content->size() % size != 0 || values != *elements) return OtherSize(values, *elements);
    tensor->numbers = *fields.content;
    return "";
  }
  // A string takes two bytes at least, so that what is reserved is no more than there are bytes for.
  if (tensor->type == TensorType::kString)
    tensor->strings.reserve(std::min(static_cast<std::size_t>(*elements), bytes.size() / 2));
  if (std::string wrong = ReadValues(bytes, tensor); !wrong.empty()) return wrong;
  const std::size_t values =
      tensor->type == TensorType::kString ? tensor->strings.size() : tensor->decoded.size() / SizeOf(tensor->type);
  return Repeat(static_cast<std::int64_t>(values), *elements, left, tensor);
}

std::string ReadInput(std::string_view bytes, std::int64_t* left, std::vector<RequestTensor>* inputs) {
  if (inputs->size() == kMostInputs) return "has more than " + std::to_string(kMostInputs) + " inputs";
  RequestTensor tensor;
  std::string_view proto;
  std::string wrong = ReadFields(bytes, [&](std::uint32_t field, WireType type, WireReader* reader) -> std::string {
    if (field == 1) return TakeBytes(type, reader, &tensor.name) ? "" : "has an input without a name";
    if (field == 2) return TakeBytes(type, reader, &proto) ? "" : "has an input that is cut off";
    return Skip(type, reader);
  });
  if (!wrong.empty()) return wrong;
  for (const RequestTensor& other : *inputs) {
    if (other.name == tensor.name) return "has the input " + Quoted(tensor.name) + " twice";
  }
  wrong = ReadTensor(proto, left, &tensor);
  if (!wrong.empty()) return "has an input " + Quoted(tensor.name) + " that " + wrong;
  inputs->push_back(std::move(tensor));
  return "";
}

std::string ReadVersion(std::string_view bytes, std::int64_t* version) {
  return ReadDim(bytes, version);  // as there: a message of one number
}

std::string ReadModelSpec(std::string_view bytes, PredictRequest* request) {
  return ReadFields(bytes, [request](std::uint32_t field, WireType type, WireReader* reader) -> std::string {
    std::string_view part;
    if (field > 4) return Skip(type, reader);
    if (!TakeBytes(type, reader, &part)) return "has a model_spec that is cut off";
    if (field == 1) request->model = part;
    if (field == 2) return ReadVersion(part, &request->version.emplace());
    if (field == 3) request->signature = part;
    return field == 4 && !part.empty() ? "names a version_label; versions have numbers alone here" : "";
  });
}

}  // namespace

std::string_view NameOf(TensorType type) {
  switch (type) {
    case TensorType::kFloat:
      return "DT_FLOAT";
    case TensorType::kInt32:
      return "DT_INT32";
    case TensorType::kString:
      return "DT_STRING";
    case TensorType::kInt64:
      return "DT_INT64";
    case TensorType::kBool:
      return "DT_BOOL";
  }
  return "";
}

std::size_t SizeOf(TensorType type) {
  switch (type) {
    case TensorType::kFloat:
    case TensorType::kInt32:
      return 4;
    case TensorType::kInt64:
      return 8;
    case TensorType::kBool:
      return 1;
    case TensorType::kString:
      break;
  }
  return 0;
}

ParsedPredictRequest ParsePredictRequest(std::string_view bytes) {
  ParsedPredictRequest parsed;
  PredictRequest& request = parsed.request;
  std::int64_t left = kMostRepeated;
  parsed.wrong = ReadFields(bytes, [&](std::uint32_t field, WireType type, WireReader* reader) -> std::string {
    std::string_view part;
    if (field > 3) return Skip(type, reader);
    if (!TakeBytes(type, reader, &part)) return "is cut off";
    if (field == 1) return ReadModelSpec(part, &request);
    if (field == 2) return ReadInput(part, &left, &request.inputs);
    request.output_filter.push_back(part);
    return "";
  });
  if (!parsed.wrong.empty()) parsed.request = {};
  return parsed;
}

}  // namespace afo
