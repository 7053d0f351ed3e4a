#include "lockstep/parallel/fused/weights/compared_calls.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/end_group.h"

namespace lockstep {

void ComparedCalls::send(std::size_t number, std::int64_t moved) {
  Call& call = calls_[number];
  call.own = at::empty({2}, at::TensorOptions().dtype(at::kLong));
  call.own.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(number);
  call.own.data_ptr<std::int64_t>()[1] = moved;
  call.all = at::empty({2 * group_.world_size()}, call.own.options());
  call.work = group_.all_gather_async(call.all, call.own);
}

void ComparedCalls::check(std::size_t number) {
  Call& call = calls_[number];
  const std::shared_ptr<Work> work = std::exchange(call.work, nullptr);
  if (!work) {
    throw Error("gathering " + name_of(number) + " has failed before",
                communicator_.membership().where() + ", fused optimizer of stage 3",
                "see the first error of this rank");
  }
  work->wait();
  const std::int64_t* all = call.all.data_ptr<std::int64_t>();
  for (int rank = 0; rank < group_.world_size(); ++rank) {
    const auto theirs = static_cast<std::size_t>(all[2 * rank]);
    if (theirs != number) {
      end_groups(
          fmt::format("rank {} reads {} where rank {} reads {}", rank,
                      theirs < calls_.size() ? name_of(theirs) : "another layer", communicator_.rank(),
                      name_of(number)),
          "run the same layers in the same order on every rank, evaluations included; put layers that some ranks "
          "leave out into one unit with others, by FuseOptions::units");
    }
    if (all[2 * rank + 1] == call.own.data_ptr<std::int64_t>()[1]) continue;
    end_groups(fmt::format("rank {} and rank {} have not written or loaded the same weights since the last step", rank,
                           communicator_.rank()),
               "write the same weights on every rank, between unshard() and reshard() and without data(), or load the "
               "same file on every rank");
  }
}

// Other ranks may still wait in either group for this one, and shall learn the reason.
void ComparedCalls::end_groups(const std::string& what, const std::string& fix) {
  group_.abort(what);
  end_group(communicator_, what, fix);
}

std::string ComparedCalls::name_of(std::size_t number) const {
  const std::size_t count = units_.units.size();
  const std::size_t unit = number % count;
  const std::string name = unit == 0 ? "the weights outside of units" : "\"" + units_.units[unit].name + "\"";
  return number < count ? name : name + " in fp32";
}

}  // namespace lockstep
