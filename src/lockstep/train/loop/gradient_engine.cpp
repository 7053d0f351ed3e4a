#include "lockstep/train/loop/gradient_engine.h"

#include <fmt/format.h>
#include <torch/cuda.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/core_count.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/trace/trace_recorder.h"
#include "lockstep/replicas/data_parallel.h"
#include "lockstep/replicas/parallel_loss.h"
#include "lockstep/train/arguments/fsdp_arguments.h"
#include "lockstep/train/batch_device.h"
#include "lockstep/train/ddp/ddp_engine.h"
#include "lockstep/train/loop/replica_trace.h"
#include "lockstep/train/slices/slice_engine.h"

namespace lockstep {
namespace {

// An engine of one process.
class EngineAlone : public GradientEngine {
 protected:
  using GradientEngine::GradientEngine;

  // Without ranks, nobody else records it.
  static void traced_backward(const at::Tensor& sum, const MicroBatch& how) {
    {
      const trace_recorder::Scope trace(TraceKind::Backward);
      backward_scaled(sum, how);
    }
    if (how.is_last) trace_recorder::end_step();
  }
};

class SingleEngine : public EngineAlone {
 public:
  using EngineAlone::EngineAlone;

  LossSum run(const Batch& batch, const MicroBatch& how) override {
    const LossSum result = [&] {
      const trace_recorder::Scope trace(TraceKind::Forward);
      return loss_of(model().forward(batch), batch);
    }();
    traced_backward(result.sum, how);
    return {result.sum.detach(), result.count};
  }
};

class ReplicaEngine : public EngineAlone {
 public:
  ReplicaEngine(const std::shared_ptr<TrainableModel>& model, double label_smoothing_factor,
                std::vector<ReplicaDevice> devices)
      : EngineAlone(model, label_smoothing_factor), dp_(model->module(), std::move(devices)) {
    for (const ReplicaDevice& device : dp_.device_ids()) devices_.push_back(device.name());
  }

  LossSum run(const Batch& batch, const MicroBatch& how) override {
    dp_.set_trace(begin_trace());
    const ReplicaLosses losses = [&] {
      const trace_recorder::Scope trace(TraceKind::Forward);
      return parallel_loss(
          dp_,
          [&](std::shared_ptr<torch::nn::Module>& replica, const Batch& chunk) {
            return loss_of(model().forward_on(*replica, chunk), chunk);
          },
          batch);
    }();
    const at::Tensor sum = losses.sum();
    traced_backward(sum, how);
    if (trace_recorder::is_recording()) add_to_trace(step_, devices_);
    dp_.set_trace(nullptr);
    return {sum.detach(), losses.counts().sum()};
  }

 private:
  // For a trace of this process.
  StepTrace* begin_trace() {
    trace_recorder::touch_step();
    if (!trace_recorder::is_recording()) return nullptr;
    step_.clear();
    return &step_;
  }

