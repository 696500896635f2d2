// What callers promise is asserted in the engine that these tests run, and in no release.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "afo/core/balanced_partition.h"
#include "afo/core/row_store.h"
#include "afo/core/slot_map.h"
#include "afo/core/table.h"

#ifdef NDEBUG
#error "the tests are built with asserts, whatever a release is built with"
#endif

namespace afo {
namespace {

// Whether this ends a process by an assert.
template <typename Work>
bool Aborts(const Work& work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);                   // doctest's would tell of a failure
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);  // what failed is meant to
    work();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

TEST_CASE("a broken promise ends a build for tests") {
  CHECK_FALSE(Aborts([] {}));
  CHECK(Aborts([] { BalancedPartition({1, 2}, 0); }));
  CHECK(Aborts([] { Table table(TableOptions{.dim = kMaxDim + 1}); }));
  CHECK(Aborts([] { Table table(TableOptions{.dim = 1, .shard_bits = kMaxShardBits + 1}); }));
  CHECK(Aborts([] { RowStore({.dim = 1, .floats = 1}).Take(); }));
  CHECK(Aborts([] { SlotMap::EqualRanges(0); }));
  CHECK(Aborts([] { SlotMap::EqualRanges(kVirtualSlots + 1); }));
  CHECK(Aborts([] { SlotMap::EqualRanges(3).RangeOf(3); }));
  CHECK(Aborts([] {
    RowStore rows({.dim = 1, .floats = 1});
    if (rows.Reserve(1)) rows.Free(rows.Take() + 1);
  }));
  CHECK(Aborts([] {
    Table one(TableOptions{.dim = 1, .shard_bits = 0}), other(TableOptions{.dim = 1, .shard_bits = 1});
    ShardOrder order;
    one.OrderByShard({}, &order);
    other.Lookup(order, 0, nullptr, {});
  }));
}

}  // namespace
}  // namespace afo
