#include "afo/core/optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "afo/core/kernels.h"
#include "tests/core/support.h"

namespace afo {
namespace {

using testing::Random;

constexpr Rule kAll[] = {Rule::kSgd,          Rule::kAdagrad, Rule::kAdam,      Rule::kFtrl,   Rule::kMomentum,
                         Rule::kAdagradDecay, Rule::kAdamW,   Rule::kGroupFtrl, Rule::kRmsprop};
static_assert(std::size(kAll) == kRules);
constexpr std::int32_t kDims[] = {1, 3, 8, 16, 17, 32, 64, 100};

// The rules in double precision, an element at a time, from their formulas and not from the kernels.
struct Reference {
  OptimizerOptions o;
  std::vector<double> w, first, second;  // weights; accumulator, velocity or mean; square or linear

  Reference(const OptimizerOptions& options, const std::vector<float>& weights)
      : o(options), w(weights.begin(), weights.end()), first(w.size(), 0), second(w.size(), 0) {
    const bool ftrl = o.rule == Rule::kFtrl || o.rule == Rule::kGroupFtrl;
    if (ftrl || o.rule == Rule::kAdagrad || o.rule == Rule::kAdagradDecay) {
      std::fill(first.begin(), first.end(), o.initial_accumulator);
    }
    for (std::size_t i = 0; ftrl && !o.forgets_first && i < w.size(); ++i) {
      second[i] = -w[i] * (std::sqrt(double{o.initial_accumulator}) / o.learning_rate + 2 * double{o.l2});
    }
  }

  std::vector<double> Clipped(const std::vector<float>& gradient) const {
    std::vector<double> g(gradient.begin(), gradient.end());
    double squares = 0;
    for (double& each : g) {
      if (o.clip_value > 0) each = std::min<double>(std::max<double>(each, -o.clip_value), o.clip_value);
      squares += each * each;
    }
    const double length = std::sqrt(squares);
    if (o.clip_norm > 0 && length > o.clip_norm) {
      for (double& each : g) each *= o.clip_norm / length;
    }
    return g;
  }

  void Step(const std::vector<float>& gradient, double schedule, std::uint64_t powers, std::uint32_t decays) {
    const std::vector<double> g = Clipped(gradient);
    const double rate = double{o.learning_rate} * schedule;
    for (std::size_t i = 0; i < w.size(); ++i) {
      switch (o.rule) {
        case Rule::kSgd:
          w[i] -= rate * g[i];
          break;
        case Rule::kAdagradDecay:
          for (std::uint32_t pass = 0; pass < decays; ++pass) first[i] *= o.decay_rate;
          first[i] = std::max<double>(first[i], o.initial_accumulator);
          [[fallthrough]];
        case Rule::kAdagrad:
          first[i] += g[i] * g[i];
          w[i] -= rate * g[i] / (std::sqrt(first[i]) + o.epsilon);
          break;
        case Rule::kMomentum:
          first[i] = o.momentum * first[i] + schedule * g[i];
          w[i] -= o.learning_rate * (o.nesterov ? schedule * g[i] + o.momentum * first[i] : first[i]);
          break;
        case Rule::kRmsprop:
          first[i] = o.rho * first[i] + (1 - double{o.rho}) * g[i] * g[i];
          w[i] -= rate * g[i] / std::sqrt(first[i] + o.epsilon);
          break;
        case Rule::kAdam:
        case Rule::kAdamW: {
          // Kingma and Ba (2015), with epsilon beside the root of the corrected rate.
          const double beta_1 = o.beta_1, beta_2 = o.beta_2;
          first[i] = beta_1 * first[i] + (1 - beta_1) * g[i];
          second[i] = beta_2 * second[i] + (1 - beta_2) * g[i] * g[i];
          double correction = 1, squares = 1;
          for (std::uint64_t p = 0; p < powers; ++p) {
            correction *= beta_1;
            squares *= beta_2;
          }
          const double corrected = rate * std::sqrt(1 - squares) / (1 - correction);
          const double decay = o.rule == Rule::kAdamW ? rate * o.weight_decay * w[i] : 0;
          w[i] -= corrected * first[i] / (std::sqrt(second[i]) + o.epsilon) + decay;
          break;
        }
        case Rule::kFtrl:
        case Rule::kGroupFtrl: {
          const double before = std::sqrt(first[i]);
          first[i] += g[i] * g[i];
          second[i] += schedule * g[i] - (std::sqrt(first[i]) - before) / o.learning_rate * w[i];
          if (o.rule == Rule::kFtrl) {
            const double sign = second[i] < 0 ? -1 : 1;
            const double width = std::sqrt(first[i]) / o.learning_rate + 2 * double{o.l2};
            w[i] = std::abs(second[i]) <= o.l1 ? 0 : (sign * o.l1 - second[i]) / width;
          }
          break;
        }
      }
    }
    if (o.rule == Rule::kGroupFtrl) Group();
  }

