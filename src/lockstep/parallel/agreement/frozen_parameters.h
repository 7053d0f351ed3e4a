#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"

namespace lockstep {

/// Which parameters a program has frozen (requires_grad_(false)) after it wrapped the module. All ranks must have
/// frozen the same ones: the average over the ranks would otherwise lack the part of some, and no rank would notice,
/// because a parameter without a gradient is right if a batch does not use it.
class FrozenParameters {
 public:
  /// @param parameters  the same on every rank
  explicit FrozenParameters(std::vector<NamedTensor> parameters) : parameters_(std::move(parameters)) {}

  std::size_t size() const { return parameters_.size(); }
  /// Differs between different sets of parameters that are frozen now. Reads one bit of each parameter.
  std::uint64_t number() const;
  /// A line for each parameter, for RankDifference.
  std::vector<std::string> lines() const;
  /// The ranks' numbers differ: throws on every rank, naming a parameter and two ranks. Collective.
  /// @param takes_part  by rank: its number counts. @throws AgreedError
  [[noreturn]] void throw_difference(Communicator& communicator, const std::vector<bool>& takes_part) const;

  /// What a program should do.
  static const char* fix();

 private:
  std::vector<NamedTensor> parameters_;
};

}  // namespace lockstep
