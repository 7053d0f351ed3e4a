#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/weights/weight_units.h"

namespace lockstep {

/// What the ranks compare when they gather a unit: which one it is, because layers of equal size would take each
/// other's weights in silence, and which parameters each rank has moved.
class ComparedCalls {
 public:
  /// What is given must outlive this object. @param numbers  of units, as UnitGathering counts them
  ComparedCalls(const WeightUnits& units, std::size_t numbers, Communicator& communicator, Communicator& group)
      : units_(units), communicator_(communicator), group_(group), calls_(numbers) {}

  /// This rank is about to gather the unit. Collective in the group. @param moved  ShardedBuckets::moved_parameters
  void send(std::size_t number, std::int64_t moved);
  /// Waits for what all ranks have sent. @throws Error  if ranks differ; both groups then end
  void check(std::size_t number);

 private:
  struct Call {
    at::Tensor own, all;  // by rank: number and what was moved
    std::shared_ptr<Work> work;
  };

  std::string name_of(std::size_t number) const;
  [[noreturn]] void end_groups(const std::string& what, const std::string& fix);

  const WeightUnits& units_;
  Communicator& communicator_;
  Communicator& group_;
  std::vector<Call> calls_;
};

}  // namespace lockstep
