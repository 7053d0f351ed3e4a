#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// All ranks' texts, by rank. Collective: one exchange of their lengths and, unless all texts are empty, one of their
/// bytes, for any number of ranks.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);

}  // namespace lockstep
