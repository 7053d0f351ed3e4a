#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/dataset.h"
#include "lockstep/parallel/agreement/data_agreement.h"

namespace lockstep {

/// What the steps of a loop that survives lost ranks read (ElasticState::data), compared in each group.
class LoopData {
 public:
  explicit LoopData(const std::vector<std::shared_ptr<const Dataset>>& data);

  /// Why this rank must not continue.
  struct Refusal {
    std::string what, where, fix;
  };
  /// Collective. If ranks with a state differ, all ranks are refused; else those that differ and have none yet.
  /// @param position  steps that this rank has made; negative: it has no state yet
  std::optional<Refusal> compare(Communicator& ranks, std::int64_t position) const;

 private:
  DataAgreement data_;
};

}  // namespace lockstep
