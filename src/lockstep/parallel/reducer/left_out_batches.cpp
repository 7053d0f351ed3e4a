#include "lockstep/parallel/reducer/left_out_batches.h"

#include "lockstep/base/log.h"
#include "lockstep/parallel/agreement/rank_difference.h"

namespace lockstep {

void warn_of_left_out_batches(Communicator& communicator, const std::string& made,
                              const std::vector<bool>& takes_part) {
  const auto difference = first_difference_among(communicator, {made}, takes_part);
  if (!difference || communicator.rank() != 0) return;
  log_warning(
      "rank {} has {}, and rank {} has {}. If a rank leaves out a batch (`continue` for a loss that is not finite), "
      "its "
      "next backward is paired with an older one of the others, and ranks end at different times: decide it by a "
      "number that all ranks have, such as the mean of the losses, all_reduce(loss, ReduceOp::Avg). If a rank "
      "evaluates "
      "alone, let it do so without gradients (torch::NoGradGuard), or in evaluation mode",
      difference->first_rank, difference->first, difference->rank, difference->other);
}

}  // namespace lockstep
