// Communicator::split: who gave which color, and the new groups that follow from it.
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator_state.h"
#include "lockstep/comm/factory.h"
#include "lockstep/net/prefix_store.h"

namespace lockstep {

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  const auto options = at::TensorOptions().dtype(at::kLong);
  at::Tensor mine = at::empty({2}, options);
  mine.data_ptr<std::int64_t>()[0] = color;
  mine.data_ptr<std::int64_t>()[1] = key;
  at::Tensor all = at::empty({2 * world_size()}, options);
  all_gather(all, mine);
  const int number = state_->splits++;  // the same on every rank, because every rank makes the same calls
  if (color < 0) return nullptr;

  const std::int64_t* values = all.data_ptr<std::int64_t>();
  std::vector<std::pair<std::int64_t, int>> members;  // (key, rank here), which is the new order
  for (int other = 0; other < world_size(); ++other) {
    if (values[2 * other] == color) members.emplace_back(values[2 * other + 1], other);
  }
  std::sort(members.begin(), members.end());

  Membership group = membership_;
  group.group = fmt::format("{}/{}.{}", membership_.group, number, color);
  group.store = std::make_shared<PrefixStore>(membership_.store, fmt::format("split{}.{}", number, color));
  group.world_size = static_cast<int>(members.size());
  group.peers.clear();
  for (const auto& [order, other] : members) {
    if (other == rank()) group.rank = static_cast<int>(group.peers.size());
    group.peers.push_back(membership_.peers[static_cast<std::size_t>(other)]);
  }
  return make_communicator(engine(), std::move(group));
}

}  // namespace lockstep
