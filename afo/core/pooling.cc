#include "afo/core/pooling.h"

#include <cmath>
#include <cstring>
#include <type_traits>

namespace afo {
namespace {

// Rows at random are asked for this many ids before. Streams of gradients and results are too, for the processor's own foresight
// gives up between accesses at random: 1.9 ms became 1.2 ms for 106,496 ids of 16 floats.
constexpr std::int64_t kAhead = 8;
constexpr std::int64_t kStreamAhead = 24;

float WeightOf(const Bags& bags, std::int64_t id) { return bags.weights == nullptr ? 1.0f : bags.weights[id]; }

// What a sample's sum is multiplied by.
float Share(const Bags& bags, std::int64_t first, std::int64_t last) {
  if (bags.combiner == Combiner::kNone || bags.combiner == Combiner::kSum) return 1.0f;
  double sum = 0;
  for (std::int64_t i = first; i < last; ++i) {
    const double weight = WeightOf(bags, i);
    sum += bags.combiner == Combiner::kMean ? weight : weight * weight;
  }
  if (sum == 0) return 0.0f;
  return static_cast<float>(1 / (bags.combiner == Combiner::kMean ? sum : std::sqrt(sum)));
}

float Length(const float* row, std::int32_t dim) {
  float squares = 0;
  for (std::int32_t i = 0; i < dim; ++i) squares += row[i] * row[i];
  return std::sqrt(squares);
}

float Shortened(const Bags& bags, const float* row, std::int32_t dim) {
  if (bags.max_norm <= 0) return 1.0f;
  const float length = Length(row, dim);
  return length > bags.max_norm ? bags.max_norm / length : 1.0f;
}

// target[i] += factor * source[i]. kDim 0: any width, else a multiple of 8. Eight at a time by hand: g++ 12 takes a loop of
// known length apart into single floats here, and puts them together again.
template <std::int32_t kDim>
void AddScaled(float* target, const float* source, float factor, std::int32_t dim) {
  if constexpr (kDim == 0) {
    for (std::int32_t i = 0; i < dim; ++i) target[i] += factor * source[i];
  } else {
    typedef float Eight __attribute__((vector_size(32)));
    for (std::int32_t i = 0; i < kDim; i += 8) {
      Eight sum, add;
      std::memcpy(&sum, target + i, sizeof sum);
      std::memcpy(&add, source + i, sizeof add);
      sum += factor * add;
      std::memcpy(target + i, &sum, sizeof sum);
    }
  }
}

// Of y = c x / |x| the gradient is c / |x| (g - x (x . g) / |x|^2): a row at its longest moves along the sphere alone.
template <std::int32_t kDim>
void AddThroughNorm(float* target, const float* row, const float* gradient, float factor, float max_norm,
                    std::int32_t dim) {
  const float length = Length(row, dim);
  if (length <= max_norm) return AddScaled<kDim>(target, gradient, factor, dim);
  float along = 0;
  for (std::int32_t i = 0; i < dim; ++i) along += row[i] * gradient[i];
  along /= length * length;
  const float share = factor * max_norm / length;
  for (std::int32_t i = 0; i < dim; ++i) target[i] += share * (gradient[i] - row[i] * along);
}

// Where a sample begins in `out`.
std::int64_t PlaceOf(const Bags& bags, std::int32_t dim, std::int64_t sample) {
  if (bags.stride == 0) return sample * dim;
  if (bags.group == 1) return sample * bags.stride;
  return sample / bags.group * bags.stride + sample % bags.group * dim;
}

template <std::int32_t kDim>
void Spread(const TableRows<const float>& rows, const Bags& bags, std::int64_t first, std::int64_t last, float* out) {
  const std::size_t width = static_cast<std::size_t>(kDim > 0 ? kDim : rows.dim) * sizeof(float);
  for (std::int64_t i = first; i < last; ++i) {
    if (i + kAhead < last) __builtin_prefetch(rows.at(bags.places[i + kAhead]));
    __builtin_prefetch(out + PlaceOf(bags, rows.dim, i + kStreamAhead), 1);
    std::memcpy(out + PlaceOf(bags, rows.dim, i), rows.at(bags.places[i]), width);
  }
}

std::int64_t FirstOf(const Bags& bags, std::int64_t sample) {
  return bags.splits == nullptr ? sample : bags.splits[sample];
}

template <std::int32_t kDim>
void PoolOf(const TableRows<const float>& rows, const Bags& bags, std::int64_t first, std::int64_t last, float* out) {
  const std::int64_t ids = FirstOf(bags, last);
  for (std::int64_t sample = first; sample < last; ++sample) {
    const std::int64_t begin = FirstOf(bags, sample), end = FirstOf(bags, sample + 1);
    float* target = out + PlaceOf(bags, rows.dim, sample);
    std::memset(target, 0, static_cast<std::size_t>(rows.dim) * sizeof(float));
    const float share = Share(bags, begin, end);
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + kAhead < ids) __builtin_prefetch(rows.at(bags.places[i + kAhead]));
      const float* row = rows.at(bags.places[i]);
      AddScaled<kDim>(target, row, WeightOf(bags, i) * share * Shortened(bags, row, rows.dim), rows.dim);
    }
  }
}

// What one id of a sample adds to its row.
template <std::int32_t kDim>
void AddGradient(const TableRows<float>& gradients, const TableRows<const float>& rows, const Bags& bags,
                 std::int64_t id, const float* gradient, float share) {
  const float factor = share * WeightOf(bags, id);
  float* target = gradients.at(bags.places[id]);
  if (bags.max_norm > 0) {
    AddThroughNorm<kDim>(target, rows.at(bags.places[id]), gradient, factor, bags.max_norm, gradients.dim);
  } else {
    AddScaled<kDim>(target, gradient, factor, gradients.dim);
  }
}

