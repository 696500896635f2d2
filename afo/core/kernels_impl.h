// Included once for each instruction set, with AFO_ISA_NAME as its name; nowhere else.
//
// No other header with functions may be included here but <math.h>, and bfloat16.h, whose functions have internal
// linkage: an inline function of a shared header would be compiled for the wide instructions too, and the linker might
// give that one to everybody. Everything but `Get` has internal linkage. Contraction to fused operations is off, so
// that all sets give the same bits.

#include <math.h>
#include <stdint.h>

#include "afo/core/bfloat16.h"
#include "afo/core/kernels.h"

namespace afo {
namespace AFO_ISA_NAME {
namespace {

inline float Sign(float x) { return x < 0 ? -1.0f : 1.0f; }
// Of `a` and a bound; a NaN in `a` stays one, so that no clipping hides it.
inline float Least(float a, float b) { return b < a ? b : a; }
inline float Most(float a, float b) { return b > a ? b : a; }

struct Arguments {
  const OptimizerOptions& options;
  const Update& update;
  uint32_t decays;
};

// What a rule does to one row: `n` weights at `w`, arrays of as many slots at `s`, gradient `g`.
struct Sgd {
  static void Row(const Arguments& a, float* __restrict w, float*, const float* __restrict g, int32_t n) {
    for (int32_t i = 0; i < n; ++i) w[i] -= a.update.rate * g[i];
  }
};

struct Adagrad {
  static void Row(const Arguments& a, float* __restrict w, float* __restrict s, const float* __restrict g, int32_t n) {
    float* accumulator = s;
    const float rate = a.update.rate, epsilon = a.options.epsilon;
#pragma GCC ivdep
    for (int32_t i = 0; i < n; ++i) {
      const float sum = accumulator[i] + g[i] * g[i];
      accumulator[i] = sum;
      w[i] -= rate * g[i] / (__builtin_sqrtf(sum) + epsilon);
    }
  }
};

struct AdagradDecay {
  static void Row(const Arguments& a, float* __restrict w, float* __restrict s, const float* __restrict g, int32_t n) {
    if (a.decays > 0) {
      const float kept = powf(a.options.decay_rate, static_cast<float>(a.decays));
      for (int32_t i = 0; i < n; ++i) s[i] = Most(s[i] * kept, a.options.initial_accumulator);
    }
    Adagrad::Row(a, w, s, g, n);
  }
};

// The velocity is in units of the gradient, so that a schedule weighs what comes and not what has come.
struct Momentum {
  static void Row(const Arguments& a, float* __restrict w, float* __restrict s, const float* __restrict g, int32_t n) {
    float* velocity = s;
    const float rate = a.update.rate, kept = a.options.momentum, scale = a.update.gradient_scale;
    if (a.options.nesterov) {
#pragma GCC ivdep
      for (int32_t i = 0; i < n; ++i) {
        const float gradient = scale * g[i];
        velocity[i] = kept * velocity[i] + gradient;
        w[i] -= rate * (gradient + kept * velocity[i]);
      }
      return;
    }
#pragma GCC ivdep
    for (int32_t i = 0; i < n; ++i) {
      velocity[i] = kept * velocity[i] + scale * g[i];
      w[i] -= rate * velocity[i];
    }
  }
};

// v = rho * v + (1 - rho) * g^2, w -= rate * g / sqrt(v + epsilon). Tieleman and Hinton (2012), as Keras has it.
struct Rmsprop {
  static void Row(const Arguments& a, float* __restrict w, float* __restrict s, const float* __restrict g, int32_t n) {
    float* square = s;
    const float rate = a.update.rate, epsilon = a.options.epsilon, kept = a.options.rho, fresh = 1 - a.options.rho;
#pragma GCC ivdep
    for (int32_t i = 0; i < n; ++i) {
      const float v = kept * square[i] + fresh * (g[i] * g[i]);
      square[i] = v;
      w[i] -= rate * g[i] / __builtin_sqrtf(v + epsilon);
    }
  }
};

template <bool kDecays>
struct AdamOf {
  static void Row(const Arguments& a, float* __restrict w, float* __restrict s, const float* __restrict g, int32_t n) {
    float* mean = s;
    float* square = s + n;
    const float first = 1 - a.options.beta_1, second = 1 - a.options.beta_2;
    const float rate = a.update.rate, epsilon = a.options.epsilon, decay = a.update.decay;
#pragma GCC ivdep
    for (int32_t i = 0; i < n; ++i) {
      const float m = mean[i] + first * (g[i] - mean[i]);
      const float v = square[i] + second * (g[i] * g[i] - square[i]);
      mean[i] = m;
      square[i] = v;
      const float change = rate * m / (__builtin_sqrtf(v) + epsilon);
      w[i] -= kDecays ? change + decay * w[i] : change;
    }
  }
};

// n' = n + g^2, z += g - (sqrt(n') - sqrt(n)) / rate * w. McMahan et al. (2013), algorithm 1.
inline void Accumulate(const Arguments& a, const float* __restrict w, float* __restrict s, const float* __restrict g,
                       int32_t n) {
  float* accumulator = s;
  float* linear = s + n;
  const float rate = a.update.rate, scale = a.update.gradient_scale;
#pragma GCC ivdep
  for (int32_t i = 0; i < n; ++i) {
    const float sum = accumulator[i] + g[i] * g[i];
    linear[i] += scale * g[i] - (__builtin_sqrtf(sum) - __builtin_sqrtf(accumulator[i])) / rate * w[i];
    accumulator[i] = sum;
  }
}

struct Ftrl {
  static void Row(const Arguments& a, float* __restrict w, float* __restrict s, const float* __restrict g, int32_t n) {
    Accumulate(a, w, s, g, n);
    const float *accumulator = s, *linear = s + n;
    const float rate = a.update.rate, l1 = a.options.l1, l2 = a.options.l2;
#pragma GCC ivdep
    for (int32_t i = 0; i < n; ++i) {
      const float z = linear[i];
      const float size = __builtin_fabsf(z);
      const float moved = (Sign(z) * l1 - z) / (__builtin_sqrtf(accumulator[i]) / rate + 2 * l2);
      w[i] = size <= l1 ? 0.0f : moved;
    }
  }
};

// FTRL with a penalty on the length of a row, which sets whole rows to zero: Ni et al. (2019), "Feature Selection for
// Facebook Feed Ranking System via a Group-Sparsity-Regularized Training Algorithm". With z' the soft threshold of z at
// l1 and c = l21 * sqrt(n): all zero where |z'| <= c, else w = (c / |z'| - 1) * z' / (sqrt(n) / rate + 2 * l2).
struct GroupFtrl {
  static void Row(const Arguments& a, float* __restrict w, float* __restrict s, const float* __restrict g, int32_t n) {
    Accumulate(a, w, s, g, n);
    const float *accumulator = s, *linear = s + n;
    const float l1 = a.options.l1, l2 = a.options.l2, rate = a.update.rate;
    float squares = 0;
    for (int32_t i = 0; i < n; ++i) {
      const float left = Most(__builtin_fabsf(linear[i]) - l1, 0.0f);
      squares += left * left;
    }
    const float length = __builtin_sqrtf(squares);
    const float least = a.options.l21 * __builtin_sqrtf(static_cast<float>(n));
    const float share = length <= least ? 0.0f : least / length - 1;
    for (int32_t i = 0; i < n; ++i) {
      const float z = Sign(linear[i]) * Most(__builtin_fabsf(linear[i]) - l1, 0.0f);
      w[i] = share * z / (__builtin_sqrtf(accumulator[i]) / rate + 2 * l2);
    }
  }
};

// The gradient after clipping, in `room` when it changed.
const float* Clipped(const OptimizerOptions& options, const float* g, int32_t n, float* room) {
  const float most = options.clip_value > 0 ? options.clip_value : HUGE_VALF;
  float squares = 0;
  for (int32_t i = 0; i < n; ++i) {
    room[i] = Most(Least(g[i], most), -most);
    squares += room[i] * room[i];
  }
  if (options.clip_norm > 0 && squares > options.clip_norm * options.clip_norm) {
    const float factor = options.clip_norm / __builtin_sqrtf(squares);
    for (int32_t i = 0; i < n; ++i) room[i] *= factor;
  }
  return room;
}

// 16 bits for each element of a row, of the row's `draw`: the mixing function "lowbias32" of Wellons (2018),
// "Prospecting for Hash Functions", between whose multiplications the draw's other half comes in.
inline uint32_t RandomBits(uint64_t draw, int32_t element) {
  uint32_t x = static_cast<uint32_t>(draw) + static_cast<uint32_t>(element) * 0x9e3779b9u;
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15 ^ static_cast<uint32_t>(draw >> 32);
  x *= 0x846ca68bu;
  return x >> 16;
}

// float32 is updated where it lies.
template <typename Rule, int32_t kDim>
void UpdateRow(const Arguments& a, float* w, float* s, const float* g, int32_t n, uint64_t) {
  Rule::Row(a, w, s, g, n);
}

// bfloat16 is rounded by chance: to the nearest one, all updates below some 1/256 of a weight would be lost. Zamirai et
// al. (2020), "Revisiting BFloat16 Training".
template <typename Rule, int32_t kDim>
void UpdateRow(const Arguments& a, uint16_t* __restrict w, float* s, const float* g, int32_t n, uint64_t draw) {
  float wide[kDim > 0 ? kDim : kMaxDim];
  for (int32_t i = 0; i < n; ++i) wide[i] = WidenedBfloat16(w[i]);
  Rule::Row(a, wide, s, g, n);
  for (int32_t i = 0; i < n; ++i) w[i] = RandomlyRoundedBfloat16(wide[i], RandomBits(draw, i));
}

// kDim 0: any width. The others are known to the compiler, which then keeps no counters and no remainders.
template <typename Rule, typename Weight, int32_t kDim>
void RowsOf(const OptimizerOptions& options, const Update& update, const RowBatch& batch) {
  const int32_t n = kDim > 0 ? kDim : batch.dim;
  const bool clips = options.clip_value > 0 || options.clip_norm > 0;
  float room[kDim > 0 ? kDim : kMaxDim];
  for (int32_t i = 0; i < batch.count; ++i) {
    const float* g = clips ? Clipped(options, batch.gradients[i], n, room) : batch.gradients[i];
    const Arguments arguments{options, update, batch.decays == nullptr ? 0 : batch.decays[i]};
    auto* slots = reinterpret_cast<float*>(static_cast<char*>(batch.rows[i]) + batch.slots_at);
    UpdateRow<Rule, kDim>(arguments, static_cast<Weight*>(batch.rows[i]), slots, g, n,
                          batch.draws == nullptr ? 0 : batch.draws[i]);
  }
}

template <typename Rule, typename Weight>
void Rows(const OptimizerOptions& options, const Update& update, const RowBatch& batch) {
  switch (batch.dim) {
    case 8:
      return RowsOf<Rule, Weight, 8>(options, update, batch);
    case 16:
      return RowsOf<Rule, Weight, 16>(options, update, batch);
    case 32:
      return RowsOf<Rule, Weight, 32>(options, update, batch);
    case 64:
      return RowsOf<Rule, Weight, 64>(options, update, batch);
    default:
      return RowsOf<Rule, Weight, 0>(options, update, batch);
  }
}

#define AFO_TEXT(name) #name
#define AFO_NAME(name) AFO_TEXT(name)

}  // namespace

// In the order of the enumeration `Rule`.
#define AFO_RULES(weight)                                                                        \
  {Rows<Sgd, weight>,      Rows<Adagrad, weight>,      Rows<AdamOf<false>, weight>,            \
   Rows<Ftrl, weight>,     Rows<Momentum, weight>,     Rows<AdagradDecay, weight>,             \
   Rows<AdamOf<true>, weight>, Rows<GroupFtrl, weight>, Rows<Rmsprop, weight>}

const Kernels& Get() {
  // In the order of the enumeration `WeightType`.
  static const Kernels kernels = {AFO_NAME(AFO_ISA_NAME), {AFO_RULES(float), AFO_RULES(uint16_t)}};
  return kernels;
}

}  // namespace AFO_ISA_NAME
}  // namespace afo
