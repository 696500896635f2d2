#include "afo/serving/processor_config.h"

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace afo {
namespace {

using Json = nlohmann::json;

// Keys of DeepRec that have one value here, and what it is.
struct FixedKey {
  std::string_view name, value;
};
constexpr FixedKey kFixed[] = {
    {"serialize_protocol", "protobuf"}, {"model_store_type", "local"}, {"feature_store_type", "local"}};
constexpr std::string_view kAllowed =
    "savedmodel_dir, signature_name, enable_inline_execute, inter_op_parallelism_threads, "
    "intra_op_parallelism_threads, session_num, select_session_policy, cpusets, "
    "serialize_protocol, model_store_type and feature_store_type";

absl::Status Wrong(std::string_view key, const Json& value, std::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("model_config: $.", key, " is ", value.dump(), "; allowed: ", allowed));
}

absl::Status SetText(std::string_view key, const Json& value, std::string* to) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    return Wrong(key, value, "a text that is not empty");
  *to = value.get<std::string>();
  return absl::OkStatus();
}

absl::Status SetBool(std::string_view key, const Json& value, bool* to) {
  if (!value.is_boolean()) return Wrong(key, value, "true or false");
  *to = value.get<bool>();
  return absl::OkStatus();
}

absl::Status SetThreads(std::string_view key, const Json& value, int* to) {
  const std::string allowed = absl::StrCat("0 (as many as there are cores) to ", kMostThreads);
  if (!value.is_number_integer() || value < 0 || value > kMostThreads) return Wrong(key, value, allowed);
  *to = value.get<int>();
  return absl::OkStatus();
}

absl::Status SetSessions(std::string_view key, const Json& value, int* to) {
  if (!value.is_number_integer() || value < 1 || value > kMostSessions) {
    return Wrong(key, value, absl::StrCat("1 to ", kMostSessions));
  }
  *to = value.get<int>();
  return absl::OkStatus();
}

absl::Status SetPolicy(std::string_view key, const Json& value, bool* by_thread) {
  if (value != "RR" && value != "MOD")
    return Wrong(key, value, "\"RR\" (in turn) or \"MOD\" (by the thread that asks)");
  *by_thread = value == "MOD";
  return absl::OkStatus();
}

// Adds the processors of `2` or `4-6`; false where it is neither.
bool AddProcessors(std::string_view range, std::vector<int>* to) {
  const std::vector<std::string> ends = absl::StrSplit(absl::string_view(range.data(), range.size()), '-');
  int first = 0, last = 0;
  if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last)) return false;
  if (first < 0 || last < first || last >= kMostProcessors) return false;
  for (int processor = first; processor <= last; ++processor) to->push_back(processor);
  return true;
}

absl::Status SetProcessors(std::string_view key, const Json& value, ProcessorConfig* to) {
  constexpr char kForm[] = "\"auto\", or the processors of each session, as in \"0-3;4,6\"";
  if (!value.is_string()) return Wrong(key, value, kForm);
  to->cpusets_are_auto = value == "auto";
  if (to->cpusets_are_auto) return absl::OkStatus();
  const std::vector<std::string> sets = absl::StrSplit(value.get_ref<const std::string&>(), ';');
  for (const std::string& set : sets) {
    std::vector<int>& processors = to->cpusets.emplace_back();
    const std::vector<std::string> ranges = absl::StrSplit(set, ',');
    for (const std::string& range : ranges) {
      if (!AddProcessors(range, &processors)) return Wrong(key, value, kForm);
    }
  }
  return absl::OkStatus();
}

absl::Status Set(std::string_view key, const Json& value, ProcessorConfig* to) {
  if (key == "savedmodel_dir") return SetText(key, value, &to->savedmodel_dir);
  if (key == "signature_name") return SetText(key, value, &to->signature_name);
  if (key == "enable_inline_execute") return SetBool(key, value, &to->enable_inline_execute);
  if (key == "inter_op_parallelism_threads") return SetThreads(key, value, &to->inter_op_parallelism_threads);
  if (key == "intra_op_parallelism_threads") return SetThreads(key, value, &to->intra_op_parallelism_threads);
  if (key == "session_num") return SetSessions(key, value, &to->session_num);
  if (key == "select_session_policy") return SetPolicy(key, value, &to->select_session_by_thread);
  if (key == "cpusets") return SetProcessors(key, value, to);
  for (const FixedKey& fixed : kFixed) {
    if (key != fixed.name) continue;
    return value == fixed.value ? absl::OkStatus() : Wrong(key, value, absl::StrCat("\"", fixed.value, "\""));
  }
  return absl::InvalidArgumentError(absl::StrCat("model_config: $.", key, " is no key; keys are ", kAllowed));
}

}  // namespace

absl::StatusOr<ProcessorConfig> ParseProcessorConfig(const char* json) {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return absl::InvalidArgumentError("model_config is no JSON");
  if (!parsed.is_object()) return absl::InvalidArgumentError("model_config is no JSON object");
  ProcessorConfig config;
  for (const auto& [key, value] : parsed.items()) {
    if (absl::Status status = Set(key, value, &config); !status.ok()) return status;
  }
  if (config.savedmodel_dir.empty()) {
    return absl::InvalidArgumentError("model_config: $.savedmodel_dir is missing: the directory of the SavedModel");
  }
  if (!config.cpusets.empty() && config.cpusets.size() != static_cast<std::size_t>(config.session_num)) {
    return absl::InvalidArgumentError(absl::StrCat("model_config: $.cpusets has ", config.cpusets.size(),
                                                   " sets of processors and $.session_num is ", config.session_num,
                                                   "; there is one for each session"));
  }
  return config;
}

}  // namespace afo
