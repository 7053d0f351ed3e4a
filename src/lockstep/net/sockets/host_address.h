#pragma once

#include <string>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// A numeric address at which other hosts can probably reach this one: the address that its name resolves to, else the
/// one of its first network interface, else loopback.
std::string address_for_other_hosts(Deadline deadline);

}  // namespace lockstep
