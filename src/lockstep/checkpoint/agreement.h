#pragma once

#include <functional>
#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// `text` of `root`, on every rank. Collective.
std::string broadcast_text(Communicator& communicator, const std::string& text, int root = 0);

/// All ranks' texts, by rank. Collective.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);

/// Runs `body` on every rank. Collective: where it throws on one of them, every rank throws that error, with the rank.
void run_together(Communicator& communicator, const std::function<void()>& body);

}  // namespace lockstep
