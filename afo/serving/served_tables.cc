#include "afo/serving/served_tables.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/tensor.h"

namespace afo {
namespace {

// How many models use a file.
struct Users {
  std::mutex mutex;
  std::map<std::int64_t, int> of_file;
};

// Never destroyed: models may outlive what a process destroys at its end.
Users& TheUsers() {
  static Users* users = new Users;
  return *users;
}

// Names of the graph's tables.
std::vector<std::string> TablesOf(const tensorflow::GraphDef& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.node()) {
    if (node.op() == "AfoServedTable") names.push_back(node.name());
  }
  return names;
}

std::string AskerOf(const std::string& table) { return absl::StrCat("afo_parts_of/", table); }

}  // namespace

absl::StatusOr<std::unique_ptr<ServedTables>> ServedTables::Find(tensorflow::Session* session,
                                                                 const tensorflow::GraphDef& graph) {
  const std::vector<std::string> tables = TablesOf(graph);
  if (tables.empty()) return nullptr;
  tensorflow::GraphDef asking;
  *asking.mutable_versions() = graph.versions();
  std::vector<std::string> wanted;
  for (const std::string& table : tables) {
    tensorflow::NodeDef& node = *asking.add_node();
    node.set_name(AskerOf(table));
    node.set_op("AfoServedTableParts");
    node.add_input(table);
    for (const char* output : {":0", ":1"}) wanted.push_back(AskerOf(table) + output);
  }
  if (absl::Status status = session->Extend(asking); !status.ok()) return status;
  std::vector<tensorflow::Tensor> found;
  if (absl::Status status = session->Run({}, wanted, {}, &found); !status.ok()) return status;
  std::map<std::int64_t, std::int64_t> bytes;
  std::int64_t layers = 0;
  for (std::size_t i = 0; i < found.size(); i += 2) {
    const auto identities = found[i].vec<std::int64_t>(), sizes = found[i + 1].vec<std::int64_t>();
    for (std::int64_t part = 0; part < identities.size(); ++part) bytes.emplace(identities(part), sizes(part));
    layers = std::max<std::int64_t>(layers, identities.size());
  }
  return std::unique_ptr<ServedTables>(new ServedTables(std::move(bytes), layers));
}

ServedTables::ServedTables(std::map<std::int64_t, std::int64_t> bytes, std::int64_t layers)
    : bytes_(std::move(bytes)), layers_(layers) {
  Users& users = TheUsers();
  std::lock_guard lock(users.mutex);
  for (const auto& file : bytes_) ++users.of_file[file.first];
}

ServedTables::~ServedTables() {
  Users& users = TheUsers();
  std::lock_guard lock(users.mutex);
  for (const auto& file : bytes_) {
    if (--users.of_file[file.first] == 0) users.of_file.erase(file.first);
  }
}

std::int64_t ServedTables::bytes() const {
  std::int64_t all = 0;
  for (const auto& file : bytes_) all += file.second;
  return all;
}

std::int64_t ServedTables::shared_bytes() const {
  Users& users = TheUsers();
  std::lock_guard lock(users.mutex);
  std::int64_t shared = 0;
  for (const auto& [file, bytes] : bytes_) shared += users.of_file[file] > 1 ? bytes : 0;
  return shared;
}

}  // namespace afo
