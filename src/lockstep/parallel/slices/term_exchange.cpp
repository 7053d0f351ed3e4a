#include "lockstep/parallel/slices/term_exchange.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "lockstep/parallel/slices/tree_sum.h"

namespace lockstep {
namespace {

template <typename T>
void add_typed(const SlicePlan& plan, const std::vector<const void*>& terms, const at::Tensor& out, double divisor) {
  std::vector<const T*> typed;
  for (const void* term : terms) typed.push_back(static_cast<const T*>(term));
  add_in_tree(plan, typed, out.data_ptr<T>(), out.numel(), divisor);
}

}  // namespace

TermExchange::TermExchange(const SlicePlan& plan, const PartialSums& sums, std::size_t bucket,
                           Communicator& communicator)
    : plan_(plan), sums_(sums), bucket_(bucket), communicator_(communicator) {
  if (communicator.world_size() == 1) return;
  for (std::size_t i = 0; i < plan.most_terms(); ++i) received_.push_back(at::empty_like(sums.term(bucket, i)));
}

std::shared_ptr<Work> TermExchange::start() {
  pending_.clear();
  for (std::size_t i = 0; i < received_.size(); ++i) {
    pending_.push_back(communicator_.all_to_all_async(received_[i], sums_.term(bucket_, i)));
  }
  return pending_.empty() ? nullptr : pending_.back();
}

void TermExchange::finish(const at::Tensor& out, double divisor) {
  for (auto& work : pending_) std::exchange(work, nullptr)->wait();
  pending_.clear();
  std::vector<const void*> terms;
  for (const SlicePlan::Addition& each : plan_.additions()) {
    if (received_.empty()) {
      terms.push_back(sums_.term(bucket_, each.term).data_ptr());
      continue;
    }
    const at::Tensor& pieces = received_[each.term];
    const auto piece_bytes = pieces.nbytes() / static_cast<std::size_t>(communicator_.world_size());
    terms.push_back(static_cast<const std::byte*>(pieces.data_ptr()) +
                    static_cast<std::size_t>(each.rank) * piece_bytes);
  }
  add_terms(plan_, terms, out, divisor);
}

void add_terms(const SlicePlan& plan, const std::vector<const void*>& terms, const at::Tensor& out, double divisor) {
  if (out.scalar_type() == at::kDouble) return add_typed<double>(plan, terms, out, divisor);
  add_typed<float>(plan, terms, out, divisor);
}

at::Tensor sum_of_terms(const SlicePlan& plan, const std::vector<at::Tensor>& terms, Communicator& communicator) {
  std::vector<std::int64_t> sizes = terms.front().sizes().vec();
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(plan.most_terms()));
  const at::Tensor own = at::zeros(sizes, terms.front().options());
  own.narrow(0, 0, static_cast<std::int64_t>(terms.size())).copy_(at::stack(terms));
  sizes.insert(sizes.begin(), communicator.world_size());
  const at::Tensor all = at::zeros(sizes, own.options());
  communicator.all_gather(all, own);
  TermSums sums(plan.tree());
  for (const SlicePlan::Addition& each : plan.additions()) {
    const ShardRange subtree = plan.subtree(each);
    sums.add(subtree, all[each.rank][static_cast<std::int64_t>(each.term)]);
  }
  return sums.terms().front();
}

}  // namespace lockstep
