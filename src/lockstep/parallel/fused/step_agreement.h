#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// What a rank wants done with the gradients.
struct StepRequest {
  enum class Kind { Step, Norm, Scale };
  Kind kind = Kind::Step;
  StepOptions options;          ///< of a step
  double norm_type = 2;         ///< of Norm
  double factor = 1;            ///< of Scale
  std::uint64_t selection = 0;  ///< which parameters Norm and Scale mean: a number that differs between selections
};

/// What every rank must know of all before a fused step: who has a gradient for which parameter, who has run out of
/// inputs, that all ask for the same, whether gradients were summed up already, and whether something was written that
/// must not or had to be looked at. One small message.
class StepAgreement {
 public:
  StepAgreement(std::size_t parameters, int world_size);

  void clear();
  /// [parameters]: 1 where this rank, and after the exchange any rank, has a gradient.
  std::vector<std::uint8_t>& contributed() { return contributed_; }
  const std::vector<std::uint8_t>& contributed() const { return contributed_; }
  void set_request(const StepRequest& request);
  /// The sums of all ranks' gradients are not what they would be now, on this rank.
  void set_stale() { stale_ = true; }
  /// Something is wrong on this rank.
  void set_faulty() { faulty_ = true; }
  /// Parameters of this rank lie in other memory, or the program has written them since the last step.
  void set_moved() { moved_ = true; }
  /// This rank has run out of inputs: it does what the others ask for.
  void set_joined(int rank) { joined_[static_cast<std::size_t>(rank)] = 1; }

  /// Collective. When it returns, every rank has entered: what each wrote before, the others may read.
  /// @throws Error  on every rank, if those with inputs ask for different things and nothing else is wrong
  void exchange(Communicator& communicator);

  const StepRequest& request() const { return request_; }
  bool stale() const { return stale_; }    ///< on any rank
  bool faulty() const { return faulty_; }  ///< on any rank
  bool moved() const { return moved_; }    ///< on any rank
  bool joined(int rank) const { return joined_[static_cast<std::size_t>(rank)] != 0; }
  int active_ranks() const;  ///< those that have inputs
  int lowest_active_rank() const;

 private:
  std::vector<std::uint8_t> contributed_;
  std::vector<std::uint8_t> joined_;
  bool stale_ = false;
  bool faulty_ = false;
  bool moved_ = false;
  bool has_request_ = false;
  StepRequest request_;
};

}  // namespace lockstep
