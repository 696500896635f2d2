#include "afo/core/arrow_answer.h"

#include <utility>

namespace afo {
namespace {

// What a struct refers to, and its `private_data`. Its children belong to it, but who has it may move them elsewhere:
// so each has a node of its own.
template <typename Struct>
struct Node {
  std::string format, name;            // of a schema
  std::vector<const void*> buffers;    // of an array
  std::shared_ptr<const void> values;  // of an array
  std::vector<Struct> children;
  std::vector<Struct*> pointers;

  explicit Node(std::size_t count) : children(count), pointers(count) {
    for (std::size_t i = 0; i < count; ++i) pointers[i] = &children[i];
  }
  Node(const Node&) = delete;
  ~Node() {
    for (Struct& child : children) {
      if (child.release != nullptr) child.release(&child);
    }
  }
};

template <typename Struct>
void Release(Struct* released) {
  delete static_cast<Node<Struct>*>(released->private_data);
  released->release = nullptr;
}

using SchemaNode = std::unique_ptr<Node<ArrowSchema>>;
using ArrayNode = std::unique_ptr<Node<ArrowArray>>;

ArrowSchema SchemaOf(SchemaNode node) {
  ArrowSchema schema{};
  schema.format = node->format.c_str();
  schema.name = node->name.c_str();
  schema.n_children = static_cast<std::int64_t>(node->children.size());
  schema.children = node->pointers.data();
  schema.release = Release<ArrowSchema>;
  schema.private_data = node.release();
  return schema;
}

ArrowArray ArrayOf(ArrayNode node, std::int64_t length) {
  ArrowArray array{};
  array.length = length;
  array.n_buffers = static_cast<std::int64_t>(node->buffers.size());
  array.buffers = node->buffers.data();
  array.n_children = static_cast<std::int64_t>(node->children.size());
  array.children = node->pointers.data();
  array.release = Release<ArrowArray>;
  array.private_data = node.release();
  return array;
}

const char* FormatOf(TensorType type) {
  switch (type) {
    case TensorType::kFloat:
      return "f";
    case TensorType::kInt32:
      return "i";
    case TensorType::kInt64:
      return "l";
    case TensorType::kBool:
      return "b";
    case TensorType::kString:
      break;
  }
  return "n";
}

// Of the dimensions from `axis` on.
ArrowSchema ColumnSchema(const AnswerColumn& column, std::size_t axis) {
  const bool is_list = axis < column.dims.size();
  auto node = std::make_unique<Node<ArrowSchema>>(is_list ? 1 : 0);
  node->name = axis == 1 ? column.name : "item";
  node->format = is_list ? "+w:" + std::to_string(column.dims[axis]) : FormatOf(column.type);
  if (is_list) node->children[0] = ColumnSchema(column, axis + 1);
  return SchemaOf(std::move(node));
}

// Booleans a byte each as bits.
std::shared_ptr<const void> Packed(const void* bytes, std::int64_t count) {
  const auto packed = std::make_shared<std::vector<unsigned char>>(static_cast<std::size_t>(count / 8 + 1));
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned bit = static_cast<const unsigned char*>(bytes)[i] != 0 ? 1u << (i & 7) : 0;
    (*packed)[static_cast<std::size_t>(i >> 3)] |= static_cast<unsigned char>(bit);
  }
  return {packed, packed->data()};
}

// `length`: lists, or numbers, that the dimensions before `axis` have.
ArrowArray ColumnArray(const AnswerColumn& column, std::size_t axis, std::int64_t length) {
  const bool is_list = axis < column.dims.size();
  auto node = std::make_unique<Node<ArrowArray>>(is_list ? 1 : 0);
  node->buffers = {nullptr};  // all are there
  if (is_list) {
    node->children[0] = ColumnArray(column, axis + 1, length * column.dims[axis]);
  } else {
    node->values = column.type == TensorType::kBool ? Packed(column.numbers.get(), length) : column.numbers;
    node->buffers.push_back(node->values.get());
  }
  return ArrayOf(std::move(node), length);
}

}  // namespace

void WriteArrowAnswer(std::int64_t rows, const std::vector<AnswerColumn>& columns, ArrowSchema* schema,
                      ArrowArray* answer) {
  auto names = std::make_unique<Node<ArrowSchema>>(columns.size());
  auto values = std::make_unique<Node<ArrowArray>>(columns.size());
  names->format = "+s";
  values->buffers = {nullptr};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    names->children[i] = ColumnSchema(columns[i], 1);
    values->children[i] = ColumnArray(columns[i], 1, rows);
  }
  *schema = SchemaOf(std::move(names));
  *answer = ArrayOf(std::move(values), rows);
}

}  // namespace afo
