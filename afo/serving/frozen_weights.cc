#include "afo/serving/frozen_weights.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace afo {
namespace {

using tensorflow::FunctionDef;
using tensorflow::NodeDef;
using Signatures = tensorflow::protobuf::Map<std::string, tensorflow::SignatureDef>;
// Positions of arguments, and the types of the weights that they are.
using Frozen = std::map<int, tensorflow::DataType>;

// The graph's text has each several times.
constexpr std::int64_t kMostBytesOfOne = 8 << 20, kMostBytes = 64 << 20;
constexpr char kPrefix[] = "afo_frozen/";

bool IsCall(const NodeDef& node) { return node.op() == "PartitionedCall" || node.op() == "StatefulPartitionedCall"; }

// Bytes of a variable; -1 where only its value tells.
std::int64_t BytesOf(const NodeDef& variable) {
  tensorflow::PartialTensorShape shape;
  const auto found = variable.attr().find("shape"), type = variable.attr().find("dtype");
  if (found == variable.attr().end() || type == variable.attr().end() ||
      !tensorflow::PartialTensorShape::BuildPartialTensorShape(found->second.shape(), &shape).ok() ||
      !shape.IsFullyDefined()) {
    return -1;
  }
  return shape.num_elements() * tensorflow::DataTypeSize(type->second.type());
}

// Functions of a graph with constants for some of their arguments.
class FrozenFunctions {
 public:
  explicit FrozenFunctions(const tensorflow::FunctionDefLibrary& library) {
    for (const FunctionDef& function : library.function()) functions_[function.signature().name()] = &function;
  }

  // Whether nothing but its value is asked of this argument.
  bool OnlyReads(const std::string& name, int argument) const {
    const auto found = functions_.find(name);
    if (found == functions_.end() || argument >= found->second->signature().input_arg_size()) return false;
    const std::string& own = found->second->signature().input_arg(argument).name();
    for (const auto& result : found->second->ret()) {
      if (result.second == own) return false;
    }
    for (const NodeDef& node : found->second->node_def()) {
      for (int i = 0; i < node.input_size(); ++i) {
        if (node.input(i) != own) continue;
        if (node.op() != "ReadVariableOp" && !(IsCall(node) && OnlyReads(node.attr().at("f").func().name(), i)))
          return false;
      }
    }
    return true;
  }

  // The name of `name` with these arguments frozen, which `made` gets.
  std::string Freeze(const std::string& name, const Frozen& arguments, tensorflow::FunctionDefLibrary* made) {
    std::vector<int> places;
    for (const auto& argument : arguments) places.push_back(argument.first);
    const std::string frozen_name = absl::StrCat(name, "_frozen_", absl::StrJoin(places, "_"));
    if (!made_.insert(frozen_name).second) return frozen_name;
    FunctionDef function = *functions_.at(name);
    function.mutable_signature()->set_name(frozen_name);
    std::map<std::string, tensorflow::DataType> types;
    for (const auto& [place, type] : arguments) {
      auto* argument = function.mutable_signature()->mutable_input_arg(place);
      argument->clear_handle_data();
      argument->set_type(type);
      function.mutable_arg_attr()->erase(place);
      types[argument->name()] = type;
    }
    std::set<std::string> reads;
    for (NodeDef& node : *function.mutable_node_def()) {
      if (node.op() == "ReadVariableOp" && types.contains(node.input(0))) {
        SetIdentity(&node, types[node.input(0)]);
        reads.insert(absl::StrCat(node.name(), ":value:0"));
      } else if (IsCall(node)) {
        FreezeCall(&node, types, made);
      }
    }
    RenameReads(reads, &function);
    *made->add_function() = std::move(function);
    return frozen_name;
  }

  // Makes of a call one of the function whose arguments of these names are frozen.
  void FreezeCall(NodeDef* node, const std::map<std::string, tensorflow::DataType>& types,
                  tensorflow::FunctionDefLibrary* made) {
    Frozen arguments;
    for (int i = 0; i < node->input_size(); ++i) {
      if (const auto found = types.find(node->input(i)); found != types.end()) arguments[i] = found->second;
    }
    if (arguments.empty()) return;
    auto& attributes = *node->mutable_attr();
    for (const auto& [place, type] : arguments) attributes["Tin"].mutable_list()->set_type(place, type);
    auto* function = attributes["f"].mutable_func();
    function->set_name(Freeze(function->name(), arguments, made));
    attributes.erase("_read_only_resource_inputs");
  }

 private:
  static void SetIdentity(NodeDef* node, tensorflow::DataType type) {
    node->set_op("Identity");
    node->mutable_attr()->clear();
    (*node->mutable_attr())["T"].set_type(type);
  }

