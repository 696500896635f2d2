// Included once for each instruction set, with AFO_ISA_NAME as its name; nowhere else.
//
// No other header with functions may be included here but <math.h>: an inline function of a shared header would be
// compiled for the wide instructions too, and the linker might give that one to everybody. Everything but `Get` has
// internal linkage. Contraction to fused operations is off, so that all sets give the same bits.

#include <math.h>
#include <stdint.h>

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

// What a rule does to one row: `n` weights at `w`, its slots behind them, gradient `g`.
struct Sgd {
  static void Row(const Arguments& a, float* __restrict w, const float* __restrict g, int32_t n) {
    for (int32_t i = 0; i < n; ++i) w[i] -= a.update.rate * g[i];
  }
};

struct Adagrad {
  static void Row(const Arguments& a, float* __restrict w, const float* __restrict g, int32_t n) {
    float* accumulator = w + n;
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
  static void Row(const Arguments& a, float* __restrict w, const float* __restrict g, int32_t n) {
    if (a.decays > 0) {
      const float kept = powf(a.options.decay_rate, static_cast<float>(a.decays));
      for (int32_t i = 0; i < n; ++i) w[n + i] = Most(w[n + i] * kept, a.options.initial_accumulator);
    }
    Adagrad::Row(a, w, g, n);
  }
};

// The velocity is in units of the gradient, so that a schedule weighs what comes and not what has come.
struct Momentum {
  static void Row(const Arguments& a, float* __restrict w, const float* __restrict g, int32_t n) {
    float* velocity = w + n;
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
  static void Row(const Arguments& a, float* __restrict w, const float* __restrict g, int32_t n) {
    float* square = w + n;
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
  static void Row(const Arguments& a, float* __restrict w, const float* __restrict g, int32_t n) {
    float* mean = w + n;
    float* square = w + 2 * n;
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
inline void Accumulate(const Arguments& a, float* __restrict w, const float* __restrict g, int32_t n) {
  float* accumulator = w + n;
  float* linear = w + 2 * n;
  const float rate = a.update.rate, scale = a.update.gradient_scale;
#pragma GCC ivdep
  for (int32_t i = 0; i < n; ++i) {
    const float sum = accumulator[i] + g[i] * g[i];
    linear[i] += scale * g[i] - (__builtin_sqrtf(sum) - __builtin_sqrtf(accumulator[i])) / rate * w[i];
    accumulator[i] = sum;
  }
}

struct Ftrl {
  static void Row(const Arguments& a, float* __restrict w, const float* __restrict g, int32_t n) {
    Accumulate(a, w, g, n);
    const float *accumulator = w + n, *linear = w + 2 * n;
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
  static void Row(const Arguments& a, float* __restrict w, const float* __restrict g, int32_t n) {
    Accumulate(a, w, g, n);
    const float *accumulator = w + n, *linear = w + 2 * n;
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

// kDim 0: any width. The others are known to the compiler, which then keeps no counters and no remainders.
template <typename Rule, int32_t kDim>
void RowsOf(const OptimizerOptions& options, const Update& update, const RowBatch& batch) {
  const int32_t n = kDim > 0 ? kDim : batch.dim;
  const bool clips = options.clip_value > 0 || options.clip_norm > 0;
  float room[kDim > 0 ? kDim : kMaxDim];
  for (int32_t i = 0; i < batch.count; ++i) {
    const float* g = clips ? Clipped(options, batch.gradients[i], n, room) : batch.gradients[i];
    Rule::Row(Arguments{options, update, batch.decays == nullptr ? 0 : batch.decays[i]}, batch.rows[i], g, n);
  }
}

template <typename Rule>
void Rows(const OptimizerOptions& options, const Update& update, const RowBatch& batch) {
  switch (batch.dim) {
    case 8:
      return RowsOf<Rule, 8>(options, update, batch);
    case 16:
      return RowsOf<Rule, 16>(options, update, batch);
    case 32:
      return RowsOf<Rule, 32>(options, update, batch);
    case 64:
      return RowsOf<Rule, 64>(options, update, batch);
    default:
      return RowsOf<Rule, 0>(options, update, batch);
  }
}

#define AFO_TEXT(name) #name
#define AFO_NAME(name) AFO_TEXT(name)

}  // namespace

const Kernels& Get() {
  // In the order of the enumeration `Rule`.
  static const Kernels kernels = {AFO_NAME(AFO_ISA_NAME),
                                  {Rows<Sgd>, Rows<Adagrad>, Rows<AdamOf<false>>, Rows<Ftrl>, Rows<Momentum>,
                                   Rows<AdagradDecay>, Rows<AdamOf<true>>, Rows<GroupFtrl>, Rows<Rmsprop>}};
  return kernels;
}

}  // namespace AFO_ISA_NAME
}  // namespace afo