template <std::int32_t kDim>
void GradientOf(const TableRows<float>& gradients, const TableRows<const float>& rows, const Bags& bags,
                const float* out) {
  const std::int64_t ids = FirstOf(bags, bags.samples);
  for (std::int64_t sample = 0; sample < bags.samples; ++sample) {
    const std::int64_t begin = FirstOf(bags, sample), end = FirstOf(bags, sample + 1);
    const float share = Share(bags, begin, end);
    const float* gradient = out + PlaceOf(bags, gradients.dim, sample);
    __builtin_prefetch(out + PlaceOf(bags, gradients.dim, sample + kStreamAhead));
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + kAhead < ids) __builtin_prefetch(gradients.at(bags.places[i + kAhead]), 1);
      AddGradient<kDim>(gradients, rows, bags, i, gradient, share);
    }
  }
}

// Rows side by side are of one part: to write to a line of the cache is to take it from whoever else does.
constexpr int kRowsTogether = 4;  // 2 to the power of this
std::int32_t PartOf(std::int32_t place, std::int32_t parts) {
  // Fibonacci hashing (Knuth): even for numbers in a row, and no division.
  const std::uint32_t mixed = (static_cast<std::uint32_t>(place) >> kRowsTogether) * 0x9e3779b9u;
  return static_cast<std::int32_t>((mixed >> 16) * static_cast<std::uint32_t>(parts) >> 16);
}

// An id of this part.
struct Own {
  std::int64_t id;
  const float* gradient;
  float share;
};

// The part's ids are gathered first: whether the next one is among them cannot be foreseen, so nothing may branch on it.
template <std::int32_t kDim>
void GradientOfPart(const TableRows<float>& gradients, const TableRows<const float>& rows, const Bags& bags,
                    const float* out, std::int32_t part, std::int32_t parts) {
  constexpr int kOwn = 256;
  Own own[kOwn];
  int count = 0;
  const auto add = [&] {
    for (int k = 0; k < count; ++k) {
      if (k + kAhead < count) __builtin_prefetch(gradients.at(bags.places[own[k + kAhead].id]), 1);
      if (k + kStreamAhead < count) __builtin_prefetch(own[k + kStreamAhead].gradient);
      AddGradient<kDim>(gradients, rows, bags, own[k].id, own[k].gradient, own[k].share);
    }
    count = 0;
  };
  for (std::int64_t sample = 0; sample < bags.samples; ++sample) {
    const std::int64_t begin = FirstOf(bags, sample), end = FirstOf(bags, sample + 1);
    const float share = Share(bags, begin, end);
    const float* gradient = out + PlaceOf(bags, gradients.dim, sample);
    for (std::int64_t i = begin; i < end; ++i) {
      own[count] = {i, gradient, share};
      count += PartOf(bags.places[i], parts) == part;
      if (count == kOwn) add();
    }
  }
  add();
}

// Calls `work` with the width as a constant where it is a usual one: then there are no counters and no remainders.
template <typename Work>
void ByWidth(std::int32_t dim, const Work& work) {
  switch (dim) {
    case 8:
      return work(std::integral_constant<std::int32_t, 8>());
    case 16:
      return work(std::integral_constant<std::int32_t, 16>());
    case 32:
      return work(std::integral_constant<std::int32_t, 32>());
    case 64:
      return work(std::integral_constant<std::int32_t, 64>());
    default:
      return work(std::integral_constant<std::int32_t, 0>());
  }
}

}  // namespace

void Pool(const TableRows<const float>& rows, const Bags& bags, std::int64_t first, std::int64_t last, float* out) {
  if (bags.splits == nullptr && bags.weights == nullptr && bags.max_norm <= 0) {
    return ByWidth(rows.dim, [&](auto dim) { Spread<decltype(dim)::value>(rows, bags, first, last, out); });
  }
  ByWidth(rows.dim, [&](auto dim) { PoolOf<decltype(dim)::value>(rows, bags, first, last, out); });
}

void PoolGradient(const TableRows<float>& gradients, const TableRows<const float>& rows, const Bags& bags,
                  const float* out, std::int32_t part, std::int32_t parts) {
  ByWidth(gradients.dim, [&](auto dim) {
    if (parts == 1) return GradientOf<decltype(dim)::value>(gradients, rows, bags, out);
    GradientOfPart<decltype(dim)::value>(gradients, rows, bags, out, part, parts);
  });
}

void PoolWeightGradient(const TableRows<const float>& rows, const Bags& bags, const float* out, std::int64_t first,
                        std::int64_t last, float* weights) {
  for (std::int64_t sample = first; sample < last; ++sample) {
    const std::int64_t begin = FirstOf(bags, sample), end = FirstOf(bags, sample + 1);
    const float* gradient = out + PlaceOf(bags, rows.dim, sample);
    const float share = Share(bags, begin, end);
    double along = 0;  // the sample itself times its gradient
    for (std::int64_t i = begin; i < end; ++i) {
      const float* row = rows.at(bags.places[i]);
      double product = 0;
      for (std::int32_t k = 0; k < rows.dim; ++k) product += double{row[k]} * gradient[k];
      weights[i] = static_cast<float>(product * Shortened(bags, row, rows.dim));
      along += double{WeightOf(bags, i)} * weights[i] * share;
    }
    if (bags.combiner == Combiner::kNone || bags.combiner == Combiner::kSum) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      const double taken = bags.combiner == Combiner::kMean ? along : along * share * WeightOf(bags, i);
      weights[i] = static_cast<float>(share * (weights[i] - taken));
    }
  }
}

}  // namespace afo
