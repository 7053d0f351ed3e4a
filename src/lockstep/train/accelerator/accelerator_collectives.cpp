// Accelerator: operations on tensors over all ranks.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/train/accelerator.h"
#include "lockstep/train/filled_tensor.h"

namespace lockstep {
namespace {

ReduceOp operation_of(const std::string& reduction) {
  if (reduction == "sum") return ReduceOp::Sum;
  if (reduction == "mean") return ReduceOp::Avg;
  if (reduction == "max") return ReduceOp::Max;
  if (reduction == "min") return ReduceOp::Min;
  throw Error(fmt::format("reduction is '{}'", reduction), "Accelerator::reduce", "use sum, mean, max, min or none");
}

}  // namespace

at::Tensor Accelerator::gather(const at::Tensor& tensor) {
  const at::Tensor part = (tensor.dim() == 0 ? tensor.reshape({1}) : tensor).detach().contiguous();
  std::vector<std::int64_t> sizes = part.sizes().vec();
  sizes[0] *= num_processes();
  at::Tensor all = at::empty(sizes, part.options());
  process_group().all_gather(all, part);
  return all;
}

at::Tensor Accelerator::gather_for_metrics(const at::Tensor& tensor) {
  if (tensor.dim() == 0) {
    throw Error("gather_for_metrics was given a scalar, which belongs to no sample", "Accelerator",
                "give it a tensor with an element for each sample of the batch, or use gather");
  }
  // Without repeated samples, some ranks may have a smaller last batch, or none.
  const LoaderPosition* mine = loaders_->empty() ? nullptr : loaders_->back();
  const std::int64_t before = mine != nullptr ? mine->samples_before : -1;
  const std::int64_t end = mine != nullptr && mine->repeats_samples ? mine->dataset_size : -1;
  const std::int64_t unrepeated = mine != nullptr && mine->unrepeated >= 0 ? mine->unrepeated : tensor.size(0);
  const at::Tensor headers = gather(torch::tensor({tensor.size(0), before, end, unrepeated}, at::kLong)).view({-1, 4});
  const std::int64_t largest = headers.select(1, 0).max().item<std::int64_t>();
  const std::int64_t samples_before = headers.select(1, 1).max().item<std::int64_t>();
  const std::int64_t samples = headers.select(1, 2).max().item<std::int64_t>();
  const at::Tensor all = gather(pad_across_processes(tensor));
  const std::int64_t ranks = num_processes();
  const bool is_of_loader = samples_before >= 0;
  std::vector<std::int64_t> kept;
  for (std::int64_t place = 0; place < largest * ranks; ++place) {
    // Samples were dealt to the ranks one by one. Tensors that belong to no loader stay in the order of ranks.
    const std::int64_t rank = is_of_loader ? place % ranks : place / largest;
    const std::int64_t sample = is_of_loader ? place / ranks : place % largest;
    const bool is_there =
        sample < std::min(headers[rank][0].item<std::int64_t>(), headers[rank][3].item<std::int64_t>());
    const bool is_repeated = samples >= 0 && samples_before * ranks + place >= samples;
    if (is_there && !is_repeated) kept.push_back(rank * largest + sample);
  }
  return all.index_select(0, torch::tensor(kept, at::kLong).to(all.device()));
}

at::Tensor Accelerator::reduce(const at::Tensor& tensor, const std::string& reduction, double scale) {
  at::Tensor result = tensor.detach().clone();
  if (reduction != "none") process_group().all_reduce(result, operation_of(reduction));
  return scale == 1 ? result : result * scale;
}

at::Tensor Accelerator::pad_across_processes(const at::Tensor& tensor, std::int64_t dim, double pad_index,
                                             bool pad_first) {
  if (dim < 0) dim += tensor.dim();
  if (dim < 0 || dim >= tensor.dim()) return tensor;  // as in Accelerate, a scalar among tensors is returned unchanged
  at::Tensor largest = at::full({1}, tensor.size(dim), at::kLong);
  process_group().all_reduce(largest, ReduceOp::Max);
  const std::int64_t missing = largest.item<std::int64_t>() - tensor.size(dim);
  if (missing == 0) return tensor;
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes[static_cast<std::size_t>(dim)] += missing;
  const at::Tensor padded = filled_tensor(sizes, pad_index, tensor.options());
  padded.narrow(dim, pad_first ? missing : 0, tensor.size(dim)).copy_(tensor);
  return padded;
}

}  // namespace lockstep
