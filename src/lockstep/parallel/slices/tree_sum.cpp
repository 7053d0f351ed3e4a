#include "lockstep/parallel/slices/tree_sum.h"

#include <ATen/ops/add.h>

#include <algorithm>
#include <cstddef>

#include "lockstep/optim/kernels/parallel_over.h"

namespace lockstep {
namespace {

// Sums that wait for their partners stay in the first-level cache: one block of 4 KiB for each level.
constexpr std::int64_t kTreeBlock = 1024;
constexpr std::int64_t kBlocksOfThread = 16;

// Calls `body` for each index below `count`. The compiler makes vectors of the loop whose length it knows.
template <typename Body>
[[gnu::always_inline]] inline void for_each_index(std::int64_t count, const Body& body) {
  constexpr std::int64_t kUnrolled = 16;
  std::int64_t i = 0;
  for (; i + kUnrolled <= count; i += kUnrolled) {
    for (std::int64_t k = 0; k < kUnrolled; ++k) body(i + k);
  }
  for (; i < count; ++i) body(i);
}

template <typename T>
void add_to(T* __restrict sum, const T* __restrict term, std::int64_t count) {
  for_each_index(
      count, [&](std::int64_t i) __attribute__((always_inline)) { sum[i] += term[i]; });
}

template <typename T>
void divide_into(T* __restrict out, const T* __restrict sum, std::int64_t count, T divisor) {
  for_each_index(
      count, [&](std::int64_t i) __attribute__((always_inline)) { out[i] = sum[i] / divisor; });
}

// Sums of one block of elements that wait for their partners.
template <typename T>
class BlockSums {
 public:
  // @param depth  sums that wait at most
  explicit BlockSums(std::size_t depth) : memory_(depth * kTreeBlock) {}

  void push(const T* term, std::int64_t count, int additions) {
    if (additions == 0) {
      std::copy_n(term, count, sum(depth_++));
      return;
    }
    add_to(sum(depth_ - 1), term, count);
    for (; additions > 1; --additions) {
      --depth_;
      add_to(sum(depth_ - 1), sum(depth_), count);
    }
  }
  const T* take_root() {
    depth_ = 0;
    return sum(0);
  }

 private:
  T* sum(std::size_t index) { return memory_.data() + index * kTreeBlock; }

  std::vector<T> memory_;
  std::size_t depth_ = 0;
};

std::size_t depth_of(const SlicePlan& plan) {
  std::size_t depth = 0, most = 0;
  for (const SlicePlan::Addition& each : plan.additions()) {
    most = std::max(most, depth + 1);
    depth = depth + 1 - static_cast<std::size_t>(each.additions);
  }
  return most;
}

template <typename T>
void add_blocks(const SlicePlan& plan, const std::vector<const T*>& terms, T* out, std::int64_t count, T divisor) {
  const std::int64_t blocks = (count + kTreeBlock - 1) / kTreeBlock;
  const std::size_t depth = depth_of(plan);
  parallel_over(blocks, kBlocksOfThread, [&](std::int64_t first, std::int64_t last) {
    BlockSums<T> sums(depth);
    for (std::int64_t begin = first * kTreeBlock; begin < std::min(last * kTreeBlock, count); begin += kTreeBlock) {
      const std::int64_t length = std::min(kTreeBlock, count - begin);
      for (std::size_t i = 0; i < terms.size(); ++i) {
        sums.push(terms[i] + begin, length, plan.additions()[i].additions);
      }
      divide_into(out + begin, sums.take_root(), length, divisor);
    }
  });
}

}  // namespace

void add_in_tree(const SlicePlan& plan, const std::vector<const float*>& terms, float* out, std::int64_t count,
                 double divisor) {
  add_blocks(plan, terms, out, count, static_cast<float>(divisor));
}

void add_in_tree(const SlicePlan& plan, const std::vector<const double*>& terms, double* out, std::int64_t count,
                 double divisor) {
  add_blocks(plan, terms, out, count, divisor);
}

void TermSums::add(ShardRange subtree, at::Tensor sum) {
  terms_.push_back(std::move(sum));
  for (int left = stack_.push(subtree); left > 0; --left) {
    const at::Tensor right = std::move(terms_.back());
    terms_.pop_back();
    terms_.back() = at::add(terms_.back(), right);
  }
}

at::Tensor sum_of_rows(const SliceTree& tree, const std::vector<at::Tensor>& rows) {
  TermSums sums(tree);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto slice = static_cast<std::int64_t>(i);
    sums.add({slice, slice + 1}, rows[i]);
  }
  return sums.terms().front();
}

}  // namespace lockstep
