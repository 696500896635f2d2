// Batches of Arrow's C data interface, with each buffer on the heap and of its size, so that AddressSanitizer sees who
// reads behind its end.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afo/core/arrow_abi.h"

namespace afo::testing {

// An array and its schema. What a test changes of `schema` and `array` counts.
struct ArrowNode {
  ArrowSchema schema{};
  ArrowArray array{};
  std::string format, name;
  std::vector<std::unique_ptr<char[]>> buffers;
  std::vector<const void*> pointers;
  std::vector<std::unique_ptr<ArrowNode>> children;
  std::unique_ptr<ArrowNode> dictionary;
  std::vector<ArrowSchema*> schemas;
  std::vector<ArrowArray*> arrays;

  void AddBuffer(const void* bytes, std::size_t size) {
    buffers.push_back(bytes == nullptr ? nullptr : std::make_unique<char[]>(size));
    if (size > 0 && bytes != nullptr) std::memcpy(buffers.back().get(), bytes, size);
  }

  // Of the flags of its values: 1, there.
  void AddValidity(const std::vector<int>& there) {
    std::vector<char> bits((there.size() + 7) / 8);
    for (std::size_t i = 0; i < there.size(); ++i) bits[i / 8] = static_cast<char>(bits[i / 8] | there[i] << i % 8);
    AddBuffer(there.empty() ? nullptr : bits.data(), bits.size());
    array.null_count = there.empty() ? 0 : -1;
  }

  // Points the structs to what they have.
  void Seal() {
    for (const auto& buffer : buffers) pointers.push_back(buffer.get());
    for (const auto& child : children) {
      schemas.push_back(&child->schema);
      arrays.push_back(&child->array);
    }
    schema.format = format.c_str();
    schema.name = name.c_str();
    schema.n_children = array.n_children = static_cast<std::int64_t>(children.size());
    schema.children = schemas.data();
    array.children = arrays.data();
    // What they have, the node has.
    schema.release = [](ArrowSchema* released) { released->release = nullptr; };
    array.release = [](ArrowArray* released) { released->release = nullptr; };
    array.n_buffers = static_cast<std::int64_t>(pointers.size());
    array.buffers = pointers.data();
    if (dictionary == nullptr) return;
    schema.dictionary = &dictionary->schema;
    array.dictionary = &dictionary->array;
  }
};

using Node = std::unique_ptr<ArrowNode>;

inline Node NewNode(std::string name, std::string format, std::size_t length, const std::vector<int>& there) {
  auto node = std::make_unique<ArrowNode>();
  node->name = std::move(name);
  node->format = std::move(format);
  node->array.length = static_cast<std::int64_t>(length);
  node->AddValidity(there);
  return node;
}

// `there`: which values are; empty: all.
template <typename Number>
Node Numbers(std::string name, std::string format, const std::vector<Number>& values,
             const std::vector<int>& there = {}) {
  Node node = NewNode(std::move(name), std::move(format), values.size(), there);
  const Number none{};
  node->AddBuffer(values.empty() ? &none : values.data(), values.size() * sizeof(Number));
  node->Seal();
  return node;
}

inline Node Bools(std::string name, const std::vector<int>& values, const std::vector<int>& there = {}) {
  Node node = NewNode(std::move(name), "b", values.size(), there);
  node->AddValidity(values);
  node->array.null_count = there.empty() ? 0 : -1;
  node->Seal();
  return node;
}

// `Offset`: of 32 or 64 bits, as the format has it.
template <typename Offset = std::int32_t>
Node Texts(std::string name, std::string format, const std::vector<std::string>& values,
           const std::vector<int>& there = {}) {
  Node node = NewNode(std::move(name), std::move(format), values.size(), there);
  std::vector<Offset> offsets{0};
  std::string all;
  for (const std::string& value : values) {
    all += value;
    offsets.push_back(static_cast<Offset>(all.size()));
  }
  node->AddBuffer(offsets.data(), offsets.size() * sizeof(Offset));
  node->AddBuffer(all.data(), all.size());
  node->Seal();
  return node;
}

template <typename Offset = std::int32_t>
Node Lists(std::string name, const std::vector<Offset>& offsets, Node values, const std::vector<int>& there = {}) {
  Node node = NewNode(std::move(name), sizeof(Offset) == 4 ? "+l" : "+L", offsets.size() - 1, there);
  node->AddBuffer(offsets.data(), offsets.size() * sizeof(Offset));
  node->children.push_back(std::move(values));
  node->Seal();
  return node;
}

inline Node FixedLists(std::string name, int size, std::size_t length, Node values,
                       const std::vector<int>& there = {}) {
  Node node = NewNode(std::move(name), "+w:" + std::to_string(size), length, there);
  node->children.push_back(std::move(values));
  node->Seal();
  return node;
}

inline Node WithDictionary(Node indices, Node values) {
  indices->dictionary = std::move(values);
  indices->schema.dictionary = &indices->dictionary->schema;
  indices->array.dictionary = &indices->dictionary->array;
  return indices;
}

template <typename... Nodes>
Node BatchOf(std::size_t rows, Nodes... columns) {
  Node node = NewNode("", "+s", rows, {});
  (node->children.push_back(std::move(columns)), ...);
  node->Seal();
  return node;
}

}  // namespace afo::testing
