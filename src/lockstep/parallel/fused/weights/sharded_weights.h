#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/agreement/step_position.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/tensor_sample.h"
#include "lockstep/parallel/fused/update_plan.h"
#include "lockstep/parallel/fused/weights/gather_order.h"
#include "lockstep/parallel/fused/weights/read_watch.h"
#include "lockstep/parallel/fused/weights/sharded_copies.h"
#include "lockstep/parallel/fused/weights/weight_units.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"
#include "lockstep/parallel/update/weight_place.h"
#include "lockstep/tensor/tensor_part.h"

namespace lockstep {

/// The weights of a fused update in shards (Rajbhandari et al., 2020, arXiv:1910.02054, stage 3): each rank keeps the
/// elements that it updates. A unit is gathered, for all ranks of a host together if the engine can, when LibTorch is
/// about to read one of its weights, in a forward or backward, and freed when others have followed. Besides the unit in
/// use, one other is there: the one that followed it in the step before, or the one before it. What is in no unit stays
/// until backward ends.
///
/// All ranks enter the same units in the same order. Gathering uses a group of its own, because gradients leave in an
/// order that other things decide.
class ShardedWeights final : public WeightPlace, public ReadWatcher {
 public:
  struct Parts {
    const GradientBuckets& gradients;
    std::vector<FusedBucket>& buckets;  ///< with regions; gets weights
    const std::shared_ptr<Communicator>& communicator;
    bool gathers_for_host;  ///< the engine is a HostMemoryEngine, and the ranks of a host have one copy of a unit
    bool follows_backward;  ///< forwards may begin without `enter_forward`
    const UpdatePlan& plan;
    bool has_copies;  ///< `compute_copy` gets bf16 copies
    std::function<StepPosition()> position;
  };
  /// Takes the parameters' memory away. What is given must outlive this object. Collective.
  ShardedWeights(const Parts& parts, const std::vector<std::string>& units, bool reshard_after_forward);
  /// After `gather_all`, parameters get memory of their own; otherwise a read is an Error from then on.
  ~ShardedWeights() override;

  void* owned_weights(std::size_t bucket) const override;

  void enter_forward() { ++forwards_; }
  void leave_forward() noexcept;
  /// The group in which layers are gathered. A rank that leaves out a step gathers the next one there, so the others'
  /// step meets it there.
  Communicator& meeting() const override { return *gathering_; }
  void leave_backward() noexcept override;
  void free_all() override;
  /// Gathers everything, until `free_all`. Collective. @return  false if everything was there
  bool gather_all();
  void take_writes() override;
  void give_back() override;

  /// This rank's elements of each parameter, perhaps none: views of its shards, or what the program has written. Not
  /// collective.
  TensorParts own_parts();
  /// Lets `write` give new values to all of these elements. Values that the program has written are forgotten. Frees
  /// what was gathered. Not collective, but each rank must do so before the next unit is gathered.
  void write_own_parts(const std::function<void(const TensorParts&)>& write) override;

  bool is_moved(std::size_t bucket, std::size_t place) const override;
  /// Takes the owned elements alone.
  void adopt(std::size_t bucket, std::size_t place) override;
  void check_comparable(const WeightChanges& changes) const override;

  /// The bf16 copies; null if there are none.
  ShardedCopies* copies() { return copies_.get(); }

  std::int64_t peak_bytes() const { return peak_bytes_; }
  void note_peak();

  std::size_t parameter_at(std::size_t bucket, std::int64_t element) const override;
  void begin_read(std::size_t parameter) override { begin_unit(whole_of(plan_.of[parameter]), parameter); }
  void end_read(std::size_t parameter) noexcept override { end_unit(whole_of(plan_.of[parameter])); }

