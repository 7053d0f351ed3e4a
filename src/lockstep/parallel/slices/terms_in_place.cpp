#include "lockstep/parallel/slices/terms_in_place.h"

#include "lockstep/parallel/slices/slices.h"

namespace lockstep {

TermsInPlace::TermsInPlace(const Slices& slices, const at::Tensor& memory, std::size_t bucket,
                           Communicator& communicator, const std::vector<void*>& by_rank)
    : element_bytes_(static_cast<std::int64_t>(memory.element_size())) {
  const SlicePlan& plan = slices.plan();
  for (std::size_t i = 0; i + 1 < plan.most_terms(); ++i) {
    keepers_.push_back(communicator.symmetric_memory(slices.sums().beside(bucket, i)));
  }
  if (by_rank.empty()) keepers_.push_back(communicator.symmetric_memory(memory));
  for (const SlicePlan::Addition& each : plan.additions()) {
    const auto rank = static_cast<std::size_t>(each.rank);
    const bool is_last = each.term + 1 == plan.terms_of(each.rank);
    if (is_last && !by_rank.empty()) {
      first_.push_back(static_cast<const std::byte*>(by_rank[rank]));
    } else {
      first_.push_back((is_last ? keepers_.back() : keepers_[each.term])->copy(each.rank));
    }
  }
}

std::vector<const void*> TermsInPlace::from(std::int64_t begin) const {
  std::vector<const void*> result;
  for (const std::byte* first : first_) result.push_back(first + begin * element_bytes_);
  return result;
}

}  // namespace lockstep
