#pragma once

#include "lockstep/trace/chrome_trace.h"

namespace lockstep {

/// The names of collectives, and PyTorch's names of dtypes.
TraceNames names_in_traces();

}  // namespace lockstep
