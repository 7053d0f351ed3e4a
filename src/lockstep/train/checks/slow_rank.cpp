#include "lockstep/train/checks/slow_rank.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/text/printable.h"

namespace lockstep {

std::optional<SlowRank> slow_rank_of(const std::vector<double>& waited_s, double training_s) {
  if (waited_s.size() < 2 || training_s < kShortestSeconds) return std::nullopt;
  const auto least = std::min_element(waited_s.begin(), waited_s.end());
  double excess_s = 0;
  for (const double each : waited_s) excess_s += each - *least;
  SlowRank slow;
  slow.rank = static_cast<int>(least - waited_s.begin());
  slow.share = excess_s / static_cast<double>(waited_s.size() - 1) / training_s;
  if (slow.share < kSlowShare) return std::nullopt;
  return slow;
}

std::string slow_rank_line(Communicator& group, double waited_s, double training_s) {
  const auto doubles = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor everyone = at::empty({group.world_size()}, doubles);
  group.all_gather(everyone, at::full({1}, waited_s, doubles));
  const double* const first = everyone.data_ptr<double>();
  const auto slow = slow_rank_of({first, first + group.world_size()}, training_s);
  if (!slow) return "";
  const Peer& peer = group.membership().peers[static_cast<std::size_t>(slow->rank)];
  return fmt::format(
      "Rank {} on {} was slow: the other ranks waited for it during {:.0f} % of the training. Check that host's load "
      "and cores, and how long the rank's batches are; --trace shows the steps.",
      slow->rank, printable(peer.host), 100 * slow->share);
}

}  // namespace lockstep
