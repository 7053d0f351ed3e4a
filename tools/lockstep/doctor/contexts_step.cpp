// Step contexts: a context takes some hundreds of MB of a device, so a rank must have one on its own device alone.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/comm/local_device.h"
#include "lockstep/comm/process_group.h"
#include "tools/lockstep/doctor/doctor_job.h"
#include "tools/lockstep/doctor/part_clock.h"

namespace lockstep {

nlohmann::ordered_json contexts_part(const DoctorPlace& /*place*/) {
  init_process_group();
  const c10::Device device = use_local_device();
  const at::Tensor values = at::ones({1000}, at::TensorOptions(device));
  default_group()->all_reduce(values);
  wait_for_device(device);
  const std::vector<int> used = devices_with_context();
  if (used != std::vector<int>{device.index()}) {
    throw Error(fmt::format("it has contexts on the devices {}, and needs one on {} alone", fmt::join(used, ", "),
                            device.str()),
                default_group()->membership().where(), "report it, with the file that --output writes");
  }
  return {{"contexts_of_each_rank", used.size()}};
}

StepFigures check_contexts(const DoctorOptions& options) {
  StepFigures found;
  const int ranks = std::min(options.ranks_of_jobs(), static_cast<int>(options.cuda.devices.size()));
  found.figures = run_part_on_ranks("contexts", ranks, options);
  found.line = "one context for each rank, on its own device";
  return found;
}

}  // namespace lockstep
