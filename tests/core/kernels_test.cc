#include "afo/core/kernels.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

namespace afo {
namespace {

TEST_CASE("kernels have the name by which they are asked for") {
  REQUIRE(KernelsNamed("v3") != nullptr);  // what the engine is built for
  CHECK(KernelsNamed("v3")->name == std::string("v3"));
  CHECK(KernelsNamed("v2") == nullptr);
  CHECK(KernelsNamed("") == nullptr);
  if (KernelsNamed("v4") == nullptr) {
    MESSAGE("this processor has no x86-64-v4");
  } else {
    CHECK(KernelsNamed("v4")->name == std::string("v4"));
  }
}

// Run again with AFO_ISA by test_native.py.
TEST_CASE("the kernels in use are those that AFO_ISA names, else the widest") {
  const char* wanted = std::getenv("AFO_ISA");
  const Kernels* named = wanted == nullptr ? nullptr : KernelsNamed(wanted);
  const Kernels* widest = KernelsNamed("v4") == nullptr ? KernelsNamed("v3") : KernelsNamed("v4");
  CHECK(&ActiveKernels() == (named == nullptr ? widest : named));
}

}  // namespace
}  // namespace afo
