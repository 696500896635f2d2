#include "afo/core/pooling.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "afo/core/unique.h"
#include "tests/core/support.h"

namespace afo {
namespace {

using testing::Random;

constexpr Combiner kCombiners[] = {Combiner::kNone, Combiner::kSum, Combiner::kMean, Combiner::kSqrtN};

// The rows of one table at some servers, and bags of ids that name them.
struct Scene {
  std::int32_t dim;
  std::uint32_t servers;
  std::vector<std::vector<float>> rows;  // of each server
  std::vector<std::int32_t> places;
  std::vector<std::int64_t> splits;
  std::vector<float> weights;

  Scene(std::uint64_t seed, std::int32_t dim_of_rows, std::uint32_t servers_of_rows, std::int64_t samples)
      : dim(dim_of_rows), servers(servers_of_rows) {
    Random random(seed);
    for (std::uint32_t s = 0; s < servers; ++s) rows.push_back(random.Floats((3 + s) * static_cast<std::size_t>(dim)));
    splits = {0};
    for (std::int64_t i = 0; i < samples; ++i) {
      // Empty ones, and some that are longer than what is fetched ahead.
      const std::uint64_t length = i % 3 == 0 ? 0 : i % 5 == 0 ? 9 + random.Below(20) : random.Below(5);
      for (std::uint64_t j = 0; j < length; ++j) {
        const auto server = static_cast<std::uint32_t>(random.Below(servers));
        places.push_back(static_cast<std::int32_t>(server << PlaceShift(servers) | random.Below(3 + server)));
      }
      splits.push_back(static_cast<std::int64_t>(places.size()));
    }
    weights = random.Floats(places.size());
    for (float& weight : weights) weight += 1.2f;  // of their sum nothing is divided that is nearly zero
  }

  std::int64_t samples() const { return static_cast<std::int64_t>(splits.size()) - 1; }

