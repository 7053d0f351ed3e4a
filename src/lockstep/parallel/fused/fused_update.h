#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/failure_record.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/agreement/step_position.h"
#include "lockstep/parallel/fuse_options.h"
#include "lockstep/parallel/fused/agreement/update_agreement.h"
#include "lockstep/parallel/update/update_clipping.h"
#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_part.h"

namespace lockstep {

class Slices;

/// The update of an optimizer whose work the ranks share: each rank adds up the gradients of its share of every bucket,
/// clips, and updates its share of the weights. Here are its beginning and end, and what all ranks must agree on first;
/// then UpdateClipping or `make_step` continues. If the optimizer has an UpdateRescue, lost ranks are survived, or
/// nothing is fused. All calls are collective, except the destructor and those marked otherwise.
class FusedUpdate final : public StepDelegate {
 public:
  /// Takes over the steps of `optimizer`, and the buckets of `reducer` that this update can handle.
  /// @param slices  null without slices; else it must outlive this object
  /// @return  null if it can handle no bucket (with slices: not all), or if memory is short; the cause is then
  /// in `reason`
  static std::unique_ptr<FusedUpdate> make(FlatOptimizer& optimizer, Reducer& reducer,
                                           const std::shared_ptr<Communicator>& communicator, FuseOptions options,
                                           std::string& reason, const Slices* slices = nullptr);
  /// Gives each rank memory of its own for the weights. Not collective. If the optimizer still exists, it keeps its
  /// share of the state and makes no more steps.
  ~FusedUpdate() override;

  bool is_active() const { return is_active_; }             ///< not collective
  FuseMode mode() const;                                    ///< not collective
  bool covers(const at::Tensor& parameter) const override;  ///< not collective
  bool has_sent_gradients() const;                          ///< not collective

  StepResult step(const StepOptions& options) override;
  bool gradients_are_zero() const override;
  void gradients_dropped() override;
  double gradient_norm(const std::vector<at::Tensor>& parameters, const ClipOptions& options) override;
  void scale_gradients(const std::vector<at::Tensor>& parameters, double factor) override;
  void optimizer_destroyed() noexcept override;

  /// Call it before each forward that a backward may follow. Not collective.
  /// @throws Error  if something other than the update has updated weights or clipped gradients; the group then ends
  void before_forward();

  /// For a call that writes weights. Not collective, but every rank does so.
  /// @throws Error  if gradients wait for their update
  WeightPlace& weights_between_steps(const std::string& call);
  /// Null if the update is not in force. Not collective.
  WeightPlace* weights() const { return context_.weights.get(); }

  /// The gradients of slices are complete on this rank. Not collective.
  void slices_ended() { context_.own_gradients->take_slice_sums(); }

  /// Takes part in one update of the other ranks without gradients. @return  true if no rank has inputs left
  bool shadow_update();
  /// Gives the optimizer its whole state and its own steps back.
  void unfuse();
  /// As unfuse, but the optimizer keeps its part of the state, and cannot step any more.
  void unfuse_weights();

 private:
  FusedUpdate(FlatOptimizer& optimizer, Reducer& reducer, std::shared_ptr<Communicator> communicator);

  void release(bool memory_stays = false) noexcept;
  void look(const UpdateRequest* request);
  void agree(const UpdateRequest* request);
  void take_up();
  void reduce_rest();
  StepResult make_update();
  /// Runs `body`. If it throws on this rank only, the group ends, because the others would wait.
  template <typename Body>
  auto guarded(const Body& body) {
    const at::NoGradGuard no_grad;
    try {
      return body();
    } catch (const AgreedError&) {
      throw;
    } catch (const std::exception& error) {
      const std::string text = error.what();
      if (cause_of(error) != nullptr) record_failure(error);  // a peer's fault, not this rank's
      context_.communicator->abort("a fused update failed: " + text.substr(0, text.find('\n')));
      std::rethrow_exception(with_positions(*context_.communicator, context_.backward.place.position(),
                                            "a step or clipping", std::current_exception()));
    }
  }

  UpdateContext context_;
  PartList parts_;  // refers to the context
  bool is_active_ = false;
  const AnySlot stale_;  // sums of all ranks' gradients do not have all that this rank has
  UpdateClipping clipping_;
  bool zeroed_ = false;              // the last update left zeros
  std::uint64_t zeroed_writes_ = 0;  // FusedGradients::writes at that time
};

}  // namespace lockstep
