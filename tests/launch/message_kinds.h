#pragma once

#include "lockstep/launch/elastic/messages.h"

namespace lockstep {

using Report = HostReport::Kind;
using Order = HostOrder::Kind;

}  // namespace lockstep
