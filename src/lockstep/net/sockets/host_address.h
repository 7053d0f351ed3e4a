#pragma once

#include <string>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// A numeric address under which other hosts are likely to reach this one: what its name resolves to, else that of its
/// first network interface; loopback where there is nothing else.
std::string address_for_other_hosts(Deadline deadline);

}  // namespace lockstep
