#include "tools/lockstep/doctor/doctor_step.h"

#include <algorithm>

namespace lockstep {
namespace {

std::string always(const DoctorOptions& /*options*/) { return ""; }

std::string with_two_devices(const DoctorOptions& options) {
  return options.has_devices() && options.cuda.devices.size() > 1 ? "" : "it needs two CUDA devices";
}

std::string with_devices(const DoctorOptions& options) { return options.has_devices() ? "" : "it needs CUDA devices"; }

}  // namespace

int DoctorOptions::ranks_of_jobs() const {
  if (ranks > 0) return ranks;
  return has_devices() ? static_cast<int>(cuda.devices.size()) : 2;
}

const std::vector<DoctorStep>& doctor_steps() {
  static const std::vector<DoctorStep> steps = {
      {"host", "driver, loaded libraries, limits, /dev/shm, engines", &always, &check_host},
      {"device", "each device by itself: products, copies, small operations", &always, &check_devices},
      {"pairs", "copies between every pair of devices, byte for byte", &with_two_devices, &check_pairs},
      {"group", "all ranks: collectives over each engine, messages with two tags", &always, &check_group},
      {"loss", "a rank is killed in a collective: who is named, and after how long", &always, &check_loss},
      {"contexts", "each rank uses its own device and no other", &with_devices, &check_contexts},
      {"equality", "several ranks and replicas end with the same weights as one", &always, &check_equality},
      {"training", "training steps of BERT by DistributedDataParallel, compared with PyTorch's", &always,
       &check_training},
      {"trainer", "from files to a saved model, by lockstep train", &always, &check_trainer},
  };
  return steps;
}

const std::vector<DoctorPart>& doctor_parts() {
  static const std::vector<DoctorPart> parts = {
      {"device", &device_part}, {"pairs", &pairs_part},       {"replicas", &replicas_part}, {"group", &group_part},
      {"loss", &loss_part},     {"contexts", &contexts_part}, {"equality", &equality_part},
  };
  return parts;
}

}  // namespace lockstep
