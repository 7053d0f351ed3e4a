#include "lockstep/detail/replicas/loss_hint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/log.h"

namespace lockstep {

void LossHint::give(const std::vector<std::int64_t>& samples) {
  if (std::equal(samples.begin() + 1, samples.end(), samples.begin())) return;
  if (was_given_->exchange(true)) return;
  log_warning(
      "DataParallel: the replicas had chunks of {} samples, and each returned a scalar of the graph. If these are mean "
      "losses, their mean is not the loss of the batch; `lockstep::parallel_loss(dp, lockstep::own_loss, "
      "inputs...).mean()` in place of `dp(inputs...).mean()` is, and so is a lockstep::LossSum in place of the scalar",
      fmt::join(samples, ", "));
}

}  // namespace lockstep
