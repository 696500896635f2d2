#include "afo/core/joined_requests.h"

#include <algorithm>
#include <utility>

namespace afo {
namespace {

// Rows of a request, or what is wrong with it beside the first one.
std::string RowsOf(const PredictRequest& request, std::int64_t* rows) {
  *rows = 0;
  for (const RequestTensor& tensor : request.inputs) {
    const std::string name = "input `" + std::string(tensor.name) + "`";
    if (tensor.dims.empty()) return name + " is a scalar, and cannot be one of a batch";
    if (&tensor == request.inputs.data()) *rows = tensor.dims[0];
    if (tensor.dims[0] != *rows) return name + " has another number of rows than the inputs before it";
  }
  return "";
}

const RequestTensor* Find(const PredictRequest& request, const RequestTensor& like) {
  for (const RequestTensor& tensor : request.inputs) {
    if (tensor.name == like.name) return &tensor;
  }
  return nullptr;
}

// Puts a tensor of request `from` behind what `to` has.
std::string Append(const PredictRequest& from, RequestTensor* to) {
  const RequestTensor* tensor = Find(from, *to);
  if (tensor == nullptr) return "lacks the input `" + std::string(to->name) + "`, which others of its batch have";
  if (tensor->type != to->type ||
      !std::equal(tensor->dims.begin() + 1, tensor->dims.end(), to->dims.begin() + 1, to->dims.end())) {
    return "has another type or shape of `" + std::string(to->name) + "` than others of its batch";
  }
  to->dims[0] += tensor->dims[0];
  to->strings.insert(to->strings.end(), tensor->strings.begin(), tensor->strings.end());
  to->decoded.insert(to->decoded.end(), tensor->numbers.begin(), tensor->numbers.end());
  return "";
}

}  // namespace

JoinedRequests JoinRequests(std::span<const PredictRequest> requests) {
  JoinedRequests joined;
  const auto wrong = [](std::string words, std::size_t number) {
    return JoinedRequests{{}, {}, std::move(words), number};
  };
  if (requests.empty()) return joined;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (std::string words = RowsOf(requests[i], &joined.rows.emplace_back()); !words.empty()) return wrong(words, i);
    if (requests[i].inputs.size() != requests[0].inputs.size()) {
      return wrong("has another number of inputs than others of its batch", i);
    }
  }
  for (const RequestTensor& first : requests[0].inputs) {
    RequestTensor& tensor = joined.inputs.emplace_back();
    tensor.name = first.name;
    tensor.type = first.type;
    tensor.dims = first.dims;
    tensor.dims[0] = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (std::string words = Append(requests[i], &tensor); !words.empty()) return wrong(words, i);
    }
    tensor.numbers = {tensor.decoded.data(), tensor.decoded.size()};
  }
  return joined;
}

}  // namespace afo
