#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Runs `body` on every rank. Collective: if it throws on one rank, every rank throws that error, with the rank, as
/// soon as its own `body` has ended. If a rank's `body` takes longer than the group's timeout, the others wait as long
/// as its process lives (`LongWork`), so `body` must not make collective calls. The launcher learns which rank failed
/// (see `record_failure`), even if the program catches the error and ends with an exit code.
/// @param what  for logs and errors, "saving the model"
void run_together(Communicator& communicator, const std::string& what, const std::function<void()>& body);

/// The same for a job that may be a single process.
/// @param group  null: one process, which runs `body` and nothing else
void run_together(const std::shared_ptr<Communicator>& group, const std::string& what,
                  const std::function<void()>& body);

}  // namespace lockstep
