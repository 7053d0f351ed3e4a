// Step loss: a rank is killed while the others wait for it in a collective.
#include <fmt/format.h>
#include <signal.h>
#include <torch/types.h>

#include <chrono>

#include "lockstep/base/error.h"
#include "lockstep/comm/local_device.h"
#include "lockstep/comm/process_group.h"
#include "tools/lockstep/doctor/doctor_job.h"
#include "tools/lockstep/doctor/part_clock.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLongestS = 30;

// The error with which a collective ends that a rank has not joined.
std::string error_of_lost_rank(Communicator& group, const at::Tensor& values) {
  try {
    group.all_reduce(values);
  } catch (const Error& error) {
    return error.what();
  }
  throw Error("a collective succeeded, although a rank had been killed before it", group.membership().where(),
              "report it, with the file that --output writes");
}

}  // namespace

Json loss_part(const DoctorPlace& place) {
  ProcessGroupOptions joining;
  joining.init_method = place.meeting;
  init_process_group(joining);
  const c10::Device device = use_local_device();
  const std::shared_ptr<Communicator> group = default_group();
  const at::Tensor values = at::ones({1000}, at::TensorOptions(device));
  group->all_reduce(values);
  group->barrier();
  const int last = group->world_size() - 1;
  if (group->rank() == last) ::raise(SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = error_of_lost_rank(*group, values);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::string name = fmt::format("rank {}", last);
  if (text.find(name) == std::string::npos || seconds > kLongestS) {
    throw Error(fmt::format("after the loss of {} this error came after {:.1f} s: {}", name, seconds, text),
                group->membership().where(), "report it, with the file that --output writes");
  }
  // The device must not be left with a kernel that waits for the lost rank.
  const double sum = at::ones({1000}, at::TensorOptions(device)).sum().item<double>();
  wait_for_device(device);
  if (sum != 1000) throw Error("the device computes wrong values after the loss", device.str(), "report it");
  return {{"named", name}, {"after_s", seconds}};
}

StepFigures check_loss(const DoctorOptions& options) {
  StepFigures found;
  const int ranks = options.ranks_of_jobs();
  found.figures = run_part_on_lone_ranks("loss", ranks, options);
  found.line = fmt::format("{} was named after {:.2f} s", found.figures["named"].get<std::string>(),
                           found.figures["after_s"].get<double>());
  return found;
}

}  // namespace lockstep
