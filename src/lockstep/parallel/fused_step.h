#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "lockstep/base/failure_record.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/fused_memory.h"
#include "lockstep/parallel/owned_gradients.h"
#include "lockstep/parallel/reducer.h"
#include "lockstep/parallel/step_agreement.h"

namespace lockstep {

/// How an optimizer's step works.
enum class FuseMode {
  Off,            ///< gradients are averaged in backward, and every rank updates all weights
  SharedWeights,  ///< one copy of the weights for all ranks of the host; each updates a share
  ShardedState,   ///< each rank has the weights, but updates a share of them and sends it to the others
};
/// "off", "shared weights", "sharded state"
const char* to_string(FuseMode mode);

struct FuseOptions {
  /// false: each rank keeps weights of its own, even where ranks could share them.
  bool share_weights = true;
  /// Float, BFloat16 or Half: of fp32 weights' gradients between backward and step. 16 bits halve their memory; the
  /// step adds them up in fp32 (where weights are shared), but several backwards of one step are added in 16 bits.
  at::ScalarType gradient_dtype = at::ScalarType::Float;
};

/// The step of an optimizer whose work the ranks share: each adds up the gradients of its share of every bucket, clips,
/// and updates its share of the weights. All calls but the destructor and those that say so are collective.
class FusedStep final : public StepDelegate {
 public:
  /// Takes over the steps of `optimizer`, and those buckets of `reducer` that it can.
  /// @return  null where there is nothing it can take, or memory is short, with the cause in `reason`
  static std::unique_ptr<FusedStep> make(FlatOptimizer& optimizer, Reducer& reducer,
                                         const std::shared_ptr<Communicator>& communicator, FuseOptions options,
                                         std::string& reason);
  /// Gives each rank memory of its own for the weights. Not collective. The optimizer, if it is still there, keeps its
  /// share of the state and makes no more steps.
  ~FusedStep() override;

  bool is_active() const { return optimizer_ != nullptr; }  ///< not collective
  FuseMode mode() const;                                    ///< not collective
  bool covers(const at::Tensor& parameter) const;           ///< not collective

  StepResult step(const StepOptions& options) override;
  bool gradients_are_zero() const override;
  double clip_grad_norm(double max_norm, double norm_type, bool error_if_nonfinite) override;
  void optimizer_destroyed() noexcept override;

  /// Takes part in one step of the others with no gradient of its own. @return  true where no rank has inputs left
  bool shadow_step();
  /// Gives the optimizer the whole state and its own steps back.
  void unfuse();

 private:
  FusedStep(FlatOptimizer& optimizer, Reducer& reducer, std::shared_ptr<Communicator> communicator);

  void choose_buckets();
  void take_over(FuseOptions options);
  void place_gradients(at::ScalarType dtype);
  void check_weights_are_here() const;
  void agree(const StepRequest* request);
  void share_group_options();
  StepResult run_step();
  double run_clip();
  OwnedGradients owned_gradients(std::size_t bucket);
  std::vector<OwnedGradients> owned_gradients();
  double global_norm(double p);
  bool global_all_finite();
  void update(double factor, bool zero);
  void zero_buckets();
  void zero_others();
  void count_step(double waited_s);
  std::vector<at::Tensor> other_parameters() const;
  void release() noexcept;
  /// Runs `body`. An error of this rank alone would leave the others waiting: then the group ends.
  template <typename Body>
  auto guarded(const Body& body) {
    const at::NoGradGuard no_grad;
    try {
      return body();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      if (cause_of(error) != nullptr) record_failure(error);  // a peer's fault, and not that of who aborts
      communicator_->abort("a fused step failed: " + text.substr(0, text.find('\n')));
      throw;
    }
  }

  FlatOptimizer* optimizer_;
  Reducer& reducer_;
  std::shared_ptr<Communicator> communicator_;
  std::vector<FusedBucket> buckets_;
  std::unordered_set<const c10::TensorImpl*> covered_;
  std::unique_ptr<FusedMemory> memory_;
  StepAgreement agreement_;
  bool zeroed_ = false;              // by the last step
  std::uint64_t zeroed_writes_ = 0;  // Reducer::writes_for_step at that time
};

}  // namespace lockstep
