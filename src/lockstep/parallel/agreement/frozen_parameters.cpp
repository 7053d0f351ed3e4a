#include "lockstep/parallel/agreement/frozen_parameters.h"

#include <fmt/format.h>

#include "lockstep/base/failure_cause.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/parallel/agreement/agreed_error.h"
#include "lockstep/parallel/agreement/rank_difference.h"

namespace lockstep {

std::uint64_t FrozenParameters::number() const {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].tensor.requires_grad()) mix_into(number, i);
  }
  return number;
}

std::vector<std::string> FrozenParameters::lines() const {
  std::vector<std::string> lines;
  for (const NamedTensor& each : parameters_) {
    lines.push_back(fmt::format("parameter \"{}\" {}", each.name,
                                each.tensor.requires_grad() ? "in training" : "frozen (requires_grad_(false))"));
  }
  return lines;
}

void FrozenParameters::throw_difference(Communicator& communicator, const std::vector<bool>& takes_part) const {
  const auto difference = first_difference_among(communicator, lines(), takes_part);
  throw_caused(AgreedError("the ranks have frozen different parameters, so a gradient would lack the part of some: " +
                               (difference ? difference->text() : std::string("they froze others meanwhile")),
                           communicator.membership().where() + ", DistributedDataParallel", fix()),
               {FailureCause::Kind::Disagreement, -1});
}

const char* FrozenParameters::fix() {
  return "call requires_grad_ for the same parameters on every rank, in the same step, and before forward";
}

}  // namespace lockstep
