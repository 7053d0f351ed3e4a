#pragma once

#include <memory>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/dataset.h"

namespace lockstep {

/// Compares what the ranks read, for a loop of the program's own: the number of samples, and the samples, in their
/// order. A dataset that writes digests (Dataset::write_digests) is compared as a whole, which takes less than a
/// hundredth of the time of reading it. Some samples of another one are read, each twice: for 50 ms, but four of them
/// in any case; samples that differ when they are read again are not compared. Trainer, a loader that Accelerator
/// prepares, and `ElasticState::data` are compared so without this call. Collective.
/// @param dataset  as the samples are before ranks share them out; null on some ranks is a difference
/// @param file  where the samples are from, for messages
/// @throws UsageError  on every rank, with the ranks and the first difference
void require_same_data(Communicator& group, const std::shared_ptr<const Dataset>& dataset,
                       const std::string& file = "");

}  // namespace lockstep
