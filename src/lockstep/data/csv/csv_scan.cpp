#include "lockstep/data/csv/csv_scan.h"

#include <algorithm>

#include "lockstep/data/csv/csv_scan_kernel.h"

namespace lockstep {

void CsvScan::look_ahead(std::size_t position) {
  static const ScanBlocks scan = scan_kernels().back().scan;
  first_ = position / kBlockBytes * kBlockBytes;
  const char* const bytes = text_.data() + first_;
  const std::size_t left = text_.size() - first_;
  // The kernel also reads the byte after its blocks.
  const std::size_t whole = std::min((left - 1) / kBlockBytes, kBlocks);
  scan(bytes, whole, marks_, blocks_.data());
  known_ = whole * kBlockBytes;
  if (whole > 0) return;
  std::array<char, kBlockBytes + 1> tail{};
  std::copy_n(bytes, left, tail.data());
  scan(tail.data(), 1, marks_, blocks_.data());
  const std::uint64_t inside = left == kBlockBytes ? ~std::uint64_t{0} : ~(~std::uint64_t{0} << left);
  blocks_[0].ends &= inside;
  blocks_[0].stops &= inside;
  known_ = kBlockBytes;
}

}  // namespace lockstep
