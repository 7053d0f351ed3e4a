#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/parallel/fused/memory/fused_memory.h"

namespace lockstep {

/// The sum (or average) of all ranks' gradients in the elements of a bucket that this rank owns.
class OwnedSum {
 public:
  /// @param begin  of the owned elements in the bucket
  OwnedSum(at::Tensor sum, std::int64_t begin) : sum_(std::move(sum)), begin_(begin) {
    // A source's pointer refers to the bucket's element 0, which may lie outside of this memory.
    const auto first = reinterpret_cast<std::uintptr_t>(sum_.data_ptr());
    const std::uintptr_t offset_bytes = static_cast<std::uintptr_t>(begin) * sum_.element_size();
    sources_.push_back(reinterpret_cast<void*>(first - offset_bytes));  // NOLINT(performance-no-int-to-ptr): see above
  }

  const at::Tensor& tensor() const { return sum_; }
  std::int64_t begin() const { return begin_; }
  /// Valid as long as this object.
  GradientSource source() const { return source_of(sources_, sum_); }
  /// Multiplies elements [begin, end) of the bucket, as far as they are owned.
  void scale(std::int64_t begin, std::int64_t end, double factor) {
    begin = std::max(begin, begin_) - begin_;
    end = std::min(end, begin_ + sum_.numel()) - begin_;
    if (begin < end) sum_.narrow(0, begin, end - begin).mul_(factor);
  }

 private:
  at::Tensor sum_;
  std::int64_t begin_;
  std::vector<void*> sources_;
};

}  // namespace lockstep
