#include "lockstep/parallel/backward/sparse_gradients.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "lockstep/parallel/agreement/weights_agreement.h"

namespace lockstep {
namespace {

// A rank's gradient for a parameter: its number of rows, or one of these values.
constexpr std::int64_t kNothing = -1, kDense = -2;

// [ranks, numbers]: the numbers of all ranks.
std::vector<std::vector<std::int64_t>> gather_numbers(Communicator& communicator,
                                                      const std::vector<std::int64_t>& own) {
  const auto options = at::TensorOptions().dtype(at::kLong);
  const auto count = static_cast<std::int64_t>(own.size());
  at::Tensor mine = at::empty({count}, options), all = at::empty({communicator.world_size() * count}, options);
  std::copy(own.begin(), own.end(), mine.data_ptr<std::int64_t>());
  communicator.all_gather(all, mine);
  std::vector<std::vector<std::int64_t>> result;
  for (const auto* from = all.data_ptr<std::int64_t>();
       result.size() < static_cast<std::size_t>(communicator.world_size()); from += count) {
    result.emplace_back(from, from + count);
  }
  return result;
}

// All ranks' rows, one rank after the other. Each rank sends `most` rows.
at::Tensor gather_rows(Communicator& communicator, const at::Tensor& own, const std::vector<std::int64_t>& rows,
                       std::int64_t most) {
  std::vector<std::int64_t> sizes = own.sizes().vec();
  sizes[0] = most;
  at::Tensor padded = at::zeros(sizes, own.options());
  padded.narrow(0, 0, own.size(0)).copy_(own);
  sizes[0] = most * communicator.world_size();
  at::Tensor all = at::empty(sizes, own.options());
  communicator.all_gather(all, padded);
  std::vector<at::Tensor> parts;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    parts.push_back(all.narrow(0, static_cast<std::int64_t>(rank) * most, std::max<std::int64_t>(rows[rank], 0)));
  }
  return at::cat(parts);
}

// Whether the gradient consists of whole rows, as an embedding's does.
bool has_rows(const at::Tensor& gradient) { return gradient.is_sparse() && gradient.sparse_dim() == 1; }

std::int64_t state_of(const at::Tensor& gradient) {
  if (!gradient.defined()) return kNothing;
  return has_rows(gradient) ? gradient._nnz() : kDense;
}

}  // namespace

void SparseGradients::moved(std::size_t /*dense*/, std::size_t sparse) { moved_ = moved_ || sparse > 0; }

void SparseGradients::drops() {
  for (const auto& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

void SparseGradients::meets(bool has_inputs) {
  const at::NoGradGuard no_grad;
  std::vector<std::int64_t> own = {has_inputs ? 1 : 0, moved_ ? 1 : 0};
  for (const auto& parameter : parameters_) {
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (gradient.defined() && has_rows(gradient)) gradient = gradient.coalesce();
    own.push_back(state_of(gradient));
  }
  const auto all = gather_numbers(*context_.communicator, own);
  std::int64_t active = 0, moved = 0, bytes = 0;
  for (const auto& numbers : all) {
    active += numbers[0];
    moved += numbers[1];
  }
  if (active == 0) return;
  if (moved > 0 && !context_.join.is_on()) {
    moved_ = false;
    check_equal_weights(*context_.communicator, parameters_);
  }
  const int divisor =
      context_.join.divides_by_active_ranks() ? static_cast<int>(active) : context_.communicator->world_size();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    std::vector<std::int64_t> rows;
    for (const auto& numbers : all) rows.push_back(numbers[i + 2]);
    const at::Tensor& parameter = parameters_[i].tensor;
    at::Tensor& gradient = parameter.mutable_grad();
    if (std::count(rows.begin(), rows.end(), kDense) != 0) {
      bytes += average_dense(gradient, parameter, divisor);
    } else if (std::count(rows.begin(), rows.end(), kNothing) != static_cast<std::ptrdiff_t>(rows.size())) {
      bytes += average_rows(gradient, parameter, rows, divisor);
    }
  }
  context_.statistics.bytes += bytes;
}

std::int64_t SparseGradients::average_dense(at::Tensor& gradient, const at::Tensor& like, int divisor) {
  at::Tensor sum = !gradient.defined()    ? at::zeros_like(like, at::MemoryFormat::Contiguous)
                   : gradient.is_sparse() ? gradient.to_dense()
                                          : gradient.contiguous();
  context_.communicator->all_reduce(sum);
  gradient = sum.div_(divisor);
  return static_cast<std::int64_t>(sum.nbytes());
}

std::int64_t SparseGradients::average_rows(at::Tensor& gradient, const at::Tensor& like,
                                           const std::vector<std::int64_t>& rows, int divisor) {
  std::vector<std::int64_t> row_sizes = like.sizes().vec();
  row_sizes[0] = 0;
  const bool any = gradient.defined();
  const at::Tensor indices = any ? gradient.indices().select(0, 0) : at::empty({0}, like.options().dtype(at::kLong));
  const at::Tensor values = any ? gradient.values() : at::empty(row_sizes, like.options().requires_grad(false));
  const std::int64_t most = *std::max_element(rows.begin(), rows.end());
  const at::Tensor all_indices = gather_rows(*context_.communicator, indices, rows, most);
  const at::Tensor all_values = gather_rows(*context_.communicator, values, rows, most).div_(divisor);
  gradient = at::sparse_coo_tensor(all_indices.unsqueeze(0), all_values, like.sizes()).coalesce();
  return most * static_cast<std::int64_t>(sizeof(std::int64_t)) +
         most * static_cast<std::int64_t>(like.numel() / std::max<std::int64_t>(like.size(0), 1) * like.element_size());
}

}  // namespace lockstep