  /// Units are counted twice: number i is unit i, gathered as forwards read it, and beyond the last unit each has one
  /// more number, for all of its weights in their own type. @return  this number, which is i itself if forwards read
  /// all in their own type
  std::size_t whole_of(std::size_t unit) const { return has_part(unit) ? plan_.units.size() + unit : unit; }
  /// The unit is about to be read, because of this parameter. Ends with `end_unit`. @throws Error  as begin_read
  void begin_unit(std::size_t number, std::size_t parameter);
  void end_unit(std::size_t number) noexcept { --units_[number].readers; }

  /// The elements of the bucket that are this rank's and of that parameter. None if `begin` is not below `end`.
  Region own_part(std::size_t bucket, std::size_t place) const;

  /// A parameter in memory.
  struct Shown {
    const at::Tensor& view;      ///< what the parameter is then
    const WeightSample& sample;  ///< since it was gathered
    const std::byte* elements;
  };
  /// Lets the parameter be `view`, if it has no memory.
  void show(std::size_t bucket, std::size_t place, const at::Tensor& view, WeightSample& sample);
  /// Takes that memory away from the parameter. If it was written, it gets memory of its own with what is there.
  void hide(std::size_t bucket, std::size_t place, const Shown& shown);

 private:
  struct Bucket {
    std::unique_ptr<WatchedMemory> memory;
    at::Tensor shard;
    std::vector<at::Tensor> views;      // of each parameter: what it is while the bucket is here
    std::vector<at::Tensor> absent;     // and while it is not
    std::vector<WeightSample> samples;  // since it was gathered
    std::shared_ptr<Work> work;
    int users = 0;  // units that are here or coming
  };
  enum class Presence { Freed, Coming, Here };
  struct Unit {
    Presence presence = Presence::Freed;
    std::atomic<int> readers{0};    // operations that run, in evaluation perhaps in several threads
    std::uint64_t in_backward = 0;  // the last backward that has read it
    at::Tensor call, calls;         // what this rank gathers and has moved, and the same of all ranks
    std::shared_ptr<Work> check;
  };

  std::unique_ptr<WatchedMemory> make_memory(std::size_t bucket, bool for_host);
  void share_out(std::size_t bucket);
  bool may_gather() const;
  bool may_free(std::size_t unit) const;
  void enter(std::size_t unit);
  void start(std::size_t unit);
  void finish(std::size_t unit);
  void free(std::size_t unit);
  void check_calls(Unit& unit, std::size_t number);
  [[noreturn]] void end_groups(const std::string& what, const std::string& fix);
  std::int64_t moved_parameters() const;
  bool is_outside(std::size_t number) const { return number % plan_.units.size() == 0; }
  const std::vector<std::size_t>& buckets_of(std::size_t number) const {
    return plan_.units[number % plan_.units.size()].buckets;
  }
  bool has_part(std::size_t number) const {
    return copies_ && number < plan_.units.size() && copies_->has_part(number);
  }
  void show_unit(std::size_t number);
  void hide_unit(std::size_t number);
  bool is_written(std::size_t bucket, std::size_t place, const Shown& shown) const;
  Shown shown(std::size_t bucket, std::size_t place) const;
  at::Tensor own_values(std::size_t bucket, std::size_t place, std::int64_t begin, std::int64_t end) const;
  void give_own_memory(std::size_t bucket, std::size_t place, const std::byte* elements);
  void own_bucket(std::size_t bucket);
  void free_quietly() noexcept;
  std::string name_of(std::size_t unit) const;

  const GradientBuckets& gradients_;
  std::vector<FusedBucket>& buckets_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Communicator> gathering_;
  const bool follows_backward_;
  const std::function<StepPosition()> position_;
  const bool reshards_;
  WeightUnits plan_;
  std::vector<Bucket> states_;
  std::vector<Unit> units_;
  std::unique_ptr<ShardedCopies> copies_;
  WatchedParameters watched_;
  GatherOrder order_;
  std::size_t current_ = 0;      // the unit that was entered last
  int forwards_ = 0;             // that run
  std::uint64_t backwards_ = 1;  // begun
  bool keeps_all_ = false;       // from gather_all to free_all
  std::int64_t bytes_ = 0, peak_bytes_ = 0;
};

}  // namespace lockstep
