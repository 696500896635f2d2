// Update rules of rows. Each runs in one pass over the row, whose slots lie behind its weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace afo {

// The order of the kernels (kernels_impl.h); a rule's name and slots are in `kRuleInfos` (optimizer.cc).
enum class Rule : std::int32_t {
  kSgd = 0,
  kAdagrad = 1,
  kAdam = 2,
  kFtrl = 3,
  kMomentum = 4,
  kAdagradDecay = 5,
  kAdamW = 6,
  kGroupFtrl = 7,
  kRmsprop = 8,
};
constexpr int kRules = 9;

// Widest row, in weights: `MOST_DIM` of afo/job/section.py.
constexpr std::int32_t kMaxDim = 4096;

// Of `decay_steps`: what float32 counts one by one.
constexpr float kMaxDecaySteps = 1 << 24;

// What a table's rule is made of. A field that a rule does not name is not read.
struct OptimizerOptions {
  Rule rule = Rule::kSgd;
  float learning_rate = 0.01f;
  float initial_accumulator = 0.1f;  // adagrad, adagrad_decay, ftrl, group_ftrl
  float epsilon = 0.0f;              // beside the root (adagrad, adagrad_decay, adam, adamw), in it (rmsprop)
  float beta_1 = 0.9f;               // adam, adamw
  float beta_2 = 0.999f;             // adam, adamw
  float l1 = 0.0f;                   // ftrl, group_ftrl
  float l2 = 0.0f;                   // ftrl, group_ftrl
  float l21 = 0.0f;                  // group_ftrl
  float momentum = 0.9f;             // momentum
  bool nesterov = false;             // momentum
  float weight_decay = 0.0f;         // adamw
  float decay_rate = 1.0f;           // adagrad_decay
  std::uint32_t decay_steps = 1;     // adagrad_decay
  float rho = 0.9f;                  // rmsprop
  bool forgets_first = false;        // ftrl, group_ftrl: a row's first weights count no more once it is updated
  float clip_value = 0.0f;           // each element of a row's gradient to +- this; 0: not
  float clip_norm = 0.0f;            // a row's gradient to this length, after `clip_value`; 0: not

  bool operator==(const OptimizerOptions&) const = default;

  // Sets the option of this name, that of the field; false if there is none, or it cannot be that.
  [[nodiscard]] bool Set(std::string_view name, float value);
};

// The rule of this name, the key of the job file (afo/job/update_rules.py).
std::optional<Rule> RuleOf(std::string_view name);

// Slots behind the weights, each of the row's width.
std::int32_t SlotsOf(Rule rule);

// What the slots of a new row with these weights are.
void FillSlots(const OptimizerOptions& options, const float* weights, float* slots, std::int32_t dim);

// What one batch's update adds to the options.
struct Update {
  float rate = 0.0f;         // the learning rate with its schedule and, for Adam, its correction
  float decay = 0.0f;        // what is taken of each weight apart from its gradient (adamw)
  float gradient_scale = 1;  // what a schedule does to gradients whose old rates are in the slots (ftrl, momentum)
  std::uint64_t number = 0;  // among the updates of the table on its server
};

// `powers` counts the updates of a table on its server, this one included.
Update UpdateOf(const OptimizerOptions& options, float schedule, std::uint64_t powers);

// How the weights of a row are kept; slots are float32. Rules compute in float32.
enum class WeightType : std::int32_t { kFloat32 = 0, kBfloat16 = 1 };
constexpr int kWeightTypes = 2;

// Rows that a kernel updates at once, and of each of the `count`:
struct RowBatch {
  void* const* rows = nullptr;  // its weights, of the kernel's type
  const float* const* gradients = nullptr;
  // By how many powers of `decay_rate` its accumulator shrinks first (adagrad_decay alone); null: by none.
  const std::uint32_t* decays = nullptr;
  std::int32_t count = 0;
  std::int32_t dim = 0;       // 1 to kMaxDim
  std::int32_t slots_at = 0;  // bytes from the weights to the slots, of which one array lies behind the other
  const std::uint64_t* draws = nullptr;  // random bits, by which bfloat16 is rounded; not read of float32
};
using ApplyRows = void (*)(const OptimizerOptions& options, const Update& update, const RowBatch& batch);

}  // namespace afo
