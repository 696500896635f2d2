#include "afo/core/optimizer.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace afo {

namespace {

struct RuleInfo {
  Rule rule;
  std::string_view name;
  std::int32_t slots;
};

// In the order of `Rule`.
constexpr RuleInfo kRuleInfos[] = {
    {Rule::kSgd, "sgd", 0},
    {Rule::kAdagrad, "adagrad", 1},
    {Rule::kAdam, "adam", 2},
    {Rule::kFtrl, "ftrl", 2},
    {Rule::kMomentum, "momentum", 1},
    {Rule::kAdagradDecay, "adagrad_decay", 1},
    {Rule::kAdamW, "adamw", 2},
    {Rule::kGroupFtrl, "group_ftrl", 2},
    {Rule::kRmsprop, "rmsprop", 1},
};

constexpr bool InOrder() {
  for (int i = 0; i < kRules; ++i) {
    if (static_cast<int>(kRuleInfos[i].rule) != i) return false;
  }
  return true;
}
static_assert(std::size(kRuleInfos) == kRules && InOrder());

struct FloatOption {
  std::string_view name;
  float OptimizerOptions::*field;
};

constexpr FloatOption kFloatOptions[] = {
    {"learning_rate", &OptimizerOptions::learning_rate},
    {"initial_accumulator", &OptimizerOptions::initial_accumulator},
    {"epsilon", &OptimizerOptions::epsilon},
    {"beta_1", &OptimizerOptions::beta_1},
    {"beta_2", &OptimizerOptions::beta_2},
    {"l1", &OptimizerOptions::l1},
    {"l2", &OptimizerOptions::l2},
    {"l21", &OptimizerOptions::l21},
    {"momentum", &OptimizerOptions::momentum},
    {"weight_decay", &OptimizerOptions::weight_decay},
    {"decay_rate", &OptimizerOptions::decay_rate},
    {"rho", &OptimizerOptions::rho},
    {"clip_value", &OptimizerOptions::clip_value},
    {"clip_norm", &OptimizerOptions::clip_norm},
};

}  // namespace

bool OptimizerOptions::Set(std::string_view name, float value) {
  for (const FloatOption& option : kFloatOptions) {
    if (option.name == name) {
      this->*option.field = value;
      return true;
    }
  }
  if (name == "nesterov") {
    nesterov = value != 0;
  } else if (name == "forgets_first") {
    forgets_first = value != 0;
  } else if (name == "decay_steps" && value >= 1 && value <= kMaxDecaySteps) {
    decay_steps = static_cast<std::uint32_t>(value);
  } else {
    return false;
  }
  return true;
}

std::optional<Rule> RuleOf(std::string_view name) {
  for (const RuleInfo& info : kRuleInfos) {
    if (info.name == name) return info.rule;
  }
  return std::nullopt;
}

std::int32_t SlotsOf(Rule rule) { return kRuleInfos[static_cast<int>(rule)].slots; }

void FillSlots(const OptimizerOptions& options, const float* weights, float* slots, std::int32_t dim) {
  std::fill_n(slots, static_cast<std::size_t>(SlotsOf(options.rule)) * dim, 0.0f);
  switch (options.rule) {
    case Rule::kAdagrad:
    case Rule::kAdagradDecay:
      std::fill_n(slots, dim, options.initial_accumulator);
      break;
    case Rule::kFtrl:
    case Rule::kGroupFtrl: {
      // `linear` is what makes the rule give back the first weights for a gradient of zero (exact without l1, l21).
      const float unit = std::sqrt(options.initial_accumulator) / options.learning_rate + 2 * options.l2;
      std::fill_n(slots, dim, options.initial_accumulator);
      if (options.forgets_first) break;
      for (std::int32_t i = 0; i < dim; ++i) slots[dim + i] = -weights[i] * unit;
      break;
    }
    default:
      break;
  }
}

Update UpdateOf(const OptimizerOptions& options, float schedule, std::uint64_t powers) {
  Update update;
  update.number = powers;
  update.rate = options.learning_rate * schedule;
  update.decay = update.rate * options.weight_decay;
  if (options.rule == Rule::kAdam || options.rule == Rule::kAdamW) {
    const double first = 1 - std::pow(static_cast<double>(options.beta_1), static_cast<double>(powers));
    const double second = 1 - std::pow(static_cast<double>(options.beta_2), static_cast<double>(powers));
    update.rate = static_cast<float>(update.rate * std::sqrt(second) / first);
  }
  if (options.rule == Rule::kFtrl || options.rule == Rule::kGroupFtrl || options.rule == Rule::kMomentum) {
    update.rate = options.learning_rate;
    update.gradient_scale = schedule;
  }
  return update;
}

}  // namespace afo
