#include "lockstep/parallel/reducer/unused_forwards.h"

#include "lockstep/base/log.h"
#include "lockstep/base/text/count_of.h"
#include "lockstep/parallel/agreement/rank_difference.h"

namespace lockstep {

std::uint64_t UnusedForwards::take() {
  const std::uint64_t now = *unused_;
  return now - std::exchange(before_, now);
}

std::string UnusedForwards::text_of(std::uint64_t forwards, const char* since) {
  return "made " + count_of(forwards, "forward") + " without a backward since " + since;
}

void UnusedForwards::warn(Communicator& communicator, const std::string& made, const std::vector<bool>& takes_part) {
  if (std::exchange(has_warned_, true)) return;
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
