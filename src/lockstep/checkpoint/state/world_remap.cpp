#include "lockstep/checkpoint/state/world_remap.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/files/checkpoint_files.h"

namespace lockstep {
namespace {

std::string remap_text(const Checkpoint& checkpoint, int world_size) {
  return fmt::format("{} was written by {} rank{}; this job has {}", checkpoint.path(), checkpoint.world_size(),
                     checkpoint.world_size() == 1 ? "" : "s", world_size);
}

void remap_samplers(const Checkpoint& checkpoint, int world_size, ResumeState& result) {
  std::vector<std::map<std::string, SamplerState>> saved;
  for (int rank = 0; rank < checkpoint.world_size(); ++rank) saved.push_back(checkpoint.samplers(rank));
  for (const auto& item : saved.front()) {
    std::vector<SamplerState> of_ranks;
    for (const auto& samplers : saved) {
      const auto found = samplers.find(item.first);
      if (found != samplers.end()) of_ranks.push_back(found->second);
    }
    std::int64_t repeated = 0;
    const SamplerState state = remap_sampler(of_ranks, world_size, repeated);
    result.samplers[item.first] = state;
    result.notice += fmt::format(
        "\n  data \"{}\": epoch {} continues after {} samples, {} on each rank{}", item.first, state.epoch,
        state.position * world_size + repeated, state.position,
        repeated == 0 ? "" : fmt::format("; {} that do not divide by {} are taken again", repeated, world_size));
  }
}

}  // namespace

SamplerState remap_sampler(const std::vector<SamplerState>& saved, std::int64_t num_replicas, std::int64_t& repeated) {
  if (saved.empty() || num_replicas < 1) {
    throw Error("there is no position to continue from", "remap_sampler", "start the epoch over");
  }
  SamplerState result = saved.front();
  std::int64_t taken = 0;
  for (const SamplerState& state : saved) {
    if (state.epoch != result.epoch || state.seed != result.seed || state.dataset_size != result.dataset_size) {
      throw Error(fmt::format("the saved ranks were in different epochs ({} and {}), orders or datasets", result.epoch,
                              state.epoch),
                  "remap_sampler", "resume with the world size of the saved run");
    }
    taken += state.position;
  }
  taken = std::min(taken, result.dataset_size);  // the end of an epoch may be padded
  result.position = taken / num_replicas;
  result.num_replicas = num_replicas;
  repeated = taken % num_replicas;
  return result;
}

void require_generators(const Checkpoint& checkpoint) {
  for (int rank = 0; rank < checkpoint.world_size(); ++rank) {
    if (checkpoint.has_file(generators_file(rank))) continue;
    throw Error(fmt::format("there is no {}: the random numbers of rank {} would differ", generators_file(rank), rank),
                checkpoint.path(), "resume from another checkpoint, or copy this one again from a whole copy");
  }
}

ResumeState resume_state(const Checkpoint& checkpoint, int rank, int world_size, bool allow_remap) {
  ResumeState result;
  result.generators = checkpoint.generators(rank);
  if (checkpoint.world_size() == world_size) {
    result.samplers = checkpoint.samplers(rank);
    result.rank_tensors = checkpoint.rank_tensors(rank);
    return result;
  }
  const std::string what = remap_text(checkpoint, world_size);
  if (!allow_remap) {
    throw Error(what, checkpoint.path(),
                fmt::format("start {} ranks; or set allow_world_size_change (--allow-world-size-change true): data "
                            "then continues after the samples that all ranks had taken, and the result does not equal, "
                            "bit for bit, the result of a run that was not stopped",
                            checkpoint.world_size()));
  }
  result.is_remapped = true;
  result.notice = what + ":";
  remap_samplers(checkpoint, world_size, result);
  result.notice += "\n  weights and optimizer: unchanged";
  result.notice += world_size > checkpoint.world_size()
                       ? fmt::format("\n  generators: ranks from {} on keep the seed that they were started with",
                                     checkpoint.world_size())
                       : "\n  generators: each remaining rank continues with its own";
  bool has_tensors = false;
  for (int each = 0; each < checkpoint.world_size(); ++each) has_tensors |= !checkpoint.rank_tensors(each).empty();
  if (has_tensors) {
    result.notice +=
        "\n  what each rank had not shared yet is dropped: gradients of an open window, residuals of a hook, local "
        "weights in local SGD";
  }
  return result;
}

}  // namespace lockstep