  Bags bags(Combiner combiner, bool weighted, float max_norm) const {
    Bags bags;
    bags.places = places.data();
    bags.samples = samples();
    bags.splits = splits.data();
    bags.weights = weighted ? weights.data() : nullptr;
    bags.combiner = combiner;
    bags.max_norm = max_norm;
    return bags;
  }
};

template <typename Float, typename Rows>
TableRows<Float> View(Rows& rows, std::uint32_t servers, std::int32_t dim) {
  TableRows<Float> view;
  for (auto& each : rows) view.first.push_back(each.data());
  view.shift = PlaceShift(servers);
  view.dim = dim;
  return view;
}

TableRows<const float> View(const Scene& scene) { return View<const float>(scene.rows, scene.servers, scene.dim); }

std::vector<double> Row(const Scene& scene, std::int32_t place) {
  const auto server = static_cast<std::size_t>(place) >> PlaceShift(scene.servers);
  const std::size_t number = static_cast<std::size_t>(place) - (server << PlaceShift(scene.servers));
  const float* first = scene.rows[server].data() + number * static_cast<std::size_t>(scene.dim);
  return {first, first + scene.dim};
}

// The definition: rows shortened to max_norm, their weighted sum, divided as the combiner says.
std::vector<double> Naive(const Scene& scene, const Bags& bags, std::int64_t sample) {
  const std::int64_t first = bags.splits == nullptr ? sample : bags.splits[sample];
  const std::int64_t last = bags.splits == nullptr ? sample + 1 : bags.splits[sample + 1];
  std::vector<double> sum(static_cast<std::size_t>(scene.dim), 0);
  double weights = 0, squares = 0;
  for (std::int64_t i = first; i < last; ++i) {
    std::vector<double> row = Row(scene, bags.places[i]);
    double length = 0;
    for (const double x : row) length += x * x;
    length = std::sqrt(length);
    const double shorter = bags.max_norm > 0 && length > bags.max_norm ? bags.max_norm / length : 1;
    const double weight = bags.weights == nullptr ? 1 : bags.weights[i];
    for (std::size_t j = 0; j < row.size(); ++j) sum[j] += weight * shorter * row[j];
    weights += weight;
    squares += weight * weight;
  }
  for (double& x : sum) {
    if (first == last) break;
    if (bags.combiner == Combiner::kMean) x /= weights;
    if (bags.combiner == Combiner::kSqrtN) x /= std::sqrt(squares);
  }
  return sum;
}

TEST_CASE("a sample is its rows, combined") {
  for (const std::int32_t dim : {1, 3, 8, 40}) {
    for (const std::uint32_t servers : {1u, 3u}) {
      const Scene scene(static_cast<std::uint64_t>(dim), dim, servers, 40);
      for (const Combiner combiner : kCombiners) {
        for (const bool weighted : {false, true}) {
          for (const float max_norm : {0.0f, 0.6f, 100.0f}) {
            CAPTURE(dim);
            CAPTURE(servers);
            CAPTURE(static_cast<int>(combiner));
            CAPTURE(weighted);
            CAPTURE(max_norm);
            const Bags bags = scene.bags(combiner, weighted, max_norm);
            std::vector<float> out(static_cast<std::size_t>(scene.samples() * dim), NAN);
            // In three parts, of which one is empty.
            Pool(View(scene), bags, 0, 17, out.data());
            for (std::size_t i = 17u * static_cast<std::size_t>(dim); i < out.size(); ++i) REQUIRE(std::isnan(out[i]));
            Pool(View(scene), bags, 17, 17, out.data());
            Pool(View(scene), bags, 17, scene.samples(), out.data());
            double off = 0;
            for (std::int64_t sample = 0; sample < scene.samples(); ++sample) {
              const std::vector<double> wanted = Naive(scene, bags, sample);
              for (std::int32_t j = 0; j < dim; ++j) {
                const double each = std::abs(out[static_cast<std::size_t>(sample * dim + j)] - wanted[j]);
                off = each <= off ? off : each;
              }
            }
            CHECK(off < 2e-5);
          }
        }
      }
    }
  }
}

TEST_CASE("without splits each id is a sample") {
  const Scene scene(2, 7, 3, 30);
  for (const Combiner combiner : kCombiners) {
    for (const bool weighted : {false, true}) {
      for (const float max_norm : {0.0f, 0.6f}) {
        CAPTURE(static_cast<int>(combiner));
        CAPTURE(weighted);
        Bags bags = scene.bags(combiner, weighted, max_norm);
        bags.splits = nullptr;
        bags.samples = static_cast<std::int64_t>(scene.places.size());
        std::vector<float> out(scene.places.size() * 7, NAN);
        Pool(View(scene), bags, 0, 11, out.data());
        CHECK(std::isnan(out[11 * 7]));
        Pool(View(scene), bags, 11, bags.samples, out.data());
        double off = 0;
        for (std::int64_t sample = 0; sample < bags.samples; ++sample) {
          const std::vector<double> wanted = Naive(scene, bags, sample);
          for (std::size_t j = 0; j < 7; ++j) {
            const double each = std::abs(out[static_cast<std::size_t>(sample) * 7 + j] - wanted[j]);
            off = each <= off ? off : each;
          }
        }
        CHECK(off < 1e-5);
      }
    }
  }
}

TEST_CASE("weights that cancel each other give zero, and no infinity") {
  Scene scene(3, 4, 1, 0);
  scene.places = {0, 1, 2};
  scene.splits = {0, 2, 3};
  scene.weights = {1.5f, -1.5f, 0};
  std::vector<float> out(8, NAN);
  Pool(View(scene), scene.bags(Combiner::kMean, true, 0), 0, 2, out.data());
  CHECK(out == std::vector<float>(8, 0.0f));
  out.assign(8, NAN);
  Pool(View(scene), scene.bags(Combiner::kSqrtN, true, 0), 1, 2, out.data());
  for (std::size_t i = 4; i < 8; ++i) CHECK(out[i] == 0);
}

TEST_CASE("a row of no length has no direction to be shortened in") {
  Scene scene(3, 4, 1, 0);
  scene.rows[0].assign(scene.rows[0].size(), 0.0f);
  scene.places = {0};
  scene.splits = {0, 1};
  scene.weights = {1};
  const Bags bags = scene.bags(Combiner::kSum, true, 0.5f);
  std::vector<float> out(4, NAN), gradient{1, 2, 3, 4};
  Pool(View(scene), bags, 0, 1, out.data());
  CHECK(out == std::vector<float>(4, 0.0f));
  std::vector<std::vector<float>> gradients{std::vector<float>(12, 0.0f)};
  PoolGradient(View<float>(gradients, 1, 4), View(scene), bags, gradient.data(), 0, 1);
  CHECK(std::vector<float>(gradients[0].begin(), gradients[0].begin() + 4) == gradient);
}

// What all samples, multiplied by `out`, sum up to; its slope by each row is the gradient.
double Total(const Scene& scene, const Bags& bags, const std::vector<float>& out) {
  double total = 0;
  for (std::int64_t sample = 0; sample < bags.samples; ++sample) {
    const std::vector<double> pooled = Naive(scene, bags, sample);
    for (std::size_t j = 0; j < pooled.size(); ++j) {
      total += pooled[j] * out[static_cast<std::size_t>(sample) * pooled.size() + j];
    }
  }
  return total;
}

TEST_CASE("the gradient is the slope, adds to what is there, and parts make up the whole") {
  for (const std::int32_t dim : {1, 3, 8}) {
    for (const std::uint32_t servers : {1u, 3u}) {
      for (const bool split : {true, false}) {
        const Scene scene(10 + static_cast<std::uint64_t>(dim), dim, servers, 14);
        for (const Combiner combiner : kCombiners) {
          for (const bool weighted : {false, true}) {
            for (const float max_norm : {0.0f, 0.7f}) {
              CAPTURE(dim);
              CAPTURE(servers);
              CAPTURE(split);
              CAPTURE(static_cast<int>(combiner));
              CAPTURE(weighted);
              CAPTURE(max_norm);
              Bags bags = scene.bags(combiner, weighted, max_norm);
              if (!split) {
                bags.splits = nullptr;
                bags.samples = static_cast<std::int64_t>(scene.places.size());
              }
              const std::vector<float> out =
                  Random(9).Floats(static_cast<std::size_t>(bags.samples * dim));
              std::vector<std::vector<float>> zero;
              for (const auto& each : scene.rows) zero.emplace_back(each.size(), 0.0f);

              std::vector<std::vector<float>> whole = zero;
              PoolGradient(View<float>(whole, servers, dim), View(scene), bags, out.data(), 0, 1);
              double off = 0;
              Scene moved = scene;
              for (std::size_t s = 0; s < whole.size(); ++s) {
                for (std::size_t i = 0; i < whole[s].size(); ++i) {
                  // By what a float can tell: 2^-9 to each side, and the slope in between.
                  const float at = scene.rows[s][i], step = 1.0f / 512;
                  moved.rows[s][i] = at + step;
                  const double above = Total(moved, bags, out), above_at = moved.rows[s][i];
                  moved.rows[s][i] = at - step;
                  const double below = Total(moved, bags, out), below_at = moved.rows[s][i];
                  moved.rows[s][i] = at;
                  const double each = std::abs(whole[s][i] - (above - below) / (above_at - below_at));
                  off = each <= off ? off : each;
                }
              }
              // With max_norm the function bends, and where a row is just as long as that it has a corner.
              CHECK(off < (max_norm > 0 ? 0.02 : 1e-4));

              for (std::int32_t parts = 2; parts <= 4; ++parts) {
                std::vector<std::vector<float>> sum = zero;
                std::set<std::pair<std::size_t, std::size_t>> written;
                int twice = 0;
                for (std::int32_t part = 0; part < parts; ++part) {
                  std::vector<std::vector<float>> alone = zero;
                  PoolGradient(View<float>(alone, servers, dim), View(scene), bags, out.data(), part, parts);
                  PoolGradient(View<float>(sum, servers, dim), View(scene), bags, out.data(), part, parts);
                  for (std::size_t s = 0; s < alone.size(); ++s) {
                    for (std::size_t row = 0; row * static_cast<std::size_t>(dim) < alone[s].size(); ++row) {
                      const float* first = alone[s].data() + row * static_cast<std::size_t>(dim);
                      if (std::count(first, first + dim, 0.0f) == dim) continue;
                      twice += !written.emplace(s, row).second;
                    }
                  }
                }
                CHECK(twice == 0);
                CHECK(sum == whole);  // each row by one part, in the same order: the same bits
              }
              std::vector<std::vector<float>> again = whole;
              PoolGradient(View<float>(again, servers, dim), View(scene), bags, out.data(), 0, 1);
              double doubled = 0;
              for (std::size_t s = 0; s < again.size(); ++s) {
                for (std::size_t i = 0; i < again[s].size(); ++i) {
                  doubled = std::max(doubled, std::abs(again[s][i] - 2.0 * whole[s][i]));
                }
              }
              CHECK(doubled < 1e-4);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("the gradient of the weights is the slope, of the samples asked for") {
  for (const std::int32_t dim : {1, 5}) {
    for (const bool split : {true, false}) {
      for (const Combiner combiner : kCombiners) {
        for (const float max_norm : {0.0f, 0.7f}) {
          CAPTURE(dim);
          CAPTURE(split);
          CAPTURE(static_cast<int>(combiner));
          CAPTURE(max_norm);
          Scene scene(20 + static_cast<std::uint64_t>(dim), dim, 3, 14);
          Bags bags = scene.bags(combiner, true, max_norm);
          if (!split) {
            bags.splits = nullptr;
            bags.samples = static_cast<std::int64_t>(scene.places.size());
          }
          const std::vector<float> out = Random(9).Floats(static_cast<std::size_t>(bags.samples * dim));
          std::vector<float> gradient(scene.weights.size(), NAN);
          PoolWeightGradient(View(scene), bags, out.data(), 0, 7, gradient.data());
          for (std::size_t i = static_cast<std::size_t>(split ? scene.splits[7] : 7); i < gradient.size(); ++i) {
            REQUIRE(std::isnan(gradient[i]));
          }
          PoolWeightGradient(View(scene), bags, out.data(), 7, bags.samples, gradient.data());
          double off = 0;
          for (std::size_t i = 0; i < gradient.size(); ++i) {
            const float at = scene.weights[i], step = 1.0f / 512;
            scene.weights[i] = at + step;
            const double above = Total(scene, bags, out), above_at = scene.weights[i];
            scene.weights[i] = at - step;
            const double below = Total(scene, bags, out), below_at = scene.weights[i];
            scene.weights[i] = at;
            const double each = std::abs(gradient[i] - (above - below) / (above_at - below_at));
            off = each <= off ? off : each;
          }
          CHECK(off < 1e-3);
        }
      }
    }
  }
}

TEST_CASE("widths that the compiler knows give the bits of any other") {
  for (const std::int32_t dim : {8, 16, 32, 64}) {
    const Scene scene(7, dim, 3, 30);
    Scene wider = scene;  // one column more, of zeros
    wider.dim = dim + 1;
    const auto widen = [dim](const std::vector<float>& rows) {
      std::vector<float> wide;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        wide.push_back(rows[i]);
        if ((i + 1) % static_cast<std::size_t>(dim) == 0) wide.push_back(0);
      }
      return wide;
    };
    for (auto& rows : wider.rows) rows = widen(rows);
    for (const float max_norm : {0.0f, 1.5f}) {
      CAPTURE(dim);
      CAPTURE(max_norm);
      const Bags bags = scene.bags(Combiner::kMean, true, max_norm);
      std::vector<float> out(static_cast<std::size_t>(scene.samples() * dim), NAN);
      std::vector<float> wide(static_cast<std::size_t>(scene.samples() * (dim + 1)), NAN);
      Pool(View(scene), bags, 0, scene.samples(), out.data());
      Pool(View(wider), bags, 0, scene.samples(), wide.data());
      CHECK(widen(out) == wide);
      std::vector<std::vector<float>> gradients, wides;
      for (const auto& rows : scene.rows) gradients.emplace_back(rows.size(), 0.0f);
      for (const auto& rows : wider.rows) wides.emplace_back(rows.size(), 0.0f);
      PoolGradient(View<float>(gradients, 3, dim), View(scene), bags, out.data(), 0, 1);
      PoolGradient(View<float>(wides, 3, dim + 1), View(wider), bags, wide.data(), 0, 1);
      for (std::size_t s = 0; s < wides.size(); ++s) CHECK(widen(gradients[s]) == wides[s]);
    }
  }
}

TEST_CASE("a place names any row of any server") {
  for (const std::uint32_t servers : {1u, 2u, 3u, 100u, 65536u}) {
    TableRows<float> view;
    view.shift = PlaceShift(servers);
    view.dim = 5;
    const std::uint32_t last = std::min((1u << view.shift) - 1, 100000u);
    std::vector<float> rows((std::size_t{last} + 1) * 5);
    view.first.assign(servers, nullptr);
    for (const std::uint32_t server : {0u, servers / 2, servers - 1}) {
      for (const std::uint32_t number : {0u, 1u, last / 2 + 1, last}) {
        const auto place = static_cast<std::int32_t>(static_cast<std::uint64_t>(server) << view.shift | number);
        view.first[server] = rows.data();
        CHECK(view.at(place) - rows.data() == std::int64_t{number} * 5);
        view.first[server] = nullptr;
      }
    }
  }
}

TEST_CASE("each row is of one part, and parts are about even") {
  constexpr std::int32_t kRows = 1000;
  for (const int servers : {1, 3}) {
    Scene scene(5, 2, servers, 0);
    scene.rows.assign(static_cast<std::size_t>(servers), Random(1).Floats(2 * kRows));
    const int shift = PlaceShift(static_cast<std::uint32_t>(servers));
    scene.places.clear();
    for (std::int32_t server = 0; server < servers; ++server) {
      for (std::int32_t row = 0; row < kRows; ++row) scene.places.push_back(server << shift | row);
    }
    Bags bags;
    bags.places = scene.places.data();
    bags.samples = kRows * servers;
    const std::vector<float> out(2 * scene.places.size(), 1.0f);
    for (std::int32_t parts = 1; parts <= 8; ++parts) {
      std::vector<int> taken(scene.places.size(), 0);
      for (std::int32_t part = 0; part < parts; ++part) {
        std::vector<std::vector<float>> gradients(scene.rows.size(), std::vector<float>(2 * kRows, 0.0f));
        const TableRows<float> view = View<float>(gradients, servers, 2);
        PoolGradient(view, View(scene), bags, out.data(), part, parts);
        int own = 0, wrong = 0;
        for (std::size_t i = 0; i < scene.places.size(); ++i) {
          const float value = *view.at(scene.places[i]);
          wrong += value != 0.0f && value != 1.0f;
          own += value == 1.0f;
          taken[i] += value == 1.0f;
        }
        CHECK(wrong == 0);
        CHECK(own * parts > kRows * servers * 3 / 4);
        CHECK(own * parts < kRows * servers * 5 / 4);
      }
      CHECK(std::count(taken.begin(), taken.end(), 1) == static_cast<std::ptrdiff_t>(taken.size()));
    }
  }
}

TEST_CASE("samples may lie in groups with gaps between them, of which nothing is written or read") {
  for (const std::int32_t dim : {3, 8, 16}) {
    for (const std::int64_t group : {1, 2, 3}) {
      for (const bool spread : {false, true}) {
        CAPTURE(dim);
        CAPTURE(group);
        CAPTURE(spread);
        Scene scene(7, dim, 3, 60);
        Bags bags = scene.bags(Combiner::kMean, true, 0);
        if (spread) {  // an id a sample, without anything else: the short way
          bags = Bags{scene.places.data(), 60};
        }
        const std::int64_t stride = group * dim + 5, rows = 60 / group;
        const auto at = [&](std::int64_t sample) { return sample / group * stride + sample % group * dim; };
        std::vector<float> together(static_cast<std::size_t>(60 * dim));
        Pool(View(scene), bags, 0, 60, together.data());
        bags.stride = stride;
        bags.group = group;
        std::vector<float> apart(static_cast<std::size_t>(rows * stride), 77.0f);
        Pool(View(scene), bags, 0, 31, apart.data());
        Pool(View(scene), bags, 31, 60, apart.data());
        std::vector<float> wanted(apart.size(), 77.0f);
        for (std::int64_t i = 0; i < 60; ++i) {
          std::copy_n(together.begin() + i * dim, dim, wanted.begin() + at(i));
        }
        CHECK(apart == wanted);
        // The gaps hold what would be seen in any sum.
        for (float& value : apart) value = value == 77.0f ? 1e30f : value * 0.5f;
        std::vector<float> gradient(together.size());
        for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = together[i] * 0.5f;
        Bags contiguous = bags;
        contiguous.stride = 0;
        const auto summed = [&](const Bags& of, const std::vector<float>& given) {
          auto sums = scene.rows;
          for (auto& each : sums) std::fill(each.begin(), each.end(), 0.0f);
          PoolGradient(View<float>(sums, scene.servers, dim), View(scene), of, given.data(), 0, 1);
          return sums;
        };
        CHECK(summed(bags, apart) == summed(contiguous, gradient));
        std::vector<float> weights(scene.places.size()), others(scene.places.size());
        PoolWeightGradient(View(scene), bags, apart.data(), 0, 60, weights.data());
        PoolWeightGradient(View(scene), contiguous, gradient.data(), 0, 60, others.data());
        CHECK(weights == others);
      }
    }
  }
}

}  // namespace
}  // namespace afo
