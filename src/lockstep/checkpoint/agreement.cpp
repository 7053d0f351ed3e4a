#include "lockstep/checkpoint/agreement.h"

#include <fmt/format.h>

#include <exception>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/comm/gather_texts.h"
#include "lockstep/net/long_work.h"

namespace lockstep {

void run_together(Communicator& communicator, const std::string& what, const std::function<void()>& body) {
  std::exception_ptr mine;
  std::string problem;
  FailureCause cause;
  try {
    const LongWork work(communicator.membership(), what);
    body();
  } catch (const std::exception& error) {
    mine = std::current_exception();
    problem = error.what();
    if (const FailureCause* const known = cause_of(error)) cause = *known;
    if (problem.empty()) problem = "an exception without a text";
  } catch (...) {
    mine = std::current_exception();
    problem = "an exception that is not a std::exception";
  }
  if (mine != nullptr) record_failure(problem, cause);  // before other ranks learn of it
  const std::vector<std::string> problems = gather_texts(communicator, problem);
  if (mine != nullptr) std::rethrow_exception(mine);
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    if (problems[rank].empty()) continue;
    const Membership& membership = communicator.membership();
    throw_recorded(Error(fmt::format("{}: rank {} failed: {}", what, rank, problems[rank]), membership.where(),
                         "fix it on that rank"),
                   {FailureCause::Kind::AbortedByPeer, membership.peers[rank].global_rank});
  }
  forget_failure();  // of an earlier call: the program caught it and continued
}

void run_together(const std::shared_ptr<Communicator>& group, const std::string& what,
                  const std::function<void()>& body) {
  if (group) {
    run_together(*group, what, body);
  } else {
    body();
  }
}

}  // namespace lockstep
