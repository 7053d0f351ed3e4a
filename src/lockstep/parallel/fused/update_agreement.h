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
  StepOptions options;          ///< for Update
  double norm_type = 2;         ///< for Norm
  double factor = 1;            ///< for Scale
  std::uint64_t selection = 0;  ///< identifies the parameters of Norm and Scale: differs between different selections
};

/// What every rank must learn from all ranks before a fused update: which ranks have a gradient for which parameter,
/// which have run out of inputs, whether all have the same request, whether gradients were summed already, and whether
/// writes were found that are forbidden or whose values must be compared. One small message.
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
  /// This rank has run out of inputs and follows the others' request.
  void set_joined(int rank) { joined_[static_cast<std::size_t>(rank)] = 1; }

  /// Collective. When it returns, every rank has entered: what each rank wrote before, the others may read.
  /// @throws Error  on every rank, if ranks with inputs have different requests and no rank has found a fault
  void exchange(Communicator& communicator);

  const UpdateRequest& request() const { return request_; }
  bool stale() const { return stale_; }                ///< on any rank
  bool faulty() const { return faulty_; }              ///< on any rank
  bool moved() const { return moved_; }                ///< on any rank
  bool wants_copies() const { return wants_copies_; }  ///< on any rank
  bool sums_differ() const { return sums_differ_; }
  bool updates_differ() const { return updates_differ_; }
  std::uint8_t kept_sums() const { return kept_sums_.value_or(0); }  ///< of the ranks that said it
  /// The bits in whose byte the ranks that set them differ.
  std::uint32_t differing_bits() const { return differing_bits_; }
  bool joined(int rank) const { return joined_[static_cast<std::size_t>(rank)] != 0; }
  int active_ranks() const;  ///< number of ranks that have inputs
  int lowest_active_rank() const;

 private:
  void read_request(const std::uint8_t* bytes, const Communicator& communicator);

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
  bool has_request_ = false;
  UpdateRequest request_;
};

}  // namespace lockstep