  void Group() {
    std::vector<double> z(w.size());
    double squares = 0;
    for (std::size_t i = 0; i < z.size(); ++i) {
      z[i] = (second[i] < 0 ? -1 : 1) * std::max(std::abs(second[i]) - o.l1, 0.0);
      squares += z[i] * z[i];
    }
    const double length = std::sqrt(squares), least = o.l21 * std::sqrt(static_cast<double>(z.size()));
    for (std::size_t i = 0; i < z.size(); ++i) {
      const double width = std::sqrt(first[i]) / o.learning_rate + 2 * double{o.l2};
      w[i] = length <= least ? 0 : (least / length - 1) * z[i] / width;
    }
  }
};

OptimizerOptions OptionsOf(Rule rule) {
  OptimizerOptions options;
  options.rule = rule;
  options.learning_rate = 0.05f;
  options.epsilon = 1e-3f;
  options.weight_decay = 0.02f;
  options.decay_rate = 0.8f;
  return options;
}

// Every rule, and those of its options that change its course.
std::vector<OptimizerOptions> Variants() {
  std::vector<OptimizerOptions> all;
  for (const Rule rule : kAll) {
    OptimizerOptions options = OptionsOf(rule);
    all.push_back(options);
    options.clip_value = 0.3f;
    all.push_back(options);
    options.clip_norm = 0.5f;
    all.push_back(options);
    options.clip_value = 0;
    all.push_back(options);
    options.clip_norm = 0;
    options.nesterov = true;
    options.l1 = 0.3f;
    options.l2 = 0.2f;
    options.l21 = 0.4f;
    options.epsilon = 0;
    options.rho = 0.6f;
    options.initial_accumulator = 0.7f;
    options.beta_1 = 0.5f;
    options.beta_2 = 0.9f;
    options.momentum = 0.3f;
    options.weight_decay = 0.5f;
    options.decay_rate = 0.25f;
    all.push_back(options);
    options.forgets_first = true;
    all.push_back(options);
  }
  return all;
}

std::vector<const Kernels*> Present() {
  std::vector<const Kernels*> all{KernelsNamed("v3")};
  if (KernelsNamed("v4") != nullptr) all.push_back(KernelsNamed("v4"));
  return all;
}

// Bytes from the weights of such a row to its slots.
constexpr std::int32_t SlotsAt(std::int32_t dim) { return dim * static_cast<std::int32_t>(sizeof(float)); }

ApplyRows Of(const Kernels& kernels, const OptimizerOptions& options) {
  return kernels.of(WeightType::kFloat32, options.rule);
}

// A row of exactly its length, so that a sanitizer sees what is written behind it.
std::vector<float> NewRow(const OptimizerOptions& options, const std::vector<float>& weights) {
  std::vector<float> row(weights.size() * (1 + SlotsOf(options.rule)), NAN);
  std::copy(weights.begin(), weights.end(), row.begin());
  FillSlots(options, weights.data(), row.data() + weights.size(), static_cast<std::int32_t>(weights.size()));
  return row;
}

// The largest difference of `row` from the reference, by the size of what is compared.
double Off(const std::vector<float>& row, const Reference& reference) {
  double most = 0;
  const std::vector<double>* parts[] = {&reference.w, &reference.first, &reference.second};
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double wanted = (*parts[i / reference.w.size()])[i % reference.w.size()];
    const double off = std::abs(row[i] - wanted) / (1 + std::abs(wanted));
    most = off <= most ? most : off;  // of what is no number, too
  }
  return most;
}

TEST_CASE("every rule does what its formula says, for every width, clipped or not") {
  constexpr int kRows = 5, kSteps = 6;
  for (const Kernels* kernels : Present()) {
    for (const OptimizerOptions& options : Variants()) {
      for (const std::int32_t dim : kDims) {
        CAPTURE(kernels->name);
        CAPTURE(static_cast<int>(options.rule));
        CAPTURE(options.clip_value);
        CAPTURE(options.clip_norm);
        CAPTURE(dim);
        Random random(static_cast<std::uint64_t>(dim));
        std::vector<std::vector<float>> rows, gradients(kRows);
        std::vector<Reference> references;
        for (int r = 0; r < kRows; ++r) {
          const std::vector<float> weights = random.Floats(static_cast<std::size_t>(dim), 0.5f);
          rows.push_back(NewRow(options, weights));
          references.emplace_back(options, weights);
        }
        for (int step = 1; step <= kSteps; ++step) {
          const float schedule = step == 4 ? 0.5f : 1.0f;
          const Update update = UpdateOf(options, schedule, static_cast<std::uint64_t>(step));
          std::vector<void*> targets;
          std::vector<const float*> sources;
          std::vector<std::uint32_t> decays;
          for (int r = 0; r < kRows; ++r) {
            gradients[r] = random.Floats(static_cast<std::size_t>(dim), r == 0 ? 0.01f : 1.0f);
            if (r == 1) gradients[r].assign(gradients[r].size(), 0.0f);
            targets.push_back(rows[r].data());
            sources.push_back(gradients[r].data());
            decays.push_back(static_cast<std::uint32_t>((r + step) % 3));
            references[r].Step(gradients[r], schedule, static_cast<std::uint64_t>(step), decays.back());
          }
          Of(*kernels, options)(options, update,
                                {targets.data(), sources.data(), decays.data(), kRows, dim, SlotsAt(dim)});
        }
        for (int r = 0; r < kRows; ++r) CHECK(Off(rows[r], references[r]) < 3e-5);
      }
    }
  }
}

TEST_CASE("every instruction set gives the same bits") {
  if (KernelsNamed("v4") == nullptr) {
    MESSAGE("skipped: this processor has no x86-64-v4");
    return;
  }
  for (const OptimizerOptions& options : Variants()) {
    for (std::int32_t dim = 1; dim <= 100; dim += dim < 40 ? 1 : 7) {
      CAPTURE(static_cast<int>(options.rule));
      CAPTURE(dim);
      Random random(static_cast<std::uint64_t>(dim));
      std::vector<float> narrow = NewRow(options, random.Floats(static_cast<std::size_t>(dim)));
      std::vector<float> wide = narrow;
      for (std::uint64_t step = 1; step < 8; ++step) {
        const std::vector<float> gradient = random.Floats(static_cast<std::size_t>(dim));
        const Update update = UpdateOf(options, 0.9f, step);
        const std::uint32_t decays = step % 3;
        for (const auto& [name, row] : {std::pair("v3", &narrow), std::pair("v4", &wide)}) {
          void* target = row->data();
          const float* source = gradient.data();
          Of(*KernelsNamed(name), options)(options, update, {&target, &source, &decays, 1, dim, SlotsAt(dim)});
        }
      }
      CHECK(narrow == wide);
    }
  }
}

// One row, one update.
void Step(const OptimizerOptions& options, std::vector<float>* row, const std::vector<float>& gradient,
          std::uint64_t powers = 1, const std::uint32_t* decays = nullptr) {
  void* target = row->data();
  const float* source = gradient.data();
  const auto dim = static_cast<std::int32_t>(gradient.size());
  Of(ActiveKernels(), options)(options, UpdateOf(options, 1, powers), {&target, &source, decays, 1, dim, SlotsAt(dim)});
}

TEST_CASE("a new row's slots: as many as a rule has, and FTRL gives back the first weights for no gradient") {
  for (const Rule rule : kAll) {
    CAPTURE(static_cast<int>(rule));
    for (const float l2 : {0.0f, 0.7f}) {
      OptimizerOptions options = OptionsOf(rule);
      options.l2 = l2;
      options.weight_decay = 0;
      const std::vector<float> weights = Random(4).Floats(17);
      std::vector<float> row = NewRow(options, weights);
      for (const float each : row) CHECK(std::isfinite(each));
      for (std::uint64_t powers = 1; powers < 4; ++powers) Step(options, &row, std::vector<float>(17, 0.0f), powers);
      for (std::size_t i = 0; i < 17; ++i) CHECK(row[i] == doctest::Approx(weights[i]).epsilon(1e-6));
    }
  }
  CHECK(SlotsOf(Rule::kSgd) == 0);
  for (const Rule rule : {Rule::kAdagrad, Rule::kAdagradDecay, Rule::kMomentum, Rule::kRmsprop}) {
    CHECK(SlotsOf(rule) == 1);
  }
  for (const Rule rule : {Rule::kAdam, Rule::kAdamW, Rule::kFtrl, Rule::kGroupFtrl}) CHECK(SlotsOf(rule) == 2);
}

TEST_CASE("the accumulator of adagrad_decay shrinks by each pass, not below where it began, and only then") {
  OptimizerOptions options = OptionsOf(Rule::kAdagradDecay);
  options.initial_accumulator = 0.5f;
  options.decay_rate = 0.5f;
  const std::vector<float> none{0, 0};
  for (std::uint32_t passes = 0; passes < 6; ++passes) {
    std::vector<float> row{1, 1, 4, 0.75f};
    Step(options, &row, none, 1, &passes);
    CHECK(row[2] == std::max(4.0f / static_cast<float>(1 << passes), 0.5f));
    CHECK(row[3] == (passes == 0 ? 0.75f : 0.5f));
    CHECK(row[0] == 1);
  }
  std::vector<float> row{1, 1, 4, 4};
  Step(options, &row, none);  // without passes at all
  CHECK(row[2] == 4);
}

TEST_CASE("group FTRL sets whole rows to zero, and no part of a row") {
  OptimizerOptions options = OptionsOf(Rule::kGroupFtrl);
  options.l21 = 1;
  std::vector<float> weak = NewRow(options, Random(5).Floats(16, 0.01f)), strong = weak;
  std::vector<float> gradient = Random(6).Floats(16);
  Step(options, &strong, std::vector<float>(16, 3.0f));
  for (std::size_t i = 0; i < 16; ++i) CHECK(strong[i] != 0);
  for (float& each : gradient) each *= 0.1f;
  Step(options, &weak, gradient);
  for (std::size_t i = 0; i < 16; ++i) CHECK(weak[i] == 0);
  // And back again: its slots are not lost.
  for (int step = 0; step < 5; ++step) Step(options, &weak, std::vector<float>(16, 1.0f));
  for (std::size_t i = 0; i < 16; ++i) CHECK(weak[i] < 0);
}

TEST_CASE("FTRL's l1 sets single weights to zero") {
  OptimizerOptions options = OptionsOf(Rule::kFtrl);
  options.l1 = 1;
  std::vector<float> row = NewRow(options, {0, 0, 0, 0});
  Step(options, &row, {0.9f, -0.9f, 1.5f, -1.5f});
  CHECK(row[0] == 0);
  CHECK(row[1] == 0);
  CHECK(row[2] < 0);
  CHECK(row[3] > 0);
  CHECK(row[2] == -row[3]);
}

TEST_CASE("the length is clipped after the values, and nothing that is short enough") {
  OptimizerOptions options = OptionsOf(Rule::kSgd);
  options.learning_rate = 1;
  const auto moved = [&](const std::vector<float>& gradient) {
    std::vector<float> row(gradient.size(), 0.0f);
    Step(options, &row, gradient);
    for (float& each : row) each = -each;
    return row;
  };
  CHECK(moved({300, -4}) == std::vector<float>{300, -4});
  options.clip_value = 4;
  CHECK(moved({300, -4}) == std::vector<float>{4, -4});
  CHECK(moved({3, -300}) == std::vector<float>{3, -4});
  options.clip_norm = 2.5f;
  CHECK(moved({3, -300})[0] == doctest::Approx(1.5));
  CHECK(moved({3, -300})[1] == doctest::Approx(-2));
  CHECK(moved({1.5f, -2}) == std::vector<float>{1.5f, -2});
  options.clip_value = 0;
  CHECK(moved({300, -400})[0] == doctest::Approx(1.5));
  CHECK(moved({0, 0}) == std::vector<float>{0, 0});
}

TEST_CASE("FTRL forgets a row's first weights at its first update where it is told to") {
  for (const Rule rule : {Rule::kFtrl, Rule::kGroupFtrl}) {
    OptimizerOptions options = OptionsOf(rule);
    options.forgets_first = true;
    std::vector<float> row = NewRow(options, {1, -2});
    Step(options, &row, {0, 0});
    CHECK(row[0] == 0);
    CHECK(row[1] == 0);
  }
}

TEST_CASE("an update's rate: the schedule's, with Adam's correction; that of FTRL and momentum is their gradient's") {
  for (const Rule rule : kAll) {
    CAPTURE(static_cast<int>(rule));
    const OptimizerOptions options = OptionsOf(rule);
    for (const std::uint64_t powers : {1ull, 2ull, 1000ull, 1000000000ull}) {
      const Update update = UpdateOf(options, 0.5f, powers);
      const bool of_gradient = rule == Rule::kFtrl || rule == Rule::kGroupFtrl || rule == Rule::kMomentum;
      const double p = static_cast<double>(powers);
      const double correction = rule != Rule::kAdam && rule != Rule::kAdamW
                                    ? 1.0
                                    : std::sqrt(1 - std::pow(double{0.999f}, p)) / (1 - std::pow(double{0.9f}, p));
      CHECK(update.rate == doctest::Approx(of_gradient ? 0.05 : 0.025 * correction).epsilon(1e-6));
      CHECK(update.decay == doctest::Approx(0.025 * 0.02).epsilon(1e-6));
      CHECK(update.gradient_scale == (of_gradient ? 0.5f : 1.0f));
    }
  }
}

TEST_CASE("Adam's first update moves each weight by the learning rate, whatever the gradient's size") {
  OptimizerOptions options = OptionsOf(Rule::kAdam);
  options.epsilon = 0;
  std::vector<float> row = NewRow(options, {1, 1, 1});
  Step(options, &row, {1e-3f, -20, 0.5f});
  CHECK(row[0] == doctest::Approx(0.95).epsilon(1e-5));
  CHECK(row[1] == doctest::Approx(1.05).epsilon(1e-5));
  CHECK(row[2] == doctest::Approx(0.95).epsilon(1e-5));
}

TEST_CASE("the widest row is clipped, too") {
  OptimizerOptions options = OptionsOf(Rule::kAdagrad);
  options.clip_norm = 1;
  const std::vector<float> weights = Random(8).Floats(4096), gradient = Random(9).Floats(4096);
  std::vector<float> row = NewRow(options, weights);
  Reference reference(options, weights);
  Step(options, &row, gradient);
  reference.Step(gradient, 1, 1, 0);
  CHECK(Off(row, reference) < 3e-5);
}

TEST_CASE("a gradient that is no number stays none when it is clipped") {
  for (const bool by_value : {true, false}) {
    OptimizerOptions options = OptionsOf(Rule::kSgd);
    (by_value ? options.clip_value : options.clip_norm) = 1;
    std::vector<float> row = NewRow(options, {1, 1, 1});
    Step(options, &row, {0.5f, NAN, 0.5f});
    CHECK(std::isnan(row[1]));
  }
}

TEST_CASE("options are equal where each of them is") {
  const OptimizerOptions options;
  CHECK(options == OptimizerOptions{});
  const auto differs = [&](auto member, auto value) {
    OptimizerOptions other;
    other.*member = value;
    return !(options == other);
  };
  CHECK(differs(&OptimizerOptions::rule, Rule::kAdam));
  CHECK(differs(&OptimizerOptions::nesterov, true));
  CHECK(differs(&OptimizerOptions::forgets_first, true));
  CHECK(differs(&OptimizerOptions::decay_steps, 7u));
  using Member = float OptimizerOptions::*;
  for (const Member member :
       {&OptimizerOptions::learning_rate, &OptimizerOptions::initial_accumulator, &OptimizerOptions::epsilon,
        &OptimizerOptions::beta_1, &OptimizerOptions::beta_2, &OptimizerOptions::l1, &OptimizerOptions::l2,
        &OptimizerOptions::l21, &OptimizerOptions::momentum, &OptimizerOptions::weight_decay,
        &OptimizerOptions::decay_rate, &OptimizerOptions::rho, &OptimizerOptions::clip_value, &OptimizerOptions::clip_norm}) {
    CHECK(differs(member, 77.0f));
  }
}

}  // namespace
}  // namespace afo
