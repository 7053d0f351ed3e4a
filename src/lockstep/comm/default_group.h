#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Makes `group` the default group of this process, in place of the one before, if there was one: the ranks of the job
/// have changed. @param store  of the job, to be left in order; null: as before
void replace_default_group(std::shared_ptr<Communicator> group, std::shared_ptr<Store> store);

}  // namespace lockstep
