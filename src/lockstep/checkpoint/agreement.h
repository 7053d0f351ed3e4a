#pragma once

#include <functional>
#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// All ranks' texts, by rank. Collective: one exchange of their lengths and, unless all are empty, one of their bytes,
/// whatever the number of ranks.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);

/// Runs `body` on every rank. Collective: if it throws on one of them, every rank throws that error, with the rank, as
/// soon as its own `body` has ended. A rank whose `body` takes longer than the group's timeout is waited for as long as
/// its process lives (`LongWork`), so `body` must not make collective calls. The launcher learns whose failure it was
/// (see `record_failure`), also where the program catches the error and ends with an exit code.
/// @param what  for logs and errors, "saving the model"
void run_together(Communicator& communicator, const std::string& what, const std::function<void()>& body);

}  // namespace lockstep
