#include "lockstep/elastic/standing.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

Standing compare_positions(Communicator& group, std::int64_t position, bool has_finished) {
  const auto longs = at::TensorOptions().dtype(at::kLong);
  at::Tensor all = at::tensor({position, std::int64_t{has_finished ? 1 : 0}}, longs);
  if (group.world_size() > 1) {
    const at::Tensor mine = all;
    all = at::empty({group.world_size(), 2}, longs);
    group.all_gather(all, mine);
  }
  const auto* const numbers = all.data_ptr<std::int64_t>();
  std::vector<MemberPosition> members;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    members.push_back({numbers[2 * rank], numbers[2 * rank + 1] != 0});
  }
  const Standing standing = standing_of(members);
  if (standing.newest >= 0) return standing;
  throw Error("all ranks that had the training's state are lost", group.membership().where(),
              "resume from the last checkpoint");
}

}  // namespace lockstep
