#include "afo/core/memory.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

namespace afo {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHuge = 2u << 20;
constexpr std::size_t kSurelyHuge = 32u << 20;

// A byte that says where it is.
std::uint8_t Mark(std::size_t at) { return static_cast<std::uint8_t>(at * 31 + at / kPage * 7 + 1); }

void Write(const Pages& pages, std::size_t first, std::size_t last) {
  for (std::size_t at = first; at < last; at += 509) pages.data()[at] = Mark(at);
}

int Wrong(const Pages& pages, std::size_t last) {
  int wrong = 0;
  for (std::size_t at = 0; at < last; at += 509) wrong += pages.data()[at] != Mark(at);
  return wrong;
}

TEST_CASE("pages keep what is in them while they grow and move") {
  Pages pages;
  CHECK(pages.data() == nullptr);
  CHECK(pages.size() == 0);
  std::vector<Pages> neighbours;  // so that there is no room to grow in place
  std::size_t written = 0;        // a multiple of 509, with which marks go on
  bool moved = false;
  for (std::size_t bytes : {1u, 4096u, 4097u, 100000u, 3u << 20, 31u << 20, (32u << 20) + 1, 40u << 20, 41u << 20}) {
    CAPTURE(bytes);
    const std::uint8_t* before = pages.data();
    REQUIRE(pages.Grow(bytes));
    moved = moved || (before != nullptr && pages.data() != before);
    CHECK(pages.size() >= bytes);
    CHECK(pages.size() % kPage == 0);
    // Newer kernels see to the latter by themselves.
    CHECK(reinterpret_cast<std::uintptr_t>(pages.data()) % (pages.size() >= kSurelyHuge ? kHuge : kPage) == 0);
    CHECK(Wrong(pages, written) == 0);
    int filled = 0;
    for (std::size_t at = written; at < pages.size(); at += 509) filled += pages.data()[at] != 0;
    CHECK(filled == 0);
    Write(pages, written, bytes);
    written = (bytes + 508) / 509 * 509;
    neighbours.emplace_back();
    REQUIRE(neighbours.back().Grow(64 << 10));
    neighbours.back().data()[0] = 1;
  }
  CHECK(moved);
  CHECK(Wrong(pages, written) == 0);
}

TEST_CASE("growing to less than there is changes nothing") {
  Pages pages;
  REQUIRE(pages.Grow(10 * kPage));
  const std::uint8_t* data = pages.data();
  REQUIRE(pages.Grow(kPage));
  REQUIRE(pages.Grow(0));
  CHECK(pages.data() == data);
  CHECK(pages.size() == 10 * kPage);
}

TEST_CASE("a system without memory leaves the pages as they are") {
  Pages pages;
  REQUIRE(pages.Grow(3 * kPage));
  Write(pages, 0, 3 * kPage);
  const std::uint8_t* data = pages.data();
  CHECK_FALSE(pages.Grow(std::size_t{1} << 60));
  CHECK(pages.data() == data);
  CHECK(pages.size() == 3 * kPage);
  CHECK(Wrong(pages, 3 * kPage) == 0);
  REQUIRE(pages.Grow(5 * kPage));
  CHECK(Wrong(pages, 3 * kPage) == 0);
}

TEST_CASE("populating changes no byte, and counts each page once") {
  Pages pages;
  pages.Populate(kPage);  // nothing there
  CHECK(pages.populated() == 0);
  REQUIRE(pages.Grow(10 * kPage));
  CHECK(pages.populated() == 0);
  Write(pages, 0, 10 * kPage);
  pages.Populate(1);
  CHECK(pages.populated() == kPage);
  pages.Populate(4 * kPage);
  CHECK(pages.populated() == 4 * kPage);
  pages.Populate(2 * kPage);
  CHECK(pages.populated() == 4 * kPage);
  pages.Populate(1000 * kPage);  // more than there is
  CHECK(pages.populated() == 10 * kPage);
  REQUIRE(pages.Grow(20 * kPage));
  CHECK(pages.populated() == 10 * kPage);
  CHECK(Wrong(pages, 10 * kPage) == 0);
}

bool IsMapped(const void* data) {
  unsigned char resident;
  return mincore(const_cast<void*>(data), kPage, &resident) == 0 || errno != ENOMEM;
}

TEST_CASE("nothing stays mapped of pages that are gone, that grew elsewhere, or that others were moved to") {
  const void *gone, *moved_to;
  {
    Pages pages, others, neighbour;
    REQUIRE(pages.Grow(3 * kPage));
    const void* before = pages.data();
    REQUIRE(neighbour.Grow(kPage));
    REQUIRE(pages.Grow(500 * kPage));
    CHECK((pages.data() == before || !IsMapped(before)));
    REQUIRE(others.Grow(7 * kPage));
    moved_to = others.data();
    REQUIRE(IsMapped(moved_to));
    others = std::move(pages);
    CHECK_FALSE(IsMapped(moved_to));
    gone = others.data();
    REQUIRE(IsMapped(gone));
  }
  CHECK_FALSE(IsMapped(gone));
}

TEST_CASE("thousands of small ones that have grown are a few mappings, for a process may have 65,530") {
  const auto mappings = [] {
    std::ifstream lines("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(lines), {}, '\n');
  };
  const auto before = mappings();
  std::vector<Pages> all(3000);
  for (std::size_t bytes = kPage; bytes <= 16 * kPage; bytes *= 2) {
    for (Pages& pages : all) {
      REQUIRE(pages.Grow(bytes));
      pages.Populate(bytes);
      Write(pages, bytes / 2, bytes);
    }
  }
  // Under a sanitizer they are more.
  CHECK(mappings() - before < static_cast<std::ptrdiff_t>(all.size() * 9 / 10));
  int wrong = 0;
  for (const Pages& pages : all) {
    for (std::size_t bytes = kPage; bytes <= 16 * kPage; bytes *= 2) {
      for (std::size_t at = bytes / 2; at < bytes; at += 509) wrong += pages.data()[at] != Mark(at);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("who is moved from has nothing; who is moved to has it all, and frees what it had") {
  Pages first;
  REQUIRE(first.Grow(7 * kPage));
  Write(first, 0, 7 * kPage);
  first.Populate(kPage);
  const std::uint8_t* data = first.data();

  Pages second(std::move(first));
  CHECK(first.data() == nullptr);
  CHECK(first.size() == 0);
  CHECK(first.populated() == 0);
  CHECK(second.data() == data);
  CHECK(second.size() == 7 * kPage);
  CHECK(second.populated() == kPage);

  Pages third;
  REQUIRE(third.Grow(kPage));
  third = std::move(second);
  CHECK(third.data() == data);
  CHECK(Wrong(third, 7 * kPage) == 0);

  Pages& same = third;
  third = std::move(same);
  CHECK(third.data() == data);
  CHECK(Wrong(third, 7 * kPage) == 0);

  REQUIRE(first.Grow(2 * kPage));  // who is moved from may begin anew
  CHECK(first.data()[kPage] == 0);
  CHECK(Wrong(third, 7 * kPage) == 0);
}

}  // namespace
}  // namespace afo
