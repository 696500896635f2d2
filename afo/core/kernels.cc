#include "afo/core/kernels.h"

#include <cstdlib>
#include <cstring>

namespace afo {
namespace {

// x86-64-v4, feature by feature: not every compiler knows its name.
bool HasV4() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const Kernels& Choose() {
  const char* wanted = std::getenv("AFO_ISA");
  if (wanted != nullptr) {
    if (const Kernels* named = KernelsNamed(wanted)) return *named;
  }
  return HasV4() ? v4::Get() : v3::Get();
}

}  // namespace

ApplyRows Kernels::of(WeightType weights, Rule rule) const {
  return apply[static_cast<int>(weights)][static_cast<int>(rule)];
}

const Kernels* KernelsNamed(const char* name) {
  if (std::strcmp(name, "v3") == 0) return &v3::Get();
  if (std::strcmp(name, "v4") == 0 && HasV4()) return &v4::Get();
  return nullptr;
}

const Kernels& ActiveKernels() {
  static const Kernels& chosen = Choose();
  return chosen;
}

}  // namespace afo
