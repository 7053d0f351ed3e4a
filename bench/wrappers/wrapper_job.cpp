#include "bench/wrappers/wrapper_job.h"

#include <string>
#include <utility>

namespace lockstep {

WrapperJob::WrapperJob(std::function<std::shared_ptr<Model>()> make_model, Batch batch, int replicas,
                       MeasuredSteps measured)
    : make_model_(std::move(make_model)),
      batch_(std::move(batch)),
      replicas_(replicas),
      steps_(measured),
      parts_(static_cast<std::size_t>(replicas)) {}

std::vector<ReplicaDevice> WrapperJob::devices() const {
  std::vector<ReplicaDevice> devices;
  for (int i = 0; i < replicas_; ++i) devices.emplace_back("cpu:" + std::to_string(i));
  return devices;
}

TimedBatches& WrapperJob::batches(int rank, int world_size) {
  Batch part;
  for (const auto& [name, tensor] : batch_) {
    const std::int64_t size = tensor.size(0);
    part[name] = tensor.slice(0, size * rank / world_size, size * (rank + 1) / world_size);
  }
  auto& slot = parts_.at(static_cast<std::size_t>(rank));
  slot = std::make_unique<TimedBatches>(std::move(part), steps_);
  return *slot;
}

}  // namespace lockstep
