#include "lockstep/train/slices/gathered_outputs.h"

#include <torch/types.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/data/padding_collator.h"
#include "lockstep/parallel/slices/slice_tree.h"
#include "lockstep/train/filled_tensor.h"

namespace lockstep {
namespace {

// A rank without samples must learn the others' dtype, number of dimensions, and sizes.
constexpr std::int64_t kMostDimensions = 8;
constexpr std::int64_t kOtherRows = kMostDimensions + 2;  // its place among these numbers: see below

// Whether a share's outputs have another number of rows than the share has samples: nobody knows then which row is
// which sample's.
bool has_other_rows(const std::vector<at::Tensor>& parts, const SampleShares& shares, std::int64_t samples) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t share = shares.own.begin + static_cast<std::int64_t>(i);
    const std::int64_t rows = (samples - share + shares.all - 1) / shares.all;
    if (parts[i].defined() && parts[i].size(0) != rows) return true;
  }
  return false;
}

// The dtype, the number of dimensions, and the largest sizes of a rank's outputs.
at::Tensor shape_of(const std::vector<at::Tensor>& parts) {
  at::Tensor shape = torch::zeros({kOtherRows + 1}, torch::kLong);
  auto* const numbers = shape.data_ptr<std::int64_t>();
  for (const at::Tensor& part : parts) {
    if (!part.defined()) continue;
    if (part.dim() > kMostDimensions) {
      throw Error("outputs of " + std::to_string(part.dim()) + " dimensions", "evaluation",
                  "return outputs of at most 8 dimensions");
    }
    numbers[0] = static_cast<std::int64_t>(part.scalar_type());
    numbers[1] = part.dim();
    for (std::int64_t d = 1; d < part.dim(); ++d) numbers[d + 1] = std::max(numbers[d + 1], part.size(d));
  }
  return shape;
}

}  // namespace

SampleShares shares_of_rank(std::int64_t virtual_shards, const Communicator* group) {
  SampleShares shares;
  shares.rank = group == nullptr ? 0 : group->rank();
  shares.ranks = group == nullptr ? 1 : group->world_size();
  shares.all = virtual_shards > 0 ? virtual_shards : shares.ranks;
  shares.own = SliceTree(shares.all).run(shares.rank, shares.ranks);
  return shares;
}

at::Tensor concatenate_padded(const std::vector<at::Tensor>& parts) {
  if (parts.empty()) return {};
  std::vector<std::int64_t> sizes = parts.front().sizes().vec();
  if (sizes.empty()) {
    throw Error("a batch's outputs are a single number", "evaluation",
                "return one row for each sample, from forward or by set_predictions; if only the loss is wanted, set "
                "prediction_loss_only");
  }
  for (const at::Tensor& part : parts) {
    if (part.dim() != static_cast<std::int64_t>(sizes.size())) {
      throw Error("outputs of two batches differ in their number of dimensions", "evaluation",
                  "return outputs with the batch as first dimension");
    }
    for (std::size_t d = 1; d < sizes.size(); ++d) {
      sizes[d] = std::max(sizes[d], part.size(static_cast<std::int64_t>(d)));
    }
  }
  sizes[0] = 0;
  for (const at::Tensor& part : parts) sizes[0] += part.size(0);
  at::Tensor all = filled_tensor(sizes, kIgnoredLabel, parts.front().options());
  std::int64_t begin = 0;
  for (const at::Tensor& part : parts) {
    put_into(all.narrow(0, begin, part.size(0)), part);
    begin += part.size(0);
  }
  return all;
}

at::Tensor gather_in_order(const std::vector<at::Tensor>& parts, const SampleShares& shares, std::int64_t samples,
                           Communicator* group) {
  if (shares.all == 1) return parts.front();
  const at::Tensor shape = shape_of(parts);
  auto* const numbers = shape.data_ptr<std::int64_t>();
  numbers[kOtherRows] = has_other_rows(parts, shares, samples) ? 1 : 0;
  if (shares.ranks > 1) group->all_reduce(shape, ReduceOp::Max);
  if (numbers[kOtherRows] != 0) {
    throw Error(
        "outputs or labels do not have one row for each sample, so those of several ranks cannot be put in order",
        "evaluation of " + std::to_string(samples) + " samples in " + std::to_string(shares.all) + " shares",
        "return one row for each sample, from forward or by set_predictions, and from the collator; if only "
        "the loss is wanted, set prediction_loss_only");
  }
  if (numbers[1] == 0) return {};
  const auto dtype = static_cast<at::ScalarType>(numbers[0]);
  const SliceTree tree(shares.all);
  const std::int64_t longest = tree.run(0, shares.ranks).size();
  const std::int64_t rows = (samples + shares.all - 1) / shares.all;
  std::vector<std::int64_t> sizes{longest, rows};
  for (std::int64_t d = 1; d < numbers[1]; ++d) sizes.push_back(numbers[d + 1]);
  const at::Tensor mine = filled_tensor(sizes, kIgnoredLabel, at::TensorOptions(dtype));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].defined()) put_into(mine[static_cast<std::int64_t>(i)], parts[i]);
  }
  sizes.insert(sizes.begin(), shares.ranks);
  at::Tensor all = mine.unsqueeze(0);
  if (shares.ranks > 1) {
    all = at::empty(sizes, dtype);
    group->all_gather(all, mine);
  }
  std::vector<at::Tensor> of_shares;
  for (int rank = 0; rank < shares.ranks; ++rank) {
    for (std::int64_t i = 0; i < tree.run(rank, shares.ranks).size(); ++i) of_shares.push_back(all[rank][i]);
  }
  return torch::stack(of_shares, 1).flatten(0, 1).slice(0, 0, samples).contiguous();
}

}  // namespace lockstep
