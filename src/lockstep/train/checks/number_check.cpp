#include "lockstep/train/checks/number_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <vector>

#include "lockstep/base/log.h"

namespace lockstep {

void NumberCheck::check_loss(double loss, double loss_of_rank) {
  const bool is_number = std::isfinite(loss);
  if (!is_number && last_was_number_) report(loss_of_rank);
  last_was_number_ = is_number;
}

void NumberCheck::report(double loss_of_rank) {
  at::Tensor all = torch::full({context_.world_size()}, loss_of_rank, torch::kDouble);
  if (context_.world_size() > 1) context_.group->all_gather(all, torch::full({1}, loss_of_rank, torch::kDouble));
  std::vector<int> ranks;
  for (int rank = 0; rank < context_.world_size(); ++rank) {
    if (!std::isfinite(all[rank].item<double>())) ranks.push_back(rank);
  }
  if (context_.rank() != 0) return;
  log_warning(
      "the loss is NaN or infinite in step {} on rank {}: lower learning_rate or max_grad_norm, "
      "or look at the data of this step",
      context_.state.global_step + 1, fmt::join(ranks, ", "));
}

}  // namespace lockstep
