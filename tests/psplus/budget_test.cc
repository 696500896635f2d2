#include "afo/psplus/budget.h"

#include <doctest/doctest.h>

namespace afo::psplus {
namespace {

TEST_CASE("a budget lets one in beyond it, and calls others once there is room") {
  Budget budget(100);
  int calls = 0;
  budget.WhenFree([&] { ++calls; });
  CHECK(calls == 1);
  CHECK(budget.Take(99));
  CHECK(budget.Take(1000));
  CHECK_FALSE(budget.Take(1));
  budget.WhenFree([&] { ++calls; });
  budget.Give(99);
  CHECK(calls == 1);
  budget.Give(999);
  CHECK(calls == 2);
  budget.Add(500);
  CHECK(budget.taken() == 501);
  budget.Give(500);
  CHECK(calls == 2);
}

}  // namespace
}  // namespace afo::psplus