  // Their output has another name than that of what they were.
  static void RenameReads(const std::set<std::string>& reads, FunctionDef* function) {
    const auto rename = [&](std::string* tensor) {
      if (reads.contains(*tensor)) *tensor = absl::StrCat(tensor->substr(0, tensor->find(':')), ":output:0");
    };
    for (NodeDef& node : *function->mutable_node_def()) {
      for (std::string& input : *node.mutable_input()) rename(&input);
    }
    for (auto& result : *function->mutable_ret()) rename(&result.second);
  }

  std::map<std::string, const FunctionDef*> functions_;
  std::set<std::string> made_;
};

using Nodes = std::map<std::string, const NodeDef*>;

std::string NodeOf(const std::string& tensor) { return tensor.substr(0, tensor.find(':')); }

// The calls that are a model's signatures, by name.
Nodes CallsOf(const Signatures& signatures, const Nodes& nodes) {
  Nodes calls;
  for (const auto& signature : signatures) {
    for (const auto& output : signature.second.outputs()) {
      const auto found = nodes.find(NodeOf(output.second.name()));
      if (found != nodes.end() && IsCall(*found->second)) calls.insert(*found);
    }
  }
  return calls;
}

// The variables that become constants, and the node that reads each.
std::map<std::string, std::string> WeightsOf(const tensorflow::GraphDef& graph, const Nodes& nodes, const Nodes& calls,
                                             const FrozenFunctions& functions) {
  std::map<std::string, std::string> reads;
  for (const NodeDef& node : graph.node()) {
    if (node.op() == "ReadVariableOp") reads[node.input(0)] = node.name();
  }
  std::map<std::string, std::int64_t> bytes_of;
  std::set<std::string> others;
  for (const auto& call : calls) {
    const NodeDef& node = *call.second;
    for (int i = 0; i < node.input_size(); ++i) {
      const auto input = nodes.find(node.input(i));
      if (input == nodes.end() || input->second->op() != "VarHandleOp" || !reads.contains(input->first)) continue;
      const std::int64_t bytes = BytesOf(*input->second);
      if (bytes < 0 || bytes > kMostBytesOfOne || !functions.OnlyReads(node.attr().at("f").func().name(), i)) {
        others.insert(input->first);
      } else {
        bytes_of[input->first] = bytes;
      }
    }
  }
  std::map<std::string, std::string> weights;
  std::int64_t all = 0;
  for (const auto& [variable, bytes] : bytes_of) {
    if (others.contains(variable) || all + bytes > kMostBytes) continue;
    all += bytes;
    weights[variable] = reads[variable];
  }
  return weights;
}

// Adds a constant for each variable, and returns their types.
absl::StatusOr<std::map<std::string, tensorflow::DataType>> AddConstants(
    tensorflow::Session* session, const std::map<std::string, std::string>& weights, tensorflow::GraphDef* graph) {
  std::vector<std::string> reads;
  for (const auto& weight : weights) reads.push_back(weight.second + ":0");
  std::vector<tensorflow::Tensor> values;
  if (absl::Status status = session->Run({}, reads, {}, &values); !status.ok()) return status;
  std::map<std::string, tensorflow::DataType> types;
  auto value = values.begin();
  for (const auto& weight : weights) {
    NodeDef& constant = *graph->add_node();
    constant.set_name(kPrefix + weight.first);
    constant.set_op("Const");
    (*constant.mutable_attr())["dtype"].set_type(value->dtype());
    value->AsProtoTensorContent((*constant.mutable_attr())["value"].mutable_tensor());
    types[weight.first] = value++->dtype();
  }
  return types;
}

}  // namespace

absl::StatusOr<Signatures> FreezeWeights(tensorflow::Session* session, const tensorflow::MetaGraphDef& model) {
  const tensorflow::GraphDef& graph = model.graph_def();
  Signatures signatures = model.signature_def();
  FrozenFunctions functions(graph.library());
  Nodes nodes;
  for (const NodeDef& node : graph.node()) nodes[node.name()] = &node;
  const Nodes calls = CallsOf(signatures, nodes);
  const auto weights = WeightsOf(graph, nodes, calls, functions);
  if (weights.empty()) return signatures;
  tensorflow::GraphDef added;
  *added.mutable_versions() = graph.versions();
  const auto types = AddConstants(session, weights, &added);
  if (!types.ok()) return types.status();
  for (const auto& call : calls) {
    NodeDef& node = *added.add_node() = *call.second;
    node.set_name(kPrefix + call.first);
    functions.FreezeCall(&node, *types, added.mutable_library());
    for (std::string& input : *node.mutable_input()) {
      if (types->contains(input)) input = kPrefix + input;
    }
  }
  if (absl::Status status = session->Extend(added); !status.ok()) return status;
  for (auto& signature : signatures) {
    for (auto& output : *signature.second.mutable_outputs()) {
      const std::string& tensor = output.second.name();
      if (calls.contains(NodeOf(tensor))) output.second.set_name(kPrefix + tensor);
    }
  }
  return signatures;
}

}  // namespace afo
