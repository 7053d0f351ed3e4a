#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// A rank's request for the gradients.
struct UpdateRequest {
  enum class Kind { Update, Norm, Scale };
  Kind kind = Kind::Update;
  StepOptions options;                  ///< for Update
  ClipOptions clip;                     ///< for Norm
  double factor = 1;                    ///< for Scale
  std::uint64_t selection = 0;          ///< identifies the parameters of Norm and Scale
  std::vector<std::size_t> parameters;  ///< these parameters' indices. Not sent
};

/// What every rank must learn from all ranks before a fused update: which ranks have a gradient for which parameter,
/// which have run out of inputs, whether all have the same request, settings and place in the training, whether
/// gradients were summed already, and whether writes were found that are forbidden or whose values must be compared.
/// One small message.
class UpdateAgreement {
 public:
  UpdateAgreement(std::size_t parameters, int world_size);

  void clear();
  /// [parameters]: 1 if this rank (after the exchange: any rank) has a gradient.
  std::vector<std::uint8_t>& contributed() { return contributed_; }
  const std::vector<std::uint8_t>& contributed() const { return contributed_; }
  void set_request(const UpdateRequest& request);
  /// On this rank, the existing sums of all ranks' gradients are out of date.
  void set_stale() { stale_ = true; }
  /// This rank has found a fault.
  void set_faulty() { faulty_ = true; }
  /// How often this rank, as an owner, has added to the sums that it keeps. Must be equal on all ranks that say it.
  void set_kept_sums(std::uint8_t number) { kept_sums_ = number; }
  /// Parameters of this rank have other memory, or the program has written them since the last update.
  void set_moved() { moved_ = true; }
  /// A forward of this rank has asked for bf16 copies of weights that have none.
  void set_wants_copies() { wants_copies_ = true; }
  /// Bits that must be equal on all ranks that set them.
  void set_bits(std::uint32_t bits) { bits_ = bits; }
  /// A number of the update that must be equal on all ranks that set it.
  void set_update(std::uint64_t update) { update_ = update; }
  /// A number of what all ranks must have in common, also those without inputs: see UpdateTerms.
  void set_common(std::uint64_t common) { common_ = common; }
  /// Numbers of what ranks with inputs must have in common, and of what they should: see UpdateTerms.
  void set_settings(std::uint64_t settings) { settings_ = settings; }
  void set_place(std::uint64_t place) { place_ = place; }
  void set_left_out(std::uint16_t left_out) { left_out_ = left_out; }
  /// This rank has run out of inputs and follows the others' request.
  void set_joined(int rank) { joined_[static_cast<std::size_t>(rank)] = 1; }

  /// Collective. When it returns, every rank has entered: what each rank wrote before, the others may read.
  void exchange(Communicator& communicator);

  /// What all ranks have, or this one, if they differ.
  const UpdateRequest& request() const { return request_; }
  /// Ranks with inputs have different requests, settings or places.
  bool terms_differ() const { return terms_differ_; }
  /// Any ranks have different things in common.
  bool common_differs() const { return common_differs_; }
  bool left_out_differs() const { return left_out_differs_; }
  bool stale() const { return stale_; }                ///< on any rank
  bool faulty() const { return faulty_; }              ///< on any rank
  bool moved() const { return moved_; }                ///< on any rank
  bool wants_copies() const { return wants_copies_; }  ///< on any rank
  bool sums_differ() const { return sums_differ_; }
  bool updates_differ() const { return updates_differ_; }
  std::uint8_t kept_sums() const { return kept_sums_.value_or(0); }  ///< of the ranks that said it
  /// By rank: it has inputs.
  std::vector<bool> active() const;
  /// The bits in whose byte the ranks that set them differ.
  std::uint32_t differing_bits() const { return differing_bits_; }
  bool joined(int rank) const { return joined_[static_cast<std::size_t>(rank)] != 0; }
  int active_ranks() const;  ///< number of ranks that have inputs
  int lowest_active_rank() const;

 private:
  std::vector<std::uint8_t> contributed_;
  std::vector<std::uint8_t> joined_;
  bool stale_ = false;
  bool faulty_ = false;
  bool moved_ = false;
  bool wants_copies_ = false;
  std::optional<std::uint32_t> bits_;
  std::uint32_t differing_bits_ = 0;
  std::optional<std::uint8_t> kept_sums_;
  bool sums_differ_ = false;
  std::optional<std::uint64_t> update_;
  bool updates_differ_ = false;
  std::optional<std::uint64_t> common_, settings_, place_;
  std::optional<std::uint16_t> left_out_;
  bool terms_differ_ = false;
  bool common_differs_ = false;
  bool left_out_differs_ = false;
  bool has_request_ = false;
  UpdateRequest request_;
};

}  // namespace lockstep
