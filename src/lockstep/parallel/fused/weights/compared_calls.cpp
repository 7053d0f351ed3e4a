// ShardedWeights: what the ranks compare when they gather a unit.
#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/parallel/end_group.h"
#include "lockstep/parallel/fused/weights/sharded_weights.h"

namespace lockstep {

// A number that differs, in all likelihood, between ranks that have moved different parameters: these do not gather the
// same units any more.
std::int64_t ShardedWeights::moved_parameters() const {
  std::uint64_t digest = 0;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    for (std::size_t place = 0; place < buckets_[index].parameters.size(); ++place) {
      if (is_moved(index, place)) digest = mix_bits(digest + buckets_[index].parameters[place] + 1);
    }
  }
  return static_cast<std::int64_t>(digest);
}

// Other ranks may still wait in either group for this one, and shall learn the reason.
void ShardedWeights::end_groups(const std::string& what, const std::string& fix) {
  gathering_->abort(what);
  end_group(*communicator_, what, fix);
}

// Layers of equal size would take each other's weights in silence.
void ShardedWeights::check_calls(Unit& unit, std::size_t number) {
  const std::shared_ptr<Work> check = std::exchange(unit.check, nullptr);
  if (!check) {
    throw Error("gathering " + name_of(number) + " has failed before",
                communicator_->membership().where() + ", fused optimizer of stage 3",
                "see the first error of this rank");
  }
  check->wait();
  const std::int64_t* calls = unit.calls.data_ptr<std::int64_t>();
  for (int rank = 0; rank < gathering_->world_size(); ++rank) {
    const auto theirs = static_cast<std::size_t>(calls[2 * rank]);
    if (theirs != number) {
      end_groups(
          fmt::format("rank {} reads {} where rank {} reads {}", rank,
                      theirs < units_.size() ? name_of(theirs) : "another layer", communicator_->rank(),
                      name_of(number)),
          "run the same layers in the same order on every rank, evaluations included; put layers that some ranks "
          "leave out into one unit with others, by FuseOptions::units");
    }
    if (calls[2 * rank + 1] == unit.call.data_ptr<std::int64_t>()[1]) continue;
    end_groups(fmt::format("rank {} and rank {} have not written or loaded the same weights since the last step", rank,
                           communicator_->rank()),
               "write the same weights on every rank, between unshard() and reshard() and without data(), or load the "
               "same file on every rank");
  }
}

std::string ShardedWeights::name_of(std::size_t unit) const {
  const std::size_t count = plan_.units.size();
  const std::string name =
      is_outside(unit) ? "the weights outside of units" : "\"" + plan_.units[unit % count].name + "\"";
  return unit < count ? name : name + " in fp32";
}

}  // namespace lockstep
