#include "lockstep/parallel/hooks/same_settings.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstdint>

#include "lockstep/base/error.h"
#include "lockstep/base/random/hash_bytes.h"
#include "lockstep/parallel/agreement/rank_difference.h"

namespace lockstep {

void require_same_settings(Communicator& communicator, const std::string& of, const std::vector<std::string>& lines) {
  if (communicator.world_size() == 1) return;
  std::uint64_t number = 0;
  for (const std::string& line : lines) number = hash_bytes(line.data(), line.size(), number);
  const at::Tensor mine = at::tensor({static_cast<std::int64_t>(number)}, at::TensorOptions().dtype(at::kLong));
  const at::Tensor all = at::empty({communicator.world_size()}, mine.options());
  communicator.all_gather(all, mine);
  const auto* const numbers = all.data_ptr<std::int64_t>();
  if (std::all_of(numbers, numbers + communicator.world_size(),
                  [&](std::int64_t each) { return each == numbers[0]; })) {
    return;
  }
  const auto difference = first_difference(communicator, lines);
  throw Error("the ranks disagree on " + of + ": " + (difference ? difference->text() : "their settings differ"),
              communicator.membership().where() + ", " + of,
              "give it the same options on every rank, and make the same number of steps");
}

}  // namespace lockstep
