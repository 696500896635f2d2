#include "optimizer.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace afo {

bool OptimizerOptions::operator==(const OptimizerOptions& other) const {
  const auto all = [](const OptimizerOptions& o) {
    return std::tie(o.rule, o.learning_rate, o.initial_accumulator, o.epsilon, o.beta_1, o.beta_2, o.l1, o.l2, o.l21,
                    o.momentum, o.nesterov, o.weight_decay, o.decay_rate, o.decay_steps, o.rho, o.forgets_first,
                    o.clip_value, o.clip_norm);
  };
  return all(*this) == all(other);
}

std::int32_t SlotsOf(Rule rule) {
  switch (rule) {
    case Rule::kSgd:
      return 0;
    case Rule::kAdagrad:
    case Rule::kAdagradDecay:
    case Rule::kMomentum:
    case Rule::kRmsprop:
      return 1;
    case Rule::kAdam:
    case Rule::kAdamW:
    case Rule::kFtrl:
    case Rule::kGroupFtrl:
      return 2;
  }
  return 0;
}

void FillSlots(const OptimizerOptions& options, float* row, std::int32_t dim) {
  float* slots = row + dim;
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
      for (std::int32_t i = 0; i < dim; ++i) slots[dim + i] = -row[i] * unit;
      break;
    }
    default:
      break;
  }
}

Update UpdateOf(const OptimizerOptions& options, float schedule, std::uint64_t powers) {
  Update update;
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
