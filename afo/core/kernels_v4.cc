// Compiled for x86-64-v4; the loops are in kernels_impl.h.
#define AFO_ISA_NAME v4
#include "afo/core/kernels_impl.h"
