// From the rows that servers answered to what a feature's samples see, and their gradients back.
//
// The answer of a server is flat: the rows of its first table, then those of the next. A place (see unique.h) names a
// row in it, so one feature's ids are read from all servers' answers without putting them together first. Gradients go
// the same way back, into buffers of the same form.
#pragma once

#include <cstdint>
#include <vector>

namespace afo {

enum class Combiner : std::int32_t { kNone = 0, kSum = 1, kMean = 2, kSqrtN = 3 };

// Where the rows of one table begin in each server's answer.
template <typename Float>
struct TableRows {
  std::vector<Float*> first;  // [servers]
  int shift = 31;             // of a place
  std::int32_t dim = 0;

  Float* at(std::int32_t place) const {
    const auto bits = static_cast<std::uint32_t>(place);
    return first[bits >> shift] + static_cast<std::size_t>(bits & ((1u << shift) - 1)) * dim;
  }
};

// Ids of a feature by sample: sample i has ids splits[i] to splits[i + 1] - 1. Without `splits` each id is a sample.
struct Bags {
  const std::int32_t* places = nullptr;
  std::int64_t samples = 0;
  const std::int64_t* splits = nullptr;
  const float* weights = nullptr;  // one an id; null: 1
  Combiner combiner = Combiner::kNone;
  float max_norm = 0;  // rows longer than this are shortened to it first; 0: none
  // Where samples lie in `out`: `group` of them behind one another, `stride` floats from group to group, so that several
  // features can share rows of one matrix. Stride 0: all behind one another.
  std::int64_t stride = 0;
  std::int64_t group = 1;
};

// Writes samples first to last - 1 of `out` ([samples, dim] if they lie behind one another); a sample without ids is
// zero. With w the weights: sum w x; divided by sum w (mean) or by sqrt(sum w^2) (sqrtn), as
// tf.nn.embedding_lookup_sparse.
void Pool(const TableRows<const float>& rows, const Bags& bags, std::int64_t first, std::int64_t last, float* out);

// Adds to `gradients` what the gradient `out` [samples, dim] of all samples says of each row, but only of rows of part
// `part` of `parts`: threads with parts of their own never meet. Parts are about equal where there are hundreds of rows.
// `rows` is what `Pool` had; it is read where `max_norm` is set.
void PoolGradient(const TableRows<float>& gradients, const TableRows<const float>& rows, const Bags& bags,
                  const float* out, std::int32_t part, std::int32_t parts);

// The gradient of samples first to last - 1 with regard to their ids' weights, to weights[i] for id i. With w the
// weights, x_i a row, g the gradient of the sample y: x_i . g (sum); (x_i . g - y . g) / sum w (mean);
// (x_i . g - w_i y . g / sqrt(sum w^2)) / sqrt(sum w^2) (sqrtn).
void PoolWeightGradient(const TableRows<const float>& rows, const Bags& bags, const float* out, std::int64_t first,
                        std::int64_t last, float* weights);

}  // namespace afo
