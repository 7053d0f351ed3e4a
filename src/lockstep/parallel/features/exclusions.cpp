#include "lockstep/parallel/features/exclusions.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

constexpr const char* kByItself = "no shard could be computed by itself";
constexpr const char* kGivesBack = "each rank adds up its shards' gradients in buckets, which these stages free";
constexpr const char* kFinish =
    "others can finish a lost rank's update only if the ranks share their weights (stage 1)";
constexpr const char* kChangesGroup = "lost ranks change the group";
constexpr const char* kOneOfThem = "leave one of them out";

const char* cell_of(Exclusion::Kind kind) {
  switch (kind) {
    case Exclusion::Kind::Error:
      return "an error";
    case Exclusion::Kind::NotFused:
      return "not fused";
    case Exclusion::Kind::Needs:
      return "needs it";
  }
  return "";
}

}  // namespace

const char* name_of(Feature feature) {
  switch (feature) {
    case Feature::VirtualShards:
      return "virtual shards";
    case Feature::StaticGraph:
      return "static_graph";
    case Feature::UnsentBuffers:
      return "broadcast_buffers = false";
    case Feature::IgnoredTensors:
      return "ignored parameters or buffers";
    case Feature::SparseGradients:
      return "sparse gradients";
    case Feature::Devices:
      return "CUDA devices";
    case Feature::FollowBackward:
      return "follow_backward";
    case Feature::Hook:
      return "a communication hook";
    case Feature::DivergingHook:
      return "a communication hook that leaves the ranks apart";
    case Feature::Join:
      return "join";
    case Feature::Fuse:
      return "a fused optimizer";
    case Feature::Stage2:
      return "stage 2";
    case Feature::Stage3:
      return "stage 3";
    case Feature::HybridShard:
      return "hybrid_shard";
    case Feature::Units:
      return "units";
    case Feature::Gradients16:
      return "gradient_dtype of 16 bits";
    case Feature::TorchScript:
      return "a TorchScript module";
    case Feature::Accumulation:
      return "gradient accumulation";
    case Feature::Replicas:
      return "several replicas in one process";
    case Feature::SyncBatchNorm:
      return "SyncBatchNorm";
    case Feature::LossOverRanks:
      return "a loss over the samples of all ranks";
    case Feature::PreparedLoader:
      return "a prepared loader";
    case Feature::Survival:
      return "survival of lost ranks";
    case Feature::OwnWeights:
      return "share_weights = false";
    case Feature::OwnGroup:
      return "a process_group of the program's own";
    case Feature::Trace:
      return "a trace";
    case Feature::Count:
      break;
  }
  return "";
}

const std::vector<Exclusion>& exclusions() {
  using F = Feature;
  using Kind = Exclusion::Kind;
  static const std::vector<Exclusion> all = {
      {F::VirtualShards, F::Devices, Kind::Error, "kernels of CUDA promise no fixed order of additions",
       "train on the CPU, or leave virtual shards out"},
      {F::VirtualShards, F::StaticGraph, Kind::Error, "no backward of a shard holds a bucket back",
       "leave static_graph out"},
      {F::VirtualShards, F::UnsentBuffers, Kind::Error, "buffers of each rank depend on the number of ranks",
       "leave broadcast_buffers on, or virtual shards out"},
      {F::VirtualShards, F::IgnoredTensors, Kind::Error, "what is not synchronised depends on the number of ranks",
       "leave parameters_and_buffers_to_ignore empty, or virtual shards out"},
      {F::VirtualShards, F::SparseGradients, Kind::Error, "the ranks exchange such gradients row by row",
       "build the embedding with sparse(false), or leave virtual shards out"},
      {F::VirtualShards, F::FollowBackward, Kind::Error, "it does not know shards", kOneOfThem},
      {F::VirtualShards, F::Hook, Kind::Error, "a hook adds gradients in an order of its own", kOneOfThem},
      {F::VirtualShards, F::Join, Kind::Error, "ranks run out of inputs one after the other", kOneOfThem},
      {F::VirtualShards, F::Stage2, Kind::NotFused, kGivesBack, kOneOfThem},
      {F::VirtualShards, F::Stage3, Kind::NotFused, kGivesBack, kOneOfThem},
      {F::VirtualShards, F::Gradients16, Kind::NotFused, "16 bits round each rank's part of a sum", kOneOfThem},
      {F::VirtualShards, F::Accumulation, Kind::Error, "each shard is a micro-batch of the update",
       "leave gradient_accumulation_steps out and take more shards"},
      {F::VirtualShards, F::Replicas, Kind::Error, "ranks share the shards",
       "leave parallel_mode and replicas out, and start ranks: lockstep run --nproc-per-node N"},
      {F::VirtualShards, F::SyncBatchNorm, Kind::Error, kByItself, "use BatchNorm, which sees one shard at a time"},
      {F::VirtualShards, F::LossOverRanks, Kind::Error, kByItself,
       "use a loss whose samples do not depend on each other"},
      {F::VirtualShards, F::PreparedLoader, Kind::Error, "it deals samples to ranks, whose number may change",
       "read the samples of (update, shard) in the body of run_shards, from a loader that is not prepared, or leave "
       "virtual shards out"},
      {F::Survival, F::VirtualShards, Kind::Needs, "the update would have other samples on fewer ranks",
       "set virtual_shards, to the number of ranks or a multiple of it; or leave survive_lost_ranks out: lockstep run "
       "--max-restarts N starts all ranks again"},
      {F::Survival, F::Stage2, Kind::NotFused, kFinish, kOneOfThem},
      {F::Survival, F::Stage3, Kind::NotFused, kFinish, kOneOfThem},
      {F::Survival, F::OwnWeights, Kind::NotFused, kFinish, kOneOfThem},
      {F::Survival, F::OwnGroup, Kind::Error, kChangesGroup, kOneOfThem},
      {F::Survival, F::Trace, Kind::Error, kChangesGroup, kOneOfThem},
      {F::Hook, F::Fuse, Kind::NotFused, "the step averages gradients itself, and would pass the hook by",
       "register the hook instead of calling fuse, or call unfuse first"},
      {F::DivergingHook, F::Join, Kind::Error, "no rank would learn when another has run out of inputs",
       "give all ranks the same number of inputs, or take a hook that averages in every step"},
      {F::Stage3, F::Join, Kind::Error,
       "a rank that has run out of inputs would gather no layer, and the others would wait for it",
       "give all ranks the same number of inputs, or choose stage 2"},
      {F::Stage3, F::TorchScript, Kind::Error, "its operations may read weights without LibTorch's dispatcher",
       "choose stage 2, or build the module in C++"},
      {F::HybridShard, F::Stage2, Kind::Needs,
       "hosts have replicas of the weights, and share out gradients and the optimizer's state", "choose stage 2"},
      {F::Stage2, F::Units, Kind::Error, "stage 2 gathers no weights",
       "leave units out, or choose FullShard or HybridShard"},
  };
  return all;
}

std::string table_of_exclusions() {
  std::string text = "| | with | what happens | why |\n|---|---|---|---|\n";
  for (const Exclusion& each : exclusions()) {
    text +=
        fmt::format("| {} | {} | {} | {} |\n", name_of(each.first), name_of(each.second), cell_of(each.kind), each.why);
  }
  return text;
}

}  // namespace lockstep
