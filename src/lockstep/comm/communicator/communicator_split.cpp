// Communicator::split: exchanges the colors, and makes the new groups.
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator/communicator_state.h"
#include "lockstep/comm/factory.h"
#include "lockstep/net/subgroup.h"

namespace lockstep {

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  const auto options = at::TensorOptions().dtype(at::kLong);
  at::Tensor mine = at::empty({2}, options);
  mine.data_ptr<std::int64_t>()[0] = color;
  mine.data_ptr<std::int64_t>()[1] = key;
  at::Tensor all = at::empty({2 * world_size()}, options);
  all_gather(all, mine);
  const int number = state_->splits++;  // equal on every rank, because every rank makes the same calls
  if (color < 0) return nullptr;

  const std::int64_t* values = all.data_ptr<std::int64_t>();
  std::vector<std::pair<std::int64_t, int>> members;  // (key, rank here), which defines the new order
  for (int other = 0; other < world_size(); ++other) {
    if (values[2 * other] == color) members.emplace_back(values[2 * other + 1], other);
  }
  std::sort(members.begin(), members.end());

  std::vector<int> ranks;
  for (const auto& [order, other] : members) ranks.push_back(other);
  Membership group = subgroup(membership_, ranks, fmt::format("split{}.{}", number, color));
  group.group = fmt::format("{}/{}.{}", membership_.group, number, color);
  c10::OptionalDeviceGuard current;  // device engines connect on the current device
  if (!device().is_cpu()) current.reset_device(device());
  return make_communicator(engine_of_parts(), std::move(group));
}

}  // namespace lockstep
