#include "lockstep/parallel/slices/partial_sums.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

namespace lockstep {

PartialSums::PartialSums(const SlicePlan& plan, const GradientBuckets& buckets, Communicator& communicator)
    : plan_(plan), buckets_(buckets), stack_(plan.tree()), beside_(buckets.size()), further_(buckets.size()) {
  const at::NoGradGuard no_grad;
  const std::size_t own = plan.terms() - 1;  // terms beside the bucket
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const at::Tensor& memory = buckets[b].memory;
    for (std::size_t i = 0; i + 1 < plan.most_terms(); ++i) {
      at::Tensor term = communicator.allocate(memory.sizes(), memory.scalar_type());
      term.zero_();  // sent, even if this rank has no such term
      (i < own ? beside_ : further_)[b].push_back(std::move(term));
    }
    while (beside_[b].size() < std::max(plan.most_waiting(), own)) beside_[b].push_back(at::empty_like(memory));
  }
}

void PartialSums::start_over() { stack_ = SumStack(plan_.tree()); }

void PartialSums::add_slice() {
  const at::NoGradGuard no_grad;
  const std::int64_t slice = stack_.depth() == 0 ? plan_.run().begin : stack_.subtrees().back().end;
  const std::size_t depth = stack_.depth();
  const int additions = stack_.push({slice, slice + 1});
  const bool is_last = slice + 1 == plan_.run().end;
  for (std::size_t b = 0; b < buckets_.size(); ++b) add_slice(b, depth, additions, is_last);
}

// @param depth  sums before this slice, all of them beside the bucket
void PartialSums::add_slice(std::size_t bucket, std::size_t depth, int additions, bool is_last) {
  at::Tensor sum = buckets_[bucket].memory;
  std::vector<at::Tensor>& beside = beside_[bucket];
  if (additions == 0) {
    if (!is_last) beside[depth].copy_(sum);
    return;
  }
  std::size_t top = depth - 1;
  for (int left = additions; left > (is_last ? 0 : 1); --left) sum.add_(beside[top--]);
  if (!is_last) beside[top].add_(sum);
}

const at::Tensor& PartialSums::term(std::size_t bucket, std::size_t index) const {
  const std::size_t last = plan_.terms() - 1;
  if (index < last) return beside_[bucket][index];
  return index == last ? buckets_[bucket].memory : further_[bucket][index - last - 1];
}

const at::Tensor& PartialSums::beside(std::size_t bucket, std::size_t index) const {
  const std::size_t own = plan_.terms() - 1;
  return index < own ? beside_[bucket][index] : further_[bucket][index - own];
}

}  // namespace lockstep
