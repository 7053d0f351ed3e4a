#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/data/csv/csv_scan.h"

namespace lockstep {

/// Fills `blocks` for `count` times 64 bytes of `bytes`. The byte behind them is looked at, too.
using ScanBlocks = void (*)(const char* bytes, std::size_t count, const CsvMarks& marks, CsvBlock* blocks);

struct ScanKernel {
  const char* name;
  ScanBlocks scan;
};

/// Those that this processor can run, the fastest last. All do the same.
const std::vector<ScanKernel>& scan_kernels();

}  // namespace lockstep