  std::vector<std::string> devices_;
  StepTrace step_;
  DataParallel<std::shared_ptr<torch::nn::Module>> dp_;
};

// Names the way to use more of the host, if nobody chose one process.
std::string text_of_one_replica(const TrainingArguments& args, TrainableModel& model, bool is_rank) {
  const std::string text = "one process, one replica";
  const bool is_chosen = args.parallel_mode != "auto" || args.replicas > 0 || is_rank;
  const int cores = compute_cores();
  if (is_chosen || cores < 2 || device_of(model).is_cuda()) return text;
  return text + fmt::format("; `lockstep run --nproc-per-node {}` before the command trains on {} ranks", cores, cores);
}

// The number of replicas in one process, if the arguments do not give it. As with Hugging Face's Trainer, a launcher
// gives each of its processes one device, also if it starts one process.
std::int64_t default_replicas(const TrainingArguments& args, TrainableModel& model, bool is_rank) {
  const c10::Device device = device_of(model);
  const bool takes_all = args.parallel_mode == "dp" || (device.is_cuda() && device.index() == 0 && !is_rank);
  if (!takes_all) return 1;
  return device.is_cuda() ? static_cast<std::int64_t>(torch::cuda::device_count()) : available_cores();
}

void require_slices_for(int ranks, const TrainingArguments& args) {
  const auto refuse = [](const std::string& what, const std::string& fix) {
    throw UsageError(what, "training arguments", fix);
  };
  if (args.parallel_mode == "dp" || args.replicas > 1) {
    refuse(fmt::format("virtual_shards cannot be combined with parallel_mode {} and {} replicas", args.parallel_mode,
                       args.replicas),
           "leave both out: ranks share the shards (lockstep run --nproc-per-node N)");
  }
  if (args.parallel_mode == "single" && ranks > 1) {
    refuse(fmt::format("virtual_shards cannot be combined with parallel_mode single in a job of {} ranks", ranks),
           "leave parallel_mode out, or start one process without a launcher");
  }
  if (args.virtual_shards < ranks) {
    refuse(fmt::format("virtual_shards {} is too small for {} ranks: a rank would have nothing to do",
                       args.virtual_shards, ranks),
           "start fewer ranks, or use more shards, which changes the batch of an update");
  }
}

ParallelChoice slices_on(int ranks, const TrainingArguments& args, const Communicator* group) {
  return {EngineKind::Slices, 1,
          fmt::format("DistributedDataParallel: {} virtual shards on {} rank{}{}", args.virtual_shards, ranks,
                      ranks == 1 ? "" : "s", group == nullptr ? "" : fmt::format(", engine {}", group->engine()))};
}

}  // namespace

void GradientEngine::run_slices(std::uint64_t, const std::function<void(std::int64_t)>&) {
  throw Error("this engine has no virtual shards", "GradientEngine", "set virtual_shards");
}

std::vector<ReplicaDevice> replica_devices(const ParallelChoice& choice, TrainableModel& model) {
  const std::string kind = device_of(model).is_cuda() ? "cuda:" : "cpu:";
  std::vector<ReplicaDevice> devices;
  for (std::int64_t i = 0; i < choice.replicas; ++i) devices.emplace_back(kind + std::to_string(i));
  return devices;
}

void require_engine_for(int ranks, const TrainingArguments& args) {
  if (args.virtual_shards > 0) return require_slices_for(ranks, args);
  const bool is_of_one_process = args.parallel_mode == "single" || args.parallel_mode == "dp" || args.replicas > 1;
  if (ranks == 1 || !is_of_one_process) return;
  throw UsageError(fmt::format("parallel_mode {} and replicas {} cannot be used in a job of {} ranks",
                               args.parallel_mode, args.replicas, ranks),
                   "training arguments", "leave both out, or start one process without a launcher");
}

ParallelChoice choose_engine(const TrainingArguments& args, TrainableModel& model, const Communicator* group,
                             bool is_rank) {
  const int world_size = group == nullptr ? 1 : group->world_size();
  require_engine_for(world_size, args);
  if (args.virtual_shards > 0) return slices_on(world_size, args, group);
  if (world_size > 1) {
    return {EngineKind::DistributedDataParallel, 1,
            fmt::format("DistributedDataParallel: {} ranks, engine {}", world_size, group->engine())};
  }
  if (args.parallel_mode == "ddp") {
    throw UsageError("parallel_mode ddp cannot be used in a single process", "training arguments",
                     "start it with lockstep run --nproc-per-node N, or leave parallel_mode out");
  }
  const bool may_copy = args.parallel_mode != "single";
  const std::int64_t replicas = !may_copy           ? 1
                                : args.replicas > 0 ? args.replicas
                                                    : default_replicas(args, model, is_rank);
  if (replicas == 1) return {EngineKind::Single, 1, text_of_one_replica(args, model, is_rank)};
  if (!model.module() || model.meets_ranks_in_loss()) {
    if (args.replicas == 0 && args.parallel_mode == "auto") {
      return {EngineKind::Single, 1, text_of_one_replica(args, model, is_rank)};
    }
    throw UsageError(
        fmt::format("{} replicas cannot be made of a model {}", replicas,
                    model.module() ? "whose loss compares the samples of a batch" : "that cannot be copied"),
        "training arguments", "use lockstep run --nproc-per-node N instead of replicas");
  }
  return {EngineKind::DataParallel, replicas,
          fmt::format("DataParallel: {}{} replicas in one process", is_rank ? "" : "no launcher, ", replicas)};
}

std::unique_ptr<GradientEngine> make_gradient_engine(const ParallelChoice& choice, const TrainingArguments& args,
                                                     const std::shared_ptr<TrainableModel>& model,
                                                     const std::shared_ptr<Communicator>& group, bool are_level) {
  const Sharding sharding = sharding_of(args, "training arguments");
  const int stage = sharding.stage();
  if (stage > 1 && choice.kind != EngineKind::DistributedDataParallel)  // FSDP becomes NO_SHARD, too
    log_warning("fsdp {}: this job has one rank, so nothing is sharded", fsdp_name(sharding));
  if (choice.kind == EngineKind::Single) return std::make_unique<SingleEngine>(model, args.label_smoothing_factor);
  if (choice.kind == EngineKind::DataParallel) {
    return std::make_unique<ReplicaEngine>(model, args.label_smoothing_factor, replica_devices(choice, *model));
  }
  if (choice.kind == EngineKind::Slices) return make_slice_engine(args, model, group, are_level);
  return make_ddp_engine(args, model, group);
}

}  // namespace lockstep
