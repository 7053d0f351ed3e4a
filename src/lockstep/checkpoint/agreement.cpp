#include "lockstep/checkpoint/agreement.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/net/long_work.h"

namespace lockstep {
namespace {

at::Tensor to_device(const Communicator& communicator, const at::Tensor& tensor) {
  return tensor.to(c10::Device(communicator.device_type()));
}

}  // namespace

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text) {
  if (communicator.world_size() == 1) return {text};
  const std::int64_t size = communicator.world_size();
  at::Tensor mine = at::empty({1}, at::kLong);
  mine.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(text.size());
  at::Tensor lengths = to_device(communicator, at::empty({size}, at::kLong));
  communicator.all_gather(lengths, to_device(communicator, mine));
  lengths = lengths.cpu();
  const std::int64_t* const length = lengths.data_ptr<std::int64_t>();
  std::vector<std::string> texts(static_cast<std::size_t>(size));
  const std::int64_t longest = *std::max_element(length, length + size);
  if (longest == 0) return texts;
  at::Tensor padded = at::zeros({longest}, at::kByte);
  if (!text.empty()) std::memcpy(padded.data_ptr(), text.data(), text.size());
  at::Tensor bytes = to_device(communicator, at::empty({size * longest}, at::kByte));
  communicator.all_gather(bytes, to_device(communicator, padded));
  bytes = bytes.cpu();
  const auto* const first = static_cast<const char*>(bytes.data_ptr());
  for (std::int64_t rank = 0; rank < size; ++rank) {
    texts[static_cast<std::size_t>(rank)].assign(first + rank * longest, static_cast<std::size_t>(length[rank]));
  }
  return texts;
}

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
                         "mend it on that rank"),
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
