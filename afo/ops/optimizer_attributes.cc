#include "afo/ops/optimizer_attributes.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace afo {

absl::Status OptionOutOfRange(absl::string_view whose, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("an option of ", whose, " is out of its range: ", what));
}

absl::StatusOr<OptimizerOptions> OptimizerOf(tensorflow::OpKernelConstruction* context, absl::string_view whose) {
  std::string rule;
  int slots;
  std::vector<std::string> names;
  std::vector<float> values;
  TF_RETURN_IF_ERROR(context->GetAttr("rule", &rule));
  TF_RETURN_IF_ERROR(context->GetAttr("slots", &slots));
  TF_RETURN_IF_ERROR(context->GetAttr("option_names", &names));
  TF_RETURN_IF_ERROR(context->GetAttr("options", &values));
  const std::optional<Rule> found = RuleOf(rule);
  if (!found.has_value()) return OptionOutOfRange(whose, absl::StrCat("rule ", rule));
  if (slots != SlotsOf(*found)) return OptionOutOfRange(whose, absl::StrCat("slots of ", rule));
  if (names.size() != values.size()) return OptionOutOfRange(whose, "a value for each option");
  OptimizerOptions options;
  options.rule = *found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!options.Set(names[i], values[i])) return OptionOutOfRange(whose, names[i]);
  }
  return options;
}

}  // namespace afo
