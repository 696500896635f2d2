// The inner loops, compiled once for each instruction set and chosen once when the library is first used.
#pragma once

#include <cstdint>

#include "afo/core/optimizer.h"

namespace afo {

struct Kernels {
  const char* name;  // "v3" or "v4", as in x86-64-v3
  ApplyRows apply[kWeightTypes][kRules];

  // Defined elsewhere: the kernels are compiled with this header.
  ApplyRows of(WeightType weights, Rule rule) const;
};

// The widest that this processor has, or the one that AFO_ISA names (v3, v4). Anything else there is ignored, and a
// set that the processor lacks too: a library neither prints nor aborts.
const Kernels& ActiveKernels();
// By name, whatever is in use; null when this processor does not have it. For tests that compare all of them.
const Kernels* KernelsNamed(const char* name);

namespace v3 {
const Kernels& Get();
}
namespace v4 {
const Kernels& Get();
}

}  // namespace afo
