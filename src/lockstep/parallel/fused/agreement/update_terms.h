#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/parallel/agreement/frozen_parameters.h"
#include "lockstep/parallel/reducer/unused_forwards.h"
#include "lockstep/parallel/update/update_context.h"
#include "lockstep/parallel/update/update_part.h"

namespace lockstep {

/// What all ranks must have in common before an update whose work they share. Each rank updates its part by its own
/// optimizer, so a rank with another learning rate, or with gradients of another batch, would make all weights wrong.
///
/// These are the place in the training (which module, and how many synchronised backwards since the last update) and
/// the optimizer's settings: its kind, all options of all parameter groups, the parameters of each, and which of the
/// module's are frozen. Numbers of them travel with the agreement. If the numbers differ, the ranks exchange texts, and
/// the error says what differs where.
class UpdateTerms final : public UpdatePart {
 public:
  /// What is given must outlive this object.
  explicit UpdateTerms(UpdateContext& context);

  /// Requires that the ranks fuse optimizers of one kind, with the same parameters in the same groups. Collective.
  /// @param how  the other arguments of `fuse`, in lines. @throws Error  on every rank, naming the first difference
  void check_equal(const std::vector<std::string>& how) const;
  /// Notes the group of each of the parameters that are covered, which must stay in it from now on.
  void keep_groups();

  /// Every rank, also one that has run out of inputs, says which optimizer of which module it is, and the parameters of
  /// each group. The options of that rank become those of the others.
  void look() override;
  /// @throws AgreedError  if ranks differ, naming what differs where; if a parameter that the update covers is in
  /// another group than it was, or in no group
  void check() override;
  void ended() override;

 private:
  std::uint64_t list_number();
  std::uint64_t settings();
  bool list_has_changed() const;
  void read_list();
  std::string text_of(const at::Tensor& parameter) const;
  std::vector<std::string> list_lines() const;
  std::vector<std::string> settings_lines() const;
  std::vector<std::string> lines(const UpdateRequest& request) const;
  std::uint64_t backwards() const { return backward_.place.backwards() - backwards_before_; }
  std::uint64_t zero_grads() const { return optimizer_.zero_grads() - zero_grads_before_; }
  std::vector<std::string> common_lines() const;
  [[noreturn]] void throw_difference() const;
  [[noreturn]] void throw_common_difference() const;
  void check_list();

  const FlatOptimizer& optimizer_;
  BackwardContext& backward_;
  Communicator& communicator_;
  const std::unordered_map<const c10::TensorImpl*, std::size_t>& covered_;
  UpdateAgreement& agreement_;
  const EqualSlot<std::uint64_t> common_;            // what all ranks must have in common, also those without inputs
  const EqualSlot<std::uint64_t> settings_, place_;  // what ranks with inputs must have in common
  const EqualSlot<std::uint16_t> left_out_;          // and what they should
  std::vector<NamedTensor> named_;                   // of the module
  FrozenParameters frozen_;                          // among them
  std::unordered_map<const c10::TensorImpl*, std::size_t> index_of_;  // in named_
  std::unordered_map<const c10::TensorImpl*, std::size_t> group_of_;  // of what the update covers
  std::vector<const c10::TensorImpl*> list_;                          // of all groups; null behind each
  std::uint64_t list_number_ = 0;
  bool is_new_list_ = false;                                    // not checked yet
  std::uint64_t backwards_before_ = 0, zero_grads_before_ = 0;  // the last update
  UnusedForwards forwards_;                                     // since then
};

}  // namespace lockstep
