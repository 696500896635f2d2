// Compiled for x86-64-v3; the loops are in kernels_impl.h.
#define AFO_ISA_NAME v3
#include "afo/core/kernels_impl.h"
