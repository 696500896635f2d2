#include "afo/psplus/statistics.h"

#include <doctest/doctest.h>

namespace afo::psplus {
namespace {

using std::chrono::microseconds;

TEST_CASE("times are counted by powers of two of microseconds") {
  Histogram histogram;
  CHECK(Quantile(histogram.values(), 0.5) == 0);
  for (const int us : {0, 1, 2, 3, 4, 1000}) histogram.Add(microseconds(us));
  histogram.Add(microseconds(-5));
  histogram.Add(std::chrono::hours(1000));
  const Buckets values = histogram.values();
  CHECK(values[0] == 2);
  CHECK(values[1] == 1);
  CHECK(values[2] == 2);
  CHECK(values[3] == 1);
  CHECK(values[10] == 1);
  CHECK(values[kBuckets - 1] == 1);
  CHECK(Quantile(values, 0.5) == 4);
  CHECK(Quantile(values, 0.85) == 1024);
}

}  // namespace
}  // namespace afo::psplus
