#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/agreement/step_position.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/weights/compared_calls.h"
#include "lockstep/parallel/fused/weights/gather_order.h"
#include "lockstep/parallel/fused/weights/gathered_parts.h"
#include "lockstep/parallel/fused/weights/read_watch.h"
#include "lockstep/parallel/fused/weights/sharded_buckets.h"
#include "lockstep/parallel/fused/weights/weight_bytes.h"
#include "lockstep/parallel/fused/weights/weight_units.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// Gathers the units of weights in shards, and frees them. A unit is gathered when LibTorch is about to read one of its
/// weights, in a forward or backward, and freed when others have followed. Besides the unit in use, one other is there:
/// the one that followed it in the step before, or the one before it. What is in no unit stays until backward ends.
///
/// All ranks enter the same units in the same order. Units are counted twice if there are copies: number i is unit i,
/// gathered as forwards read it, and beyond the last unit each has one more number, for all of its weights in their own
/// type.
class UnitGathering final : public ReadWatcher {
 public:
  struct Needs {
    const GradientBuckets& gradients;
    const std::vector<FusedBucket>& buckets;
    const WeightUnits& units;
    ShardedBuckets& shards;
    WeightBytes& bytes;
    Communicator& communicator;
    Communicator& group;  ///< in which units are gathered
    std::function<StepPosition()> position;
    bool has_copies;
    bool follows_backward;  ///< forwards may begin without `enter_forward`
    bool reshards;          ///< after forward
  };
  /// What is given must outlive this object.
  explicit UnitGathering(const Needs& needs);

  /// From now on, units that are a part there are gathered as such.
  void use_parts(GatheredParts& parts) { parts_ = &parts; }

  void enter_forward() { ++forwards_; }
  void leave_forward() noexcept;
  void leave_backward() noexcept;
  void free_all();
  void free_quietly() noexcept;
  /// Gathers everything, until `free_all`. Collective. @return  false if everything was there
  bool gather_all();
  bool keeps_all() const { return keeps_all_; }
  /// Gathers one unit after the other, all its weights in their own type, so that there are never two copies of
  /// everything. Nothing is gathered. Collective.
  void visit_all(const std::function<void(const WeightUnit&)>& visit);

  std::size_t parameter_at(std::size_t bucket, std::int64_t element) const override;
  void begin_read(std::size_t parameter) override { begin_unit(whole_of(with_.units.of[parameter]), parameter); }
  void end_read(std::size_t parameter) noexcept override { end_unit(whole_of(with_.units.of[parameter])); }

  /// The number for all weights of the unit in their own type, which is that of the unit if forwards read it so.
  std::size_t whole_of(std::size_t unit) const { return has_part(unit) ? with_.units.units.size() + unit : unit; }
  /// The unit is about to be read, because of this parameter. Ends with `end_unit`. @throws Error  as begin_read
  void begin_unit(std::size_t number, std::size_t parameter);
  void end_unit(std::size_t number) noexcept { --units_[number].readers; }

 private:
  enum class Presence { Freed, Coming, Here };
  struct Unit {
    Presence presence = Presence::Freed;
    std::atomic<int> readers{0};    // operations that run, in evaluation perhaps in several threads
    std::uint64_t in_backward = 0;  // the last backward that has read it
  };

  bool may_gather() const;
  bool may_free(std::size_t number) const;
  void enter(std::size_t number);
  void start(std::size_t number);
  void finish(std::size_t number);
  void free(std::size_t number);
  bool is_outside(std::size_t number) const { return number % with_.units.units.size() == 0; }
  bool has_part(std::size_t number) const {
    return parts_ != nullptr && number < with_.units.units.size() && parts_->has(number);
  }
  const std::vector<std::size_t>& buckets_of(std::size_t number) const {
    return with_.units.units[number % with_.units.units.size()].buckets;
  }
  template <typename Do>
  void for_each_parameter(std::size_t number, const Do& act) const;

  const Needs with_;
  std::vector<Unit> units_;  // by number
  ComparedCalls calls_;
  GatheredParts* parts_ = nullptr;  // null without copies
  GatherOrder order_;
  std::size_t current_ = 0;      // the unit that was entered last
  int forwards_ = 0;             // that run
  std::uint64_t backwards_ = 1;  // begun
  bool keeps_all_ = false;       // from gather_all to free_all
};

}  // namespace lockstep
