#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/data/csv/csv_scan.h"

namespace lockstep {

/// Fills `count` `blocks` from 64 `bytes` each. Also reads the one byte after them.
using ScanBlocks = void (*)(const char* bytes, std::size_t count, const CsvMarks& marks, CsvBlock* blocks);

struct ScanKernel {
  const char* name;
  ScanBlocks scan;
};

/// The kernels that this processor can run, the fastest last. All have equal results.
const std::vector<ScanKernel>& scan_kernels();

}  // namespace lockstep
