#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/host_memory.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/tensor_sample.h"
#include "lockstep/parallel/fused/update_plan.h"
#include "lockstep/parallel/fused/weights/read_watch.h"
#include "lockstep/parallel/fused/weights/sharded_buckets.h"
#include "lockstep/parallel/fused/weights/unit_part.h"
#include "lockstep/parallel/fused/weights/weight_bytes.h"
#include "lockstep/parallel/fused/weights/weight_units.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// The units that are gathered as a `UnitPart`, some of their weights as bf16 copies, and the memory to which those
/// come: for each parameter, or, if the ranks of a host have one copy of it, for each unit, to which the engine writes.
/// Also copies that this rank rounds from weights in memory, because their unit has no such part.
class GatheredParts {
 public:
  struct Needs {
    const GradientBuckets& gradients;
    const std::vector<FusedBucket>& buckets;
    const WeightUnits& units;
    const UpdatePlan& plan;
    ShardedBuckets& shards;
    WeightBytes& bytes;
    int rank;
    HostMemoryEngine* engine;  ///< gathers for all ranks of a host; else null
  };
  /// Makes memory for copies of all fp32 parameters. What is given must outlive this object.
  /// @param watcher  knows, for n parameters, memory i as parameter i in its own type, and n + i as its copy; memory
  /// 3n + k is that of unit k
  GatheredParts(ReadWatcher& watcher, const Needs& needs);

  /// The watched tensor that is a copy; undefined if the parameter has none.
  const at::Tensor& copy_of(std::size_t parameter) const { return weights_[parameter].copy; }

  /// Whether the unit is gathered as a part.
  bool has(std::size_t unit) const { return parts_[unit] != nullptr; }
  const UnitPart& part(std::size_t unit) const { return *parts_[unit]; }
  /// Whether a part brings the parameter in its own type.
  bool brings_itself(std::size_t parameter) const { return weights_[parameter].is_in_part; }
  /// From now on the unit is gathered as these entries, which have all its parameters. Nothing may be gathered.
  /// Collective if there is an engine.
  void make(std::size_t unit, std::vector<UnitPart::Entry> entries);

  /// Gathers a unit's part, and shows its parameters. @param unit  has a part
  void start(std::size_t unit, Communicator& group);
  void finish(std::size_t unit);
  /// Frees it.
  void close(std::size_t unit);
  /// A parameter that its unit's part has brought into memory.
  ShownWeight shown(std::size_t parameter) const {
    return {weights_[parameter].view, weights_[parameter].sample, weights_[parameter].elements};
  }

  /// Rounds a copy of a parameter that is in memory. Evaluations may call it in several threads.
  /// @param number  of the unit that has brought the parameter: `close_rounded` of that number frees the copy
  void round(std::size_t parameter, std::size_t number);
  void close_rounded(std::size_t number);

 private:
  struct Weight {
    std::size_t bucket = 0, place = 0;
    std::unique_ptr<WatchedMemory> copy_memory;  // null if it has no copies, or if they are in memory of the unit
    at::Tensor copy;                             // watched
    std::unique_ptr<WatchedMemory> memory;       // null if it is in no part itself, or in memory of the unit
    at::Tensor view;                             // what the parameter is while its part is here
    const std::byte* elements = nullptr;         // and element 0 of that
    WeightSample sample;
    bool is_in_part = false;  // in its own type
  };

  const std::byte* elements_of(std::size_t parameter) const;
  void make_memory(std::size_t parameter);
  void make_memory_of_host(std::size_t unit);
  WatchedMemory& memory_of(const UnitPart::Entry& entry);
  void open_entries(std::size_t unit);
  void close_entries(std::size_t unit);

  ReadWatcher& watcher_;
  const Needs with_;
  const std::size_t count_;                              // of parameters
  std::vector<Weight> weights_;                          // by parameter
  std::vector<std::unique_ptr<UnitPart>> parts_;         // by unit
  std::vector<std::unique_ptr<WatchedMemory>> of_host_;  // by unit; null if each rank gathers for itself
  std::mutex rounding_;
  std::vector<std::vector<std::size_t>> rounded_;  // by number of a unit: copies that are open
};

}  // namespace lockstep
